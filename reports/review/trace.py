"""timeline.json.gz: the timeline of a scenario for Perfetto (ui.perfetto.dev), as Chrome's trace events.

Steps, incidents and leaders are slices. Acks, errors, reads and latencies are counters. Times are microseconds since
the start of the timeline.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from harness.model.documents.steps import Step
from reports.review.bands import short
from reports.review.rates import Rates
from reports.review.timeline import Timeline
from reports.whole_files import written_whole

TRACE: Final = "timeline.json.gz"
SLICES_MAX: Final = 20_000  # of one group: a leader that changes all the time must not fill the disk
FAULT: Final = "fault"
STEP: Final = "step"
# The groups of tracks, in the order in which Perfetto shows them.
FAULTS, STEPS, INCIDENTS, CLIENTS, LEADERS = range(1, 6)
GROUPS: Final = {
    FAULTS: "Faults, from injection to healing",
    STEPS: "Steps",
    INCIDENTS: "Incidents, by when their records were sent",
    CLIENTS: "Clients",
    LEADERS: "Leader of each partition",
}


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trace event. ph: X = a slice, C = a counter, M = a name. ts, dur: microseconds. pid: a group; tid: a track."""

    name: str
    ph: str
    pid: int
    tid: int = 0
    ts: float | None = None
    dur: float | None = None
    cat: str = ""
    args: dict[str, str | float | list[int] | None]


class Trace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole document. other_data: what the trace is of, and what it lacks."""

    trace_events: list[Event]
    display_time_unit: str = "ms"
    other_data: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """Something that lasts. track: None = any track on which it overlaps nothing."""

    name: str
    from_s: float
    to_s: float
    args: dict[str, str | float | list[int] | None]
    cat: str = ""
    track: str | None = None


def trace_of(scenario: str, timeline: Timeline, steps: Sequence[Step]) -> Trace:
    """The trace of a scenario. At most SLICES_MAX slices of each group are in it, the earliest."""
    left_out: dict[str, str] = {}
    events = [Event(name="process_name", ph="M", pid=pid, args={"name": name}) for pid, name in GROUPS.items()]
    events += [Event(name="process_sort_index", ph="M", pid=pid, args={"sort_index": pid}) for pid in GROUPS]
    for pid, slices in (
        (FAULTS, _faults(timeline)),
        (STEPS, _steps(steps, timeline)),
        (INCIDENTS, _incidents(timeline)),
        (LEADERS, _leaders(timeline)),
    ):
        ordered = sorted(slices, key=lambda one: one.from_s)
        if len(ordered) > SLICES_MAX:
            left_out[GROUPS[pid]] = f"{len(ordered) - SLICES_MAX:,} later slices are left out"
        events += _tracks(pid, ordered[:SLICES_MAX])
    events += _counters(timeline) if timeline.rates is not None else []
    lacks = {f"missing {number}": text for number, text in enumerate(timeline.missing, 1)}
    return Trace(
        trace_events=events,
        other_data={"scenario": short(scenario), "start": f"{timeline.start} UTC", **left_out, **lacks},
    )


def write_trace(path: Path, trace: Trace) -> None:
    """Writes the document, compressed, whole or not at all. OSError where that is not possible."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as stream:
        stream.write(gzip.compress(msgspec.json.encode(trace), 6, mtime=0))


def _faults(timeline: Timeline) -> Iterator[_Slice]:
    length_s = timeline.width_s * timeline.buckets
    for fault in timeline.faults:
        ends = [s for s in (fault.healed_s, fault.ended_s) if s is not None]
        yield _Slice(
            name=fault.name,
            from_s=fault.started_s,
            to_s=max(ends[0] if ends else length_s, fault.started_s),
            cat=FAULT,
            track=fault.name,
            args={
                "do": fault.do,
                "injected_by_s": fault.ended_s,
                "leader_or_isr_changed_at_s": fault.changed_s,
                "healed_at_s": fault.healed_s,
                "isrs_full_at_s": fault.recovered_s,
                "effect": "not known"
                if fault.effect is None
                else f"{'yes' if fault.effect else 'no'}: {fault.because}",
            },
        )


def _steps(steps: Sequence[Step], timeline: Timeline) -> Iterator[_Slice]:
    for step in steps:
        if step.started_ns is not None:
            from_s = (step.started_ns - timeline.start_ns) / 1e9
            to_s = from_s if step.ended_ns is None else (step.ended_ns - timeline.start_ns) / 1e9
            args: dict[str, str | float | list[int] | None] = {"do": short(step.do), "error": short(step.error or "")}
            yield _Slice(name=short(step.name), from_s=from_s, to_s=max(from_s, to_s), cat=STEP, args=args)


def _incidents(timeline: Timeline) -> Iterator[_Slice]:
    for one in timeline.incidents:
        yield _Slice(name=one.text, from_s=one.from_s, to_s=one.to_s, args={})


def _leaders(timeline: Timeline) -> Iterator[_Slice]:
    for of in timeline.leaders:
        for span in of.spans:
            leader = "no leader" if span.leader < 0 else f"broker {span.leader}"
            yield _Slice(
                name=f"{leader}, epoch {span.epoch}",
                from_s=span.from_s,
                to_s=span.to_s,
                track=of.partition,
                args={"leader": span.leader, "epoch": span.epoch, "isr": [*span.isr]},
            )


def _tracks(pid: int, slices: Iterable[_Slice]) -> Iterator[Event]:
    """The slices on numbered tracks. Two that overlap are on different ones: Perfetto drops what is not nested."""
    names: list[str | None] = []
    free_from_s: list[float] = []
    for one in slices:
        fits = (n for n, name in enumerate(names) if name == one.track and free_from_s[n] <= one.from_s)
        tid = next(fits, None)
        if tid is None:
            tid = len(names)
            names.append(one.track)
            free_from_s.append(0)
            yield Event(name="thread_name", ph="M", pid=pid, tid=tid + 1, args={"name": one.track or GROUPS[pid]})
        free_from_s[tid] = one.to_s
        length = _us(one.to_s) - _us(one.from_s)
        yield Event(
            name=one.name, ph="X", pid=pid, tid=tid + 1, ts=_us(one.from_s), dur=length, cat=one.cat, args=one.args
        )


def _counters(timeline: Timeline) -> Iterator[Event]:
    """A value for each bucket, at its start. A counter ends at 0, since Perfetto would draw the last value for ever."""
    rates = timeline.rates
    assert rates is not None
    for name, values in _series(rates, timeline.width_s):
        for bucket, value in enumerate([*values, 0]):
            if value is not None:
                at = _us(bucket * timeline.width_s)
                yield Event(name=name, ph="C", pid=CLIENTS, ts=at, args={"value": round(value, 3)})


def _series(rates: Rates, width_s: float) -> Iterator[tuple[str, Sequence[float | None]]]:
    errors = [refused + unknown for refused, unknown in zip(rates.refused, rates.unknown, strict=True)]
    for name, counts in (("acks", rates.acked), ("errors", errors), ("live reads", rates.reads)):
        yield f"{name} a second", [count / width_s for count in counts]
    yield "ack latency p50, ms", rates.p50_ms
    yield "ack latency p99, ms", rates.p99_ms


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 1)
