"""The review page: one file that says whether a release may ship, and shows when what happened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.evidence.gate import GateSummary
from harness.evidence.layout import PAGE, REPORT
from harness.evidence.past_runs import past_gates
from harness.model.errors import BadInput
from harness.model.known_findings import KnownFile
from reports import matrix
from reports.incidents.page import remove_others, write_pages
from reports.review.comparison.against import Against
from reports.review.loaded import load
from reports.review.page import PICTURE, Chart, charts_of, page_of
from reports.review.picture import svg_of
from reports.review.trace import TRACE, trace_of, write_trace
from reports.terminal import clean, warn
from reports.whole_files import write_text


def write_page(
    evidence: Path,
    out: Path | None = None,
    *,
    summary: GateSummary | None = None,
    without: Mapping[str, str] | None = None,
    known: KnownFile | None = None,
    pictures: bool = False,
    against: Against | None = None,
    history: Path | None = None,
) -> Path:
    """Writes the page of a bundle or an --out folder, whole or not at all, and returns its path.

    Beside it are pages of incidents, the matrix of contracts if one was written, and the timeline of each scenario for
    Perfetto, in a folder of its name.

    out: the folder for it; None = `report` in the evidence. summary, without, known: see `load`. pictures: each
    timeline as an SVG, too, which takes half a second of CPU. against: its comparison with an earlier gate.
    history: a file of earlier gates. Raises BadInput if the evidence is no bundle or gate, the history is damaged, or
    the page cannot be written there.
    """
    folder = evidence / REPORT if out is None else out
    loaded = load(evidence, summary, without, known)
    contracts = matrix.page_beside_review(evidence)
    past = () if history is None else past_gates(history)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        charts = charts_of(loaded, folder, pictures=pictures)
        page = page_of(loaded, folder, charts, contracts=matrix.PAGE if contracts else "", against=against, past=past)
        stems = write_pages(loaded, folder)
        if contracts:
            matrix.write_page(folder, contracts)
        for chart in charts:
            _write_timelines(folder, chart)
        write_text(folder / PAGE, page)
        remove_others(folder, stems)
    except OSError as refusal:
        why = refusal.strerror or str(refusal)
        raise BadInput(f"{folder / PAGE} cannot be written ({why}); give another folder with --out") from None
    return folder / PAGE


def _write_timelines(folder: Path, chart: Chart) -> None:
    if chart.timeline is None:
        return
    own = folder / chart.section.anchor
    write_trace(own / TRACE, trace_of(chart.section.name, chart.timeline, chart.section.played))
    if chart.picture:
        write_text(own / PICTURE, svg_of(chart.timeline, clean(chart.section.name)))


def offer_page(
    evidence: Path,
    out: Path | None = None,
    *,
    summary: GateSummary | None = None,
    without: Mapping[str, str] | None = None,
    against: Against | None = None,
    history: Path | None = None,
) -> Path | None:
    """Writes the page after a verdict was shown. A failure is one line of warning."""
    try:
        return write_page(evidence, out, summary=summary, without=without, against=against, history=history)
    except Exception as failure:  # a bug, too, must not hide the verdict
        name = "" if isinstance(failure, BadInput) else f"{type(failure).__name__}: "
        warn(f"there is no review page: {name}{failure}")
        return None
