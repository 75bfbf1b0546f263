"""Turns a verdict into the outcome of a test: FAIL fails an assertion, INCONCLUSIVE is `broken` in Allure.

With allure-pytest, the result of the test gets the content that `--allure` of the commands writes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.evidence.gate import GATE
from harness.model.errors import BadEvidence
from harness.model.verdict import Status, Verdict
from reports.allure.case import Case, cases_of_scenario
from reports.allure.results import fill, report
from reports.allure.surroundings import surroundings
from reports.junit import story
from reports.review.loaded import Loaded, load
from reports.terminal import clean

if TYPE_CHECKING:
    from allure_commons.model2 import TestResult


class Inconclusive(Exception):  # noqa: N818 - the verdict's name
    """The run proved too little. Not an AssertionError, so Allure shows the test as broken and not as failed."""


def assert_pass(verdict: Verdict) -> None:
    """AssertionError on FAIL, Inconclusive on INCONCLUSIVE, nothing on PASS."""
    text = "\n".join([f"{verdict.scenario}: {verdict.status.name}", *story(verdict)])
    if verdict.status is Status.FAIL:
        raise AssertionError(text)
    if verdict.status is Status.INCONCLUSIVE:
        raise Inconclusive(text)


def attach_page(path: Path, name: str) -> None:
    """Attaches a page to the running test's Allure result; nothing without allure-pytest."""
    try:
        import allure
    except ModuleNotFoundError:
        return
    allure.attach(path.read_text(encoding="utf-8"), name=name, attachment_type=allure.attachment_type.HTML)


def offer_content(result: TestResult, bundle: Path, folder: Path) -> None:
    """Gives the Allure result of a test the content of a judged bundle, and writes results of the other tries.

    folder: the folder of Allure results; it gets the files that concern all results. A result with another status than
    that of the verdict keeps status and message: the test failed for another reason. A failure is one line of warning.
    """
    try:
        _give_content(result, bundle, folder)
    except Exception as failure:  # the outcome of the test is known, and must not become an error of pytest itself
        print(clean(f"{bundle}: no content for Allure: {type(failure).__name__}: {failure}")[:500], file=sys.stderr)


def _give_content(result: TestResult, bundle: Path, folder: Path) -> None:
    from allure_commons import plugin_manager

    loaded = _loaded(bundle)
    for name, content in surroundings(loaded).items():
        (folder / name).write_text(content, encoding="utf-8")
    *others, deciding = _cases(loaded, bundle)
    for case in others:
        report(case, plugin_manager.hook)
    status, details = result.status, result.statusDetails
    attachments = result.attachments
    fill(result, deciding, plugin_manager.hook)
    result.attachments += attachments
    if result.status != status:
        result.status, result.statusDetails = status, details


def _loaded(bundle: Path) -> Loaded:
    """The gate that the bundle belongs to, or the bundle by itself."""
    if (bundle.parent / GATE).is_file():
        gate = load(bundle.parent)
        if any(result.bundle == bundle.name for result in gate.summary.results):
            return gate
    return load(bundle)


def _cases(loaded: Loaded, bundle: Path) -> list[Case]:
    """The cases of the scenario of this bundle, the one that decides last."""
    for result in loaded.summary.results:
        if result.bundle is not None and loaded.folder(result.bundle) == (loaded.evidence if loaded.single else bundle):
            return cases_of_scenario(loaded, result)
    raise BadEvidence(f"{bundle} has no verdict")
