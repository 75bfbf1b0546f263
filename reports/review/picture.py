"""The timeline of a scenario as a picture without scripts: an SVG file for Allure, for print, and for a browser without
scripts.

It draws the `Timeline` that the interactive chart draws, with the same colours, and counts nothing itself. matplotlib
draws it (see reports/charts/README.md); only functions import it, because its import takes as long as a whole command.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from reports.review.bands import ACKNOWLEDGED, Fault, Leaders, Leadership
from reports.review.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEADERS_MAX: Final = 16  # rows of partitions; a sheet of paper has no place for more
FAULTS_MAX: Final = 24
_LABEL_MAX: Final = 24  # characters of a name beside its row
_WIDTH_IN: Final = 10.0
_ROW_IN: Final = 0.2
_CHART_IN: Final = 1.5
_GAP_IN: Final = 0.5
_LEFT_IN, _RIGHT_IN, _TOP_IN, _BOTTOM_IN = 1.75, 0.25, 0.75, 0.5
_INK, _PAPER, _GRID = "#1d2329", "#ffffff", "#d5dbe0"
_DARK_INK, _DARK_PAPER, _DARK_GRID = "#e4e8eb", "#14181c", "#38414a"
_ACKS, _ERRORS, _READS, _P50, _P99 = "#009e73", "#d4323f", "#0072b2", "#0072b2", "#d55e00"
_FAULT, _NO_EFFECT, _INCIDENT, _NO_LEADER = "#c03a3a", "#8a8a8a", "#a3121f", "#3a3f44"
_TRANSACTION = "#8c6bb1"
_INJECTED, _RECOVERY = "#6d0f18", "#2f9e5f"
_BROKERS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#b2a300", "#7f7f7f")
_DARK_BANDS, _LIGHT_INK = frozenset({"#0072b2", "#8c6bb1", _NO_LEADER}), "#fefefe"
# The paper is opaque, so that the text is readable on any page. Where the reader's system is dark, so is the picture.
_STYLE: Final = (
    "@media (prefers-color-scheme: dark) {"
    f'[style*="fill: {_PAPER}"] {{ fill: {_DARK_PAPER} !important }} '
    f'[style*="fill: {_INK}"] {{ fill: {_DARK_INK} !important }} '
    f'[style*="stroke: {_GRID}"] {{ stroke: {_DARK_GRID} !important }}'
    "}"
)
_SETTINGS: Final = {
    "svg.fonttype": "none",  # text stays text: it is small, and can be searched
    "svg.hashsalt": "timeline",  # else the ids differ from run to run
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 8.0,
    "text.parse_math": False,  # a dollar sign in a name is no formula
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _GRID,
    "axes.facecolor": _PAPER,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "path.simplify_threshold": 0.2,
}
_LONG_NUMBER: Final = re.compile(r"(\d+\.\d\d)\d+")
_DOCTYPE: Final = re.compile(r"<!DOCTYPE[^>]*>\s*")  # some viewers would load what it names
_PATH: Final = re.compile(r' d="[^"]*"')


def svg_of(timeline: Timeline, name: str) -> str:
    """The timeline as an SVG document: the same text for the same data. name: of the scenario, as text for people."""
    from matplotlib import rc_context

    with rc_context(_SETTINGS), warnings.catch_warnings():  # type: ignore[arg-type]  # it wants a dict of literals
        warnings.simplefilter("ignore")  # letters that the font lacks: the browser has another font for them
        figure = _drawn(timeline, name)
        drawn = io.StringIO()
        metadata = {"Date": None, "Creator": None, "Title": f"Timeline: {name}"}
        figure.savefig(drawn, format="svg", metadata=metadata)
    return _finished(drawn.getvalue())


def _finished(svg: str) -> str:
    """The document with the colours of a dark screen, and with coordinates to a hundredth of a point."""
    shorter = _PATH.sub(lambda path: _LONG_NUMBER.sub(r"\1", path[0]), _DOCTYPE.sub("", svg, count=1))
    return shorter.replace("</style>", f"{_STYLE}</style>", 1)


def _drawn(timeline: Timeline, name: str) -> Figure:
    from matplotlib.figure import Figure

    rows = _rows(timeline)
    height = _TOP_IN + sum(inches for _, inches in rows) + _GAP_IN * (len(rows) - 1) + _BOTTOM_IN
    figure = Figure(figsize=(_WIDTH_IN, height), facecolor=_PAPER)
    figure.text(_LEFT_IN / _WIDTH_IN, 1 - 0.22 / height, name, fontsize=10, fontweight="bold", va="center")
    began = f"0 s is {timeline.start} UTC"
    figure.text(_LEFT_IN / _WIDTH_IN, 1 - 0.42 / height, began, va="center")
    top, first = height - _TOP_IN, None
    for number, (row, inches) in enumerate(rows):
        width = (_WIDTH_IN - _LEFT_IN - _RIGHT_IN) / _WIDTH_IN
        place = (_LEFT_IN / _WIDTH_IN, (top - inches) / height, width, inches / height)
        axes = figure.add_axes(place, sharex=first)
        first = first or axes
        _DRAW[row](axes, timeline)
        _finish(axes, timeline, last=number == len(rows) - 1)
        top -= inches + _GAP_IN
    return figure


def _rows(timeline: Timeline) -> list[tuple[str, float]]:
    """The rows of the picture that have data, from top to bottom, with their heights in inches."""
    rows: list[tuple[str, float]] = []
    if timeline.faults:
        rows.append(("faults", _ROW_IN * min(len(timeline.faults), FAULTS_MAX)))
    if timeline.incidents:
        rows.append(("incidents", _ROW_IN * len(timeline.incidents)))
    if timeline.rates is not None:
        rows += [("rates", _CHART_IN), ("latency", _CHART_IN)]
    if timeline.leaders:
        rows.append(("leaders", _ROW_IN * min(len(timeline.leaders), LEADERS_MAX)))
    return rows or [("nothing", _ROW_IN)]


def _finish(axes: Axes, timeline: Timeline, *, last: bool) -> None:
    """Grid and time axis. Only the lowest row has the numbers of the time axis."""
    axes.set_xlim(0, max(timeline.width_s * timeline.buckets, timeline.width_s))
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelbottom=last)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if last:
        axes.set_xlabel("seconds")


def _faults(axes: Axes, timeline: Timeline) -> None:
    shown = timeline.faults[:FAULTS_MAX]
    rest = len(timeline.faults) - len(shown)
    axes.set_title("Faults: injection, effect, healing, recovery" + (f" ({rest} more are not shown)" if rest else ""))
    for row, fault in enumerate(shown):
        colour = _NO_EFFECT if fault.effect is False else _FAULT
        axes.barh(row, _until(fault, timeline) - fault.started_s, left=fault.started_s, height=0.7, color=colour)
        if fault.ended_s is not None:  # the injection
            axes.barh(row, fault.ended_s - fault.started_s, left=fault.started_s, height=0.7, color=_INJECTED)
        if fault.recovered_s is not None and fault.healed_s is not None:
            axes.barh(row, fault.recovered_s - fault.healed_s, left=fault.healed_s, height=0.4, color=_RECOVERY)
        if fault.changed_s is not None:
            axes.plot([fault.changed_s] * 2, [row - 0.45, row + 0.45], color=_INK, linewidth=1.2)
    _name_rows(axes, [fault.name for fault in shown])


def _until(fault: Fault, timeline: Timeline) -> float:
    """When a fault ended, at least a quarter of a bucket after its start, so that each one is visible."""
    last = fault.healed_s if fault.healed_s is not None else fault.ended_s
    end = timeline.width_s * timeline.buckets
    return end if last is None else max(last, fault.started_s + timeline.width_s / 4)


def _incidents(axes: Axes, timeline: Timeline) -> None:
    axes.set_title("Incidents: red when their records were sent, green acknowledged, purple transaction ended")
    middle, gap = timeline.width_s * timeline.buckets / 2, timeline.width_s * timeline.buckets / 200
    for row, mark in enumerate(timeline.incidents):
        end = max(mark.to_s, mark.from_s + timeline.width_s / 4)
        axes.barh(row, end - mark.from_s, left=mark.from_s, height=0.7, color=_INCIDENT)
        for text, at_s in mark.moments:
            colour = _ACKS if text == ACKNOWLEDGED else _TRANSACTION
            axes.plot([at_s] * 2, [row - 0.4, row + 0.4], color=colour, linewidth=1.8)
        end = max([end, *(at_s for _, at_s in mark.moments)])
        _, _, what = mark.text.partition(": ")
        if (mark.from_s + end) / 2 < middle:
            axes.text(end + gap, row, what, va="center", fontsize=7, clip_on=True)
        else:
            axes.text(mark.from_s - gap, row, what, va="center", ha="right", fontsize=7, clip_on=True)
    _name_rows(axes, [mark.text.partition(": ")[0] for mark in timeline.incidents])


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names beside rows that lie one above the other, the first one on top."""
    axes.set_yticks(range(len(names)), [_shortened(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)


def _shortened(name: str) -> str:
    return name if len(name) <= _LABEL_MAX else f"{name[: _LABEL_MAX - 1]}…"


def _rates(axes: Axes, timeline: Timeline) -> None:
    rates = timeline.rates
    if rates is None:
        return
    axes.set_title("Records a second (a gap: none)")
    errors = [refused + unknown for refused, unknown in zip(rates.refused, rates.unknown, strict=True)]
    for label, counts, colour in (
        ("acks", rates.acked, _ACKS),
        ("errors", errors, _ERRORS),
        ("live reads (all readers)", rates.reads, _READS),
    ):
        _line(axes, timeline, label, [count / timeline.width_s or None for count in counts], colour)
    _shade(axes, timeline)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _legend(axes)


def _latency(axes: Axes, timeline: Timeline) -> None:
    rates = timeline.rates
    if rates is None:
        return
    axes.set_title("Ack latency, ms")
    known = [value for value in (*rates.p50_ms, *rates.p99_ms) if value]
    if known:
        axes.set_yscale("log")
    _line(axes, timeline, "p50", rates.p50_ms, _P50)
    _line(axes, timeline, "p99", rates.p99_ms, _P99)
    _shade(axes, timeline)
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.minorticks_off()
    _legend(axes)


def _line(axes: Axes, timeline: Timeline, label: str, values: Sequence[float | None], colour: str) -> None:
    """A point in the middle of each bucket; None is a gap. A point between two gaps has a marker."""
    times = [(bucket + 0.5) * timeline.width_s for bucket in range(len(values))]
    known = [float("nan") if value is None else value for value in values]
    axes.plot(times, known, color=colour, label=label)
    alone = [
        at
        for at, value in enumerate(values)
        if value is not None
        and not any(values[near] is not None for near in (at - 1, at + 1) if 0 <= near < len(values))
    ]
    axes.plot([times[at] for at in alone], [known[at] for at in alone], ".", color=colour, markersize=3)


def _shade(axes: Axes, timeline: Timeline) -> None:
    """The time of each fault as a shade behind the lines."""
    for fault in timeline.faults[:FAULTS_MAX]:
        axes.axvspan(fault.started_s, _until(fault, timeline), color=_FAULT, alpha=0.1, linewidth=0, zorder=0)


def _legend(axes: Axes) -> None:
    place = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.98), "ncols": 3, "frameon": False, "borderaxespad": 0.0}
    axes.legend(**place)


