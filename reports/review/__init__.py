"""The review page: one file that says whether a release may ship, and shows when what happened."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.evidence.gate import GateSummary
from harness.evidence.layout import REPORT
from harness.model.errors import BadInput
from reports import matrix
from reports.incidents.page import remove_others, write_pages
from reports.review.loaded import load
from reports.review.page import charts_of, page_of
from reports.review.trace import TRACE, trace_of, write_trace
from reports.terminal import clean

PAGE: Final = matrix.REVIEW_PAGE


def write_page(
    evidence: Path,
    out: Path | None = None,
    *,
    summary: GateSummary | None = None,
    without: Mapping[str, str] | None = None,
) -> Path:
    """Writes the page of a bundle or an --out folder, whole or not at all, and returns its path.

    Beside it are pages of incidents, the matrix of contracts if one was written, and the timeline of each scenario for
    Perfetto, in a folder of its name.

    out: the folder for it; None = `report` in the evidence. summary, without: of a judgement that has just ended, see
    `load`. Raises BadInput if the evidence is no bundle or gate, or the page cannot be written there.
    """
    folder = evidence / REPORT if out is None else out
    loaded = load(evidence, summary, without)
    charts = charts_of(loaded, folder)
    contracts = matrix.page_beside_review(evidence)
    page = page_of(loaded, folder, charts, contracts=matrix.PAGE if contracts else "")
    unfinished = folder / f"{PAGE}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stems = write_pages(loaded, folder)
        if contracts:
            matrix.write_page(folder, contracts)
        for chart in charts:
            if chart.timeline is not None:
                trace = trace_of(chart.section.name, chart.timeline, chart.section.played)
                write_trace(folder / chart.section.anchor / TRACE, trace)
        try:
            unfinished.write_text(page, encoding="utf-8", errors="backslashreplace")
            unfinished.replace(folder / PAGE)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        remove_others(folder, stems)
    except OSError as refusal:
        why = refusal.strerror or str(refusal)
        raise BadInput(f"{folder / PAGE} cannot be written ({why}); give another folder with --out") from None
    return folder / PAGE


def offer_page(
    evidence: Path, *, summary: GateSummary | None = None, without: Mapping[str, str] | None = None
) -> Path | None:
    """Writes the page after a verdict was shown. A failure is one line of warning."""
    try:
        return write_page(evidence, summary=summary, without=without)
    except Exception as failure:  # a bug, too, must not hide the verdict
        name = "" if isinstance(failure, BadInput) else f"{type(failure).__name__}: "
        print(clean(f"durability: there is no review page: {name}{failure}")[:500], file=sys.stderr, flush=True)
        return None
