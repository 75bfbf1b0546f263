"""Shows verdicts in the terminal, in junit.xml, in Allure and on pages. Decides nothing itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.evidence.documents import plain
from harness.evidence.gate import GATE, GateSummary, read_gate
from harness.evidence.past_runs import PastGate, past_gates
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.model.exits import Exit
from harness.model.known_findings import KnownFile
from harness.model.verdict import Verdict
from reports.allure import offer_allure
from reports.job_summary import STEP_SUMMARY, markdown
from reports.job_summary import write_job_summary as _write_job_summary
from reports.junit import JUNIT
from reports.junit import write_junit as _write_junit
from reports.matrix import MARKDOWN, matrix_document, read_matrix, write_matrix
from reports.matrix_lines import matrix_lines
from reports.notice import notice_of
from reports.overview import quiet_lines, summary_lines
from reports.review import offer_page, write_page
from reports.review.comparison.against import Against
from reports.review.comparison.against import against as compare
from reports.review.comparison.against import document_of as comparison_document
from reports.review.comparison.lines import comparison_lines, quiet_comparison_lines
from reports.review.loaded import load
from reports.terminal import TerminalProgress, print_lines, progress, table, warn
from reports.trend import HEADING, chosen, history_document, points, steadiness
from reports.vote import vote_lines

__all__ = [
    "MARKDOWN",
    "Against",
    "TerminalProgress",
    "chosen",
    "compared",
    "comparison_document",
    "history_document",
    "load",
    "matrix_document",
    "notice",
    "offer_page",
    "progress",
    "publish",
    "read_matrix",
    "show",
    "show_allure",
    "show_comparison",
    "show_history",
    "show_matrix",
    "table",
    "verdicts_of",
    "vote",
    "warn",
    "write_job_summary",
    "write_junit",
    "write_matrix",
    "write_page",
]


def publish(
    evidence: Path,
    summary: GateSummary | None = None,
    without: Mapping[str, str] | None = None,
    *,
    quiet: bool = False,
    silent: bool = False,
    history: Path | None = None,
    against: Against | None = None,
) -> Path | None:
    """Writes junit.xml and the review page of a judgement, and prints its summary. Returns the page, if there is one.

    summary: None = that of gate.json. quiet: prints three lines. silent: prints nothing. history: see `write_page`.
    against: its comparison with an earlier gate, which is printed, too; with `quiet` in place of the summary.
    """
    summary = read_gate(evidence) if summary is None else summary
    verdicts = verdicts_of(summary, evidence)
    _write_junit(evidence / JUNIT, summary, verdicts, without or {})
    page = offer_page(evidence, summary=summary, without=without, history=history, against=against)
    if silent:
        return page
    if quiet and against is not None:
        print_lines(quiet_comparison_lines(against, page or evidence))
        return page
    _show(summary, verdicts, evidence, without or {}, page, quiet=quiet)
    if against is not None:
        show_comparison(against)
    return page


def show(
    summary: GateSummary,
    evidence: Path,
    without: Mapping[str, str] | None = None,
    page: Path | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Prints the terminal summary. without: bundles that could not be judged, each with the reason. page: the review
    page, if there is one. quiet: three lines."""
    _show(summary, verdicts_of(summary, evidence), evidence, without or {}, page, quiet=quiet)


def _show(
    summary: GateSummary,
    verdicts: Mapping[str, Verdict],
    evidence: Path,
    without: Mapping[str, str],
    page: Path | None,
    *,
    quiet: bool,
) -> None:
    if quiet:
        print_lines(quiet_lines(summary, verdicts, page or evidence, without))
        return
    print_lines(summary_lines(summary, verdicts, evidence, without))
    if page is not None:
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


def write_job_summary(summary: GateSummary, evidence: Path, without: Mapping[str, str], file: Path | None) -> list[str]:
    """Writes the Markdown summary to `file`, and where GitHub Actions wants it; returns what failed."""
    if file is None and not os.environ.get(STEP_SUMMARY):
        return []
    return _write_job_summary(markdown(summary, verdicts_of(summary, evidence), evidence, without), file)


def notice(summary: GateSummary, evidence: Path, without: Mapping[str, str], code: Exit) -> dict[str, object]:
    """The body for a webhook."""
    return plain(notice_of(summary, verdicts_of(summary, evidence), evidence, without, code))


def vote(evidence: Path, known: KnownFile | None = None, without: Mapping[str, str] | None = None) -> list[str]:
    """Two lines for a vote on the release. BadEvidence if the evidence is no judged bundle or gate. without: bundles
    that could not be judged, each with the reason."""
    loaded = load(evidence, without=without, known=known)
    gate = not loaded.single and (evidence / GATE).is_file()
    return vote_lines(loaded.summary, loaded.verdicts, loaded.without, gate=gate)


def compared(
    before: Path,
    after: Path,
    history: Path | None = None,
    *,
    summary: GateSummary | None = None,
    without: Mapping[str, str] | None = None,
    known: KnownFile | None = None,
) -> Against:
    """Compares two bundles or --out folders. history: a file of earlier gates, which show how far times vary. summary,
    without, known: of `after`, see `load`."""
    past = () if history is None else past_gates(history)
    return compare(load(before), load(after, summary, without, known), past)


def show_comparison(found: Against) -> None:
    """Prints the comparison of two gates."""
    print_lines(comparison_lines(found))


def show_history(gates: Sequence[PastGate], last: int, *, by_run: bool = False) -> None:
    """Prints the last gates, or with `by_run` the last runs in them, and the verdicts by scenario and release."""
    table(HEADING, [point.cells() for point in points(gates, by_run=by_run)[-last:]])
    print_lines([("", "")])
    rows = [(one.scenario, one.release, one.commit, one.word, one.detail) for one in steadiness(gates)]
    table(("scenario", "release", "commit", "verdict", "runs"), rows)


def show_matrix(paths: Sequence[Path]) -> None:
    """Prints the matrix of contracts that one or more runs wrote; see `read_matrix`."""
    print_lines(list(matrix_lines(read_matrix(paths))))


def write_junit(summary: GateSummary, evidence: Path, without: Mapping[str, str] | None = None) -> None:
    """Writes junit.xml into the folder of the evidence."""
    _write_junit(evidence / JUNIT, summary, verdicts_of(summary, evidence), without or {})


def verdicts_of(summary: GateSummary, evidence: Path) -> dict[str, Verdict]:
    """The verdicts that decide, by scenario. `evidence` may be a bundle itself."""
    bundles = [evidence / r.bundle for r in summary.results if r.bundle and r.bundle != evidence.name] or [evidence]
    verdicts = [read_verdict(bundle) for bundle in bundles if (bundle / VERDICT).is_file()]
    return {verdict.scenario: verdict for verdict in verdicts}
