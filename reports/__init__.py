"""Shows verdicts in the terminal, in junit.xml, in Allure and on pages. Decides nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.evidence.gate import GateSummary, read_gate
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.model.verdict import Verdict
from reports.allure import offer_allure
from reports.junit import JUNIT
from reports.junit import write_junit as _write_junit
from reports.matrix import MARKDOWN, matrix_document, read_matrix, write_matrix
from reports.matrix_lines import matrix_lines
from reports.review import offer_page, write_page
from reports.summary import summary_lines
from reports.terminal import print_lines, progress, table

__all__ = [
    "MARKDOWN",
    "matrix_document",
    "offer_page",
    "progress",
    "publish",
    "read_matrix",
    "show",
    "show_allure",
    "show_matrix",
    "show_page",
    "table",
    "write_junit",
    "write_matrix",
    "write_page",
]


def publish(out: Path, allure: Path | None = None) -> None:
    """Prints the summary of a gate and writes its junit.xml and its page. All are made from the files in OUT.

    allure: a folder for results of Allure, too.
    """
    summary = read_gate(out)
    show(summary, out)
    write_junit(summary, out)
    show_page(out)
    show_allure(out, allure)


def show(summary: GateSummary, evidence: Path, without: Mapping[str, str] | None = None) -> None:
    """Prints the terminal summary. without: bundles that could not be judged, each with the reason."""
    print_lines(summary_lines(summary, _verdicts(summary, evidence), evidence, without or {}))


def show_page(evidence: Path, summary: GateSummary | None = None, without: Mapping[str, str] | None = None) -> None:
    """Writes the review page and prints where it is, or a warning; see `load` for the arguments."""
    if page := offer_page(evidence, summary=summary, without=without):
        print_lines([(f"review page: {page}", "")])


def show_allure(
    evidence: Path,
    folder: Path | None,
    summary: GateSummary | None = None,
    without: Mapping[str, str] | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Writes results of Allure and prints where they are, or a warning; nothing without a folder. See `load`.

    quiet: standard output is for something else.
    """
    if folder is None:
        return
    count = offer_allure(evidence, folder, summary=summary, without=without)
    if count and not quiet:
        print_lines([(f"Allure results: {folder} ({count} of this evidence)", "")])


def show_matrix(paths: Sequence[Path]) -> None:
    """Prints the matrix of contracts that one or more runs wrote; see `read_matrix`."""
    print_lines(list(matrix_lines(read_matrix(paths))))


def write_junit(summary: GateSummary, evidence: Path, without: Mapping[str, str] | None = None) -> None:
    """Writes junit.xml into the folder of the evidence."""
    _write_junit(evidence / JUNIT, summary, _verdicts(summary, evidence), without or {})


def _verdicts(summary: GateSummary, evidence: Path) -> dict[str, Verdict]:
    """The verdicts that decide, by scenario. `evidence` may be a bundle itself."""
    bundles = [evidence / r.bundle for r in summary.results if r.bundle and r.bundle != evidence.name] or [evidence]
    verdicts = [read_verdict(bundle) for bundle in bundles if (bundle / VERDICT).is_file()]
    return {verdict.scenario: verdict for verdict in verdicts}
