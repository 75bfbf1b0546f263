"""Allure results of judged evidence, without pytest and with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.evidence.gate import GateSummary
from harness.model.errors import BadInput
from reports.allure.case import cases_of
from reports.allure.results import write_results
from reports.allure.surroundings import surroundings
from reports.review.loaded import load
from reports.terminal import warn


def write_allure(
    evidence: Path, folder: Path, *, summary: GateSummary | None = None, without: Mapping[str, str] | None = None
) -> int:
    """Writes the results of a bundle or an --out folder into a folder of Allure results; returns how many there are.

    summary, without: of a judgement that has just ended, see `load`. Raises BadInput if the evidence is no bundle or
    gate, or the folder cannot be written.
    """
    loaded = load(evidence, summary, without)
    cases = list(cases_of(loaded))
    write_results(folder, cases, surroundings(loaded))
    return len(cases)


def offer_allure(
    evidence: Path, folder: Path, *, summary: GateSummary | None = None, without: Mapping[str, str] | None = None
) -> int:
    """Writes the results after a verdict was shown. A failure is one line of warning, and 0 results."""
    try:
        return write_allure(evidence, folder, summary=summary, without=without)
    except Exception as failure:  # a bug, too, must not hide the verdict
        name = "" if isinstance(failure, BadInput) else f"{type(failure).__name__}: "
        warn(f"there are no Allure results: {name}{failure}")
        return 0
