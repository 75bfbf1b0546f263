"""The comparison of two gates in the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from harness.evidence.comparison import Found
from harness.model.exits import Exit
from reports.review.comparison.against import Against, Row, some
from reports.review.comparison.spread import CONFIDENCE
from reports.review.comparison.times import Overall, Single
from reports.terminal import Line

SHOWN: Final = 8  # of one sort; page and JSON have all
_STYLE: Final = {Exit.FAIL: "bold red", Exit.INCONCLUSIVE: "bold yellow"}


def comparison_lines(compared: Against) -> list[Line]:
    """The lines with their styles: new findings, findings of A alone, other verdicts, coverage, and times."""
    found = compared.findings
    lines: list[Line] = [("", ""), (compared.word, _STYLE.get(compared.exit, "bold green"))]
    lines += [(f"  before: {_side(compared, 0)}", ""), (f"  now:    {_side(compared, 1)}", "")]
    lines += [(f"  note: {note}", "yellow") for note in compared.notes]
    lines += _listed("new findings", [found_text(one) for one in found.new], "bold red")
    lines += _listed("findings gone", [found_text(one) for one in found.gone], "")
    lines += _listed("findings of before, not decided now", [found_text(one) for one in found.undecided], "yellow")
    lines += _listed("findings in both", [found_text(one) for one in found.in_both], "dim")
    lines += _verdicts(compared.rows)
    lines += _listed("FLAKY, their tries differ", [row.scenario for row in compared.rows if row.flaky], "yellow")
    lines += _listed("covered by no scenario now, and by some before", compared.uncovered, "")
    lines += _listed("covered by some scenario now, and by none before", compared.covered, "")
    less, more = (sum(bool(entries) for entries in side) for side in _coverage(compared.rows))
    if less or more:
        lines.append((f"coverage: {less} scenarios cover less than before, {more} cover more", ""))
    lines += _times(compared)
    return lines


def quiet_comparison_lines(compared: Against, place: Path) -> list[Line]:
    """The word with its reason, the two verdicts, and where to look."""
    before, now = (f"{origin.release} {origin.verdict}" for origin in (compared.a, compared.b))
    both = f"  before: {before}; now: {now}"
    return [(compared.word, _STYLE.get(compared.exit, "bold green")), (both, ""), (f"evidence: {place}", "")]


def _side(compared: Against, number: int) -> str:
    origin = (compared.a, compared.b)[number]
    return "; ".join([f"{origin.release}, {origin.verdict}", *origin.score, str(origin.evidence)])


def _coverage(rows: Sequence[Row]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    return [row.less for row in rows], [row.more for row in rows]


def _listed(title: str, texts: Sequence[str], style: str) -> Iterator[Line]:
    """A title with the first texts; nothing without any."""
    if texts:
        yield f"{title}: {len(texts)}", style
        yield from ((f"  {text}", style) for text in texts[:SHOWN])
        if len(texts) > SHOWN:
            yield f"  and {len(texts) - SHOWN} more", style


def found_text(one: Found) -> str:
    """Such as "lost in leader_killed, a partition of plain: 0 before, 50 now"."""
    where = f", {one.where}" if one.where else ""
    return f"{one.defect.kind} in {one.defect.scenario}{where}: {one.before:,} before, {one.after:,} now"


def _verdicts(rows: Sequence[Row]) -> Iterator[Line]:
    """Scenarios with another verdict, those with the same change in one line."""
    changes: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row.before != row.after:
            changes[row.before, row.after].append(row.scenario)
    for (before, after), names in changes.items():
        yield f"{before} before, {after} now: {some(names, SHOWN)}", ""


def _times(compared: Against) -> Iterator[Line]:
    if not compared.times.overall:
        return
    percent = round(CONFIDENCE * 100)
    yield f"times: median before, median now, mean ratio with its interval ({percent} % for all rows together)", ""
    width = max(len(one.figure.title) for one in compared.times.overall)
    for one in compared.times.overall:
        yield f"  {one.figure.title.ljust(width)}  {overall_text(one)}", "bold" if one.reading.is_change else "dim"
    changed = [f"{name}: {single_text(one)}" for name, one in compared.times.changed]
    yield from _listed("times of single scenarios beyond noise", changed, "bold")


def overall_text(one: Overall) -> str:
    """Such as "3.88 s, 3.81 s, 1.03 (0.93 to 1.13): within noise; 32 scenarios, spread over scenarios"."""
    values = f"{one.figure.shown(one.before)}, {one.figure.shown(one.after)}"
    if one.interval is None:
        return f"{values}: too few scenarios for an interval" if one.before is not None else "in no scenario of both"
    return f"{values}, {interval_text(one)}: {one.reading.value}; {one.interval.pairs} scenarios, {one.basis.value}"


def interval_text(one: Overall) -> str:
    """Such as "1.03 (0.93 to 1.13)"; empty without an interval."""
    between = one.interval
    return "" if between is None else f"{between.ratio:.2f} ({between.low:.2f} to {between.high:.2f})"


def single_text(one: Single) -> str:
    """Such as "p99 of acks during faults 4,023 ms before, 19,000 ms now: higher", and the limits of noise."""
    values = f"{one.figure.shown(one.before)} before, {one.figure.shown(one.after)} now"
    if one.limits is None:
        return f"{one.figure.title} {values}: {one.reading.value}"
    low, high = one.limits
    noise = f"ratios from {low:.2f} to {high:.1f} are within noise by the {one.basis.value}"
    return f"{one.figure.title} {values}: {one.reading.value}; {noise}"
