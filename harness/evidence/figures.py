"""Figures of one judged run that are compared with those of other runs: how long clients waited, and recovery took.

Each figure declares what it is and where it is read; `compare` and the history of runs know no figure by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.evidence.documents import is_there, read_json
from harness.evidence.history import history_in
from harness.evidence.parsing import parse
from harness.model.documents.run import Run
from harness.model.documents.steps import Step, Steps
from harness.model.documents.verdict_facts import Availability
from harness.model.errors import BadEvidence
from harness.model.history.changes import PartitionChange, TopicChange, TopicEvent
from harness.model.history.history import History
from harness.model.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A judged run with the documents that figures are read from. What its bundle lacks is None or ()."""

    verdict: Verdict
    run: Run | None
    steps: Sequence[Step]
    history: History | None

    @property
    def availability(self) -> Availability:
        return self.verdict.facts.availability or Availability()

    @property
    def lasted_s(self) -> float | None:
        """From the begin of the run to its end."""
        return None if self.run is None else self.run.lasted_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure.

    short: the title in a narrow table. meaning: in one sentence. resolution: a smaller value counts as this one when
    values are compared. of: reads it; None = the run does not have it. noise: by this ratio two whole gates on one
    release may differ, because the machine was busier during one of them; it is the largest one that was seen among
    three gates of Kafka 4.4.0 on a shared machine, rounded up. compared: the release may cause a change of it.
    """

    name: str
    title: str
    short: str
    meaning: str
    unit: str
    resolution: float
    of: Callable[[Measured], float | None]
    noise: float = 1.3
    compared: bool = True

    def shown(self, value: float | None) -> str:
        """A value with its unit, such as "4.2 s"; "-" if it is not known."""
        if value is None:
            return "-"
        digits = {"ms": 0, "%": 1}.get(self.unit, 2)
        return f"{value:,.{digits}f} {self.unit}"


def _ack_p99_ms(window: str) -> Callable[[Measured], float | None]:
    def read(run: Measured) -> float | None:
        times = run.availability.ack_ms.get(window)
        return times.p99 if times is not None and times.acks else None

    return read


def _without_acks_s(run: Measured) -> float | None:
    """The mean over partitions. Gaps of one partition do not overlap, since each belongs to one fault."""
    gaps = run.availability.without_acks_s
    places = {place for by_place in gaps.values() for place in by_place}
    return sum(sum(by_place.values()) for by_place in gaps.values()) / len(places) if places else None


def _longest_stall_s(run: Measured) -> float | None:
    stall = run.availability.longest_stall
    if stall is not None:
        return stall.s
    return 0.0 if run.availability.ack_ms else None


def _available_percent(run: Measured) -> float | None:
    without_s, lasted_s = _without_acks_s(run), run.lasted_s
    return max(0.0, 100 * (1 - without_s / lasted_s)) if without_s is not None and lasted_s else None


def _recovery_s(run: Measured) -> float | None:
    healed = [step.healed_ns for step in run.steps if step.healed_ns is not None]
    return recovered_after_s(run.history, max(healed)) if run.history is not None and healed else None


def recovered_after_s(history: History, healed_ns: int) -> float | None:
    """Seconds from a time to the first moment at or after it at which every ISR was full; None if that never came."""
    short: set[tuple[str, int]] = set()
    for change in history.changes:
        if change.time_ns > healed_ns and not short:
            return 0.0
        if isinstance(change, PartitionChange):
            place = (change.topic_id, change.partition)
            (short.discard if set(change.isr) >= set(change.replicas) else short.add)(place)
        elif isinstance(change, TopicChange) and change.event is TopicEvent.DELETED:
            short = {place for place in short if place[0] != change.topic_id}
        if change.time_ns > healed_ns and not short:
            return (change.time_ns - healed_ns) / 1e9
    return None if short else 0.0


FIGURES: Final = (
    Figure(
        name="without_acks_s",
        title="time without acks",
        short="without acks",
        meaning="the sum of gaps of 0.5 s and more in which records waited and none was acknowledged, as the mean over "
        "partitions",
        unit="s",
        resolution=0.5,
        of=_without_acks_s,
    ),
    Figure(
        name="longest_stall_s",
        title="longest time without acks",
        short="longest",
        meaning="the longest such gap of a partition",
        unit="s",
        resolution=0.5,
        of=_longest_stall_s,
    ),
    *(
        Figure(
            name=f"ack_p99_{window}_ms",
            title=f"p99 of acks {window} faults",
            short=f"p99 {window}",
            meaning=f"the 99th percentile of the time from a send to its acknowledgement, {window} faults",
            unit="ms",
            resolution=10,
            of=_ack_p99_ms(window),
            noise=noise,
        )
        for window, noise in (("before", 2.0), ("during", 1.3), ("after", 2.0))
    ),
    Figure(
        name="recovery_s",
        title="recovery time",
        short="recovery",
        meaning="from the healing of the last fault to the first moment at which every ISR was full",
        unit="s",
        resolution=0.1,
        of=_recovery_s,
        noise=1.6,
    ),
    Figure(
        name="available_percent",
        title="availability",
        short="available",
        meaning="the share of the run, over its partitions, that is in no gap without acks",
        unit="%",
        resolution=0.01,
        of=_available_percent,
        compared=False,
    ),
    Figure(
        name="lasted_s",
        title="duration",
        short="lasted",
        meaning="from the begin of the run to its end",
        unit="s",
        resolution=0.1,
        of=lambda run: run.lasted_s,
        compared=False,
    ),
)


def figures_of(bundle: Path, verdict: Verdict) -> Mapping[str, float]:
    """The figures of a judged bundle, by name. A document that is missing or damaged costs the figures that need it."""
    run = Measured(verdict=verdict, run=run_of(bundle), steps=_steps(bundle), history=_history(bundle))
    read = {figure.name: figure.of(run) for figure in FIGURES}
    return {name: value for name, value in read.items() if value is not None}


def run_of(bundle: Path) -> Run | None:
    """The run.json of a bundle; None if it cannot be read."""
    path = bundle / "run.json"
    try:
        return parse(path, read_json(path), Run)
    except BadEvidence:
        return None


def _steps(bundle: Path) -> Steps:
    path = bundle / "steps.json"
    try:
        return parse(path, read_json(path), Steps) if is_there(path) else ()
    except BadEvidence:
        return ()


def _history(bundle: Path) -> History | None:
    try:
        return history_in(bundle)
    except BadEvidence:
        return None