def _leaders(axes: Axes, timeline: Timeline) -> None:
    shown = timeline.leaders[:LEADERS_MAX]
    rest = len(timeline.leaders) - len(shown)
    axes.set_title(
        "Leader of each partition: broker and leader epoch" + (f" ({rest} more are not shown)" if rest else "")
    )
    colours = _colours(timeline.leaders)
    room = timeline.width_s * timeline.buckets / 90  # of one letter, in seconds
    for row, of in enumerate(shown):
        for span in of.spans:
            width = span.to_s - span.from_s
            colour = _NO_LEADER if span.leader < 0 else colours[span.leader]
            axes.barh(row, width, left=span.from_s, height=0.8, color=colour, edgecolor=_PAPER, linewidth=0.4)
            text = next((one for one in _words(span) if width > room * len(one)), "")
            ink = _LIGHT_INK if colour in _DARK_BANDS else "#000000"
            axes.text(span.from_s + room / 2, row, text, color=ink, va="center", fontsize=7)
    _name_rows(axes, [of.partition for of in shown])


def _words(span: Leadership) -> tuple[str, ...]:
    """The texts of a band, the longest one first."""
    if span.leader < 0:
        return ("none",)
    isr = " ".join(str(broker) for broker in span.isr)
    return f"{span.leader}, epoch {span.epoch}, ISR {isr}", f"{span.leader}, epoch {span.epoch}", str(span.leader)


def _colours(leaders: Sequence[Leaders]) -> dict[int, str]:
    """The colour of each broker that led or was in an ISR."""
    known = {broker for of in leaders for span in of.spans for broker in (span.leader, *span.isr)} - {-1}
    return {broker: _BROKERS[number % len(_BROKERS)] for number, broker in enumerate(sorted(known))}


def _nothing(axes: Axes, _timeline: Timeline) -> None:
    axes.set_title("The evidence has nothing to show")
    axes.set_yticks([])


_DRAW: Final = {
    "faults": _faults,
    "incidents": _incidents,
    "rates": _rates,
    "latency": _latency,
    "leaders": _leaders,
    "nothing": _nothing,
}
