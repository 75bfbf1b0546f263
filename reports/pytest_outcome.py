"""Turns a verdict into the outcome of a test: FAIL fails an assertion, INCONCLUSIVE is `broken` in Allure."""

from __future__ import annotations

import json
from pathlib import Path

from harness.evidence.documents import plain
from harness.evidence.verdicts import VERDICT
from harness.model.verdict import Status, Verdict
from reports.junit import story


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


def attach(verdict: Verdict, bundle: Path) -> None:
    """Attaches verdict.json and the summary to the running test's Allure result; nothing without allure-pytest."""
    try:
        import allure
    except ModuleNotFoundError:
        return
    content = json.dumps(plain(verdict), indent=1)
    allure.attach(content, name=VERDICT, attachment_type=allure.attachment_type.JSON)
    gone = verdict.facts.deleted_records
    kept = f"{verdict.durable - gone:,} of {verdict.promised - gone:,} promised records durable"
    head = f"{verdict.scenario}: {verdict.status.name}, {kept}"
    text = "\n".join([head, *story(verdict), f"evidence: {bundle}"])
    allure.attach(text, name="summary", attachment_type=allure.attachment_type.TEXT)
