"""States that last for a time: leaders of partitions, positions of replicas, and faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa

from harness.evidence.figures import recovered_after_s
from harness.evidence.parts import opened
from harness.model.documents.steps import Step
from harness.model.history.changes import PartitionChange
from harness.model.history.history import History
from reports.notation import kafka_notation
from reports.review.rates import Buckets, parts_of
from reports.terminal import clean

Place = tuple[str, str, int]  # topic, topic id, partition
Point = tuple[float, int | None]  # seconds since the start, value; None = nothing is known from here on

_PLACE: Final = ("topic", "topic_id", "partition")
ROWS_MAX: Final = 40  # of faults, and of partitions: a higher chart does not fit on a screen
ACKNOWLEDGED: Final = "acknowledged"  # the text of a moment; any other one is the end of a transaction
_TEXT_MAX: Final = 300
_COLUMNS: Final = (
    "broker",
    "topic",
    "topic_id",
    "partition",
    "at_ns",
    "after_silence",
    "log_start",
    "high_watermark",
    "leader_epoch",
    "log_end",
    "highest_tiered",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault from its injection to its healing. Times are seconds since the start; None = it did not happen.

    changed_s: the first change of a leader or an ISR after it began; None also without an effect, or without a history.
    recovered_s: when every ISR was full after it was healed; the same as `healed_s` if each was.
    """

    name: str
    do: str
    started_s: float
    ended_s: float | None
    healed_s: float | None
    effect: bool | None
    because: str
    changed_s: float | None = None
    recovered_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An incident that condemns, by the times of its records. text: such as "lost: 30 records, plain-0".

    moments: when its records were acknowledged, and when their transactions ended, each with its text.
    """

    text: str
    from_s: float
    to_s: float
    moments: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """A partition and its leader, leader epoch and ISR from one time to another, in seconds since the start."""

    from_s: float
    to_s: float
    leader: int  # -1 = none
    epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaders:
    """The leaders of one partition, in the order of time."""

    partition: str
    spans: tuple[Leadership, ...]


@dataclass(slots=True, kw_only=True)
class Positions:
    """Offsets in one partition, in the order of time.

    ends: the log end of each replica, by broker. The others are as the leader reports them: the high watermark, the
    start of the log, and the first offset that is not in the remote tier.
    """

    partition: str
    ends: dict[int, list[Point]] = field(default_factory=lambda: defaultdict(list))
    high_watermark: list[Point] = field(default_factory=list)
    log_start: list[Point] = field(default_factory=list)
    tiered: list[Point] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One row of the table `positions`."""

    broker: int
    place: Place
    at_ns: int
    after_silence: bool
    log_start: int | None
    high_watermark: int | None
    leader_epoch: int | None
    log_end: int
    highest_tiered: int | None


def faults_of(steps: Sequence[Step], buckets: Buckets, history: History | None) -> tuple[Fault, ...]:
    """The first ROWS_MAX of the steps that are faults and began, in the order of their start."""
    begun = [step for step in steps if step.is_fault and step.started_ns is not None]
    changes = () if history is None else tuple(_changes_ns(history))
    return tuple(
        Fault(
            name=short(step.name),
            do=short(step.do),
            started_s=seconds(step.started_ns or 0, buckets),
            ended_s=None if step.ended_ns is None else seconds(step.ended_ns, buckets),
            healed_s=None if step.healed_ns is None else seconds(step.healed_ns, buckets),
            effect=None if step.effect is None else step.effect.held,
            because=short(kafka_notation((step.effect.because if step.effect else None) or "")),
            changed_s=_changed_s(step, changes, buckets),
            recovered_s=_recovered_s(step, history, buckets),
        )
        for step in sorted(begun, key=lambda step: step.started_ns or 0)[:ROWS_MAX]
    )


def _changes_ns(history: History) -> Iterator[int]:
    """When a leader or an ISR changed."""
    last: dict[tuple[str, int], tuple[int, tuple[int, ...]]] = {}
    for change in history.of(PartitionChange):
        place, state = (change.topic_id, change.partition), (change.leader, change.isr)
        if last.get(place, state) != state:
            yield change.time_ns
        last[place] = state


def _changed_s(step: Step, changes: Sequence[int], buckets: Buckets) -> float | None:
    if step.started_ns is None or step.effect is None or not step.effect.held:
        return None
    until_ns = step.healed_ns or step.ended_ns
    during = (t for t in changes if step.started_ns <= t and (until_ns is None or t <= until_ns))
    first_ns = min(during, default=None)
    return None if first_ns is None else seconds(first_ns, buckets)


def _recovered_s(step: Step, history: History | None, buckets: Buckets) -> float | None:
    if history is None or step.healed_ns is None:
        return None
    after_s = recovered_after_s(history, step.healed_ns)
    return None if after_s is None else round(seconds(step.healed_ns, buckets) + after_s, 3)


def leaders_of(history: History, places: Sequence[Place], buckets: Buckets) -> tuple[Leaders, ...]:
    """The leaders of these partitions during the buckets. A partition without a known state is left out.

    At most ROWS_MAX of them, those with the most changes.
    """
    names = names_of(places)
    found = [Leaders(partition=names[place], spans=tuple(_spans(history, place, buckets))) for place in places]
    known = [one for one in found if one.spans]
    most = sorted(known, key=lambda one: -len(one.spans))[:ROWS_MAX]
    return tuple(one for one in known if one in most)


def _spans(history: History, place: Place, buckets: Buckets) -> Iterator[Leadership]:
    """States that differ in nothing that is shown are one."""
    _, topic_id, partition = place
    last_ns = buckets.start_ns + buckets.width_ns * buckets.count
    life = next((life for life in history.topics if life.topic_id == topic_id), None)
    end_ns = min(last_ns, life.deleted.time_ns) if life and life.deleted else last_ns
    states = history.partition(topic_id, partition)
    changed = [s for i, s in enumerate(states) if i == 0 or _shown(s) != _shown(states[i - 1])]
    ends = [state.time_ns for state in changed[1:]] + [end_ns] * bool(changed)
    for state, until_ns in zip(changed, ends, strict=True):
        from_ns, to_ns = max(state.time_ns, buckets.start_ns), min(until_ns, end_ns)
        if from_ns < to_ns:
            yield Leadership(
                from_s=seconds(from_ns, buckets),
                to_s=seconds(to_ns, buckets),
                leader=state.leader,
                epoch=state.leader_epoch,
                isr=state.isr,
            )


def _shown(state: PartitionChange) -> tuple[int, int, tuple[int, ...]]:
    return state.leader, state.leader_epoch, state.isr


def positions_of(
    bundle: Path, history: History | None, buckets: Buckets, only: Place | None = None
) -> tuple[Positions, ...]:
    """The offsets of every partition in the table `positions`; the last row of a replica in each bucket counts.

    only: the partition to read; None = all. Without a history the leader is not known, and all replicas count for the
    high watermark and the others. Raises BadEvidence for a damaged part.
    """
    rows = sorted((row for row in _rows(bundle) if only in (None, row.place)), key=lambda row: row.at_ns)
    names = names_of(sorted({row.place for row in rows}))
    found = {place: Positions(partition=name) for place, name in names.items()}
    for row in _last_of_each_bucket(rows, buckets):
        at_s, of = seconds(row.at_ns, buckets), found[row.place]
        if row.after_silence and of.ends[row.broker]:
            of.ends[row.broker].append((of.ends[row.broker][-1][0], None))
        of.ends[row.broker].append((at_s, row.log_end))
        if _leads(row, history):
            _add(of.high_watermark, at_s, row.high_watermark)
            _add(of.log_start, at_s, row.log_start)
            _add(of.tiered, at_s, None if row.highest_tiered is None else row.highest_tiered + 1)
    return tuple(found.values())


def _add(points: list[Point], at_s: float, value: int | None) -> None:
    if value is not None:
        points.append((at_s, value))


def _leads(row: _Row, history: History | None) -> bool:
    """Whether the broker is the leader. One that was deposed and does not know it yet reports an old high watermark."""
    if history is None:
        return True
    _, topic_id, partition = row.place
    state = history.partition_at(topic_id, partition, row.at_ns)
    return state is not None and (state.leader, state.leader_epoch) == (row.broker, row.leader_epoch)


def _last_of_each_bucket(rows: Sequence[_Row], buckets: Buckets) -> Iterator[_Row]:
    """Rows after a silence stay, because they end a gap."""
    by_replica: defaultdict[tuple[int, Place], list[_Row]] = defaultdict(list)
    for row in rows:
        by_replica[row.broker, row.place].append(row)
    kept: list[_Row] = []
    for of_replica in by_replica.values():
        places: list[int] = [(row.at_ns - buckets.start_ns) // buckets.width_ns for row in of_replica]
        followed_by = pairwise([*places, None])
        kept += [
            row for row, (at, later) in zip(of_replica, followed_by, strict=True) if at != later or row.after_silence
        ]
    return iter(sorted(kept, key=lambda row: row.at_ns))


def _rows(bundle: Path) -> Iterator[_Row]:
    for file in parts_of(bundle, "positions"):
        with opened(file) as part:
            columns = part.read(columns=list(_COLUMNS)).to_pydict()
        for broker, topic, topic_id, partition, at_ns, silence, start, high, epoch, end, tiered in zip(
            *(columns[name] for name in _COLUMNS), strict=True
        ):
            yield _Row(
                broker=broker,
                place=(topic, topic_id, partition),
                at_ns=at_ns,
                after_silence=silence,
                log_start=start,
                high_watermark=high,
                leader_epoch=epoch,
                log_end=end,
                highest_tiered=tiered,
            )


def places_of(bundle: Path) -> list[Place]:
    """The partitions that `ledger` and `positions` name, sorted. Raises BadEvidence for a damaged part."""
    found: set[Place] = set()
    for table in ("ledger", "positions"):
        for file in parts_of(bundle, table):
            with opened(file, as_dictionaries=_PLACE) as part:
                for batch in part.iter_batches(columns=list(_PLACE)):
                    different = pa.Table.from_batches([batch]).group_by(list(_PLACE)).aggregate([]).to_pydict()
                    found |= set(zip(*(different[name] for name in _PLACE), strict=True))
    return sorted(found)


def names_of(places: Sequence[Place]) -> Mapping[Place, str]:
    """A name for each partition, such as "plain-0"; with the topic id where a name had several topics."""
    ids: defaultdict[str, set[str]] = defaultdict(set)
    for topic, topic_id, _ in places:
        ids[topic].add(topic_id)
    return {
        place: short(f"{place[0]}-{place[2]}") + (short(f" ({place[1][:6]})") if len(ids[place[0]]) > 1 else "")
        for place in places
    }


def short(text: str) -> str:
    """Foreign text for a chart: on one line, without control characters, at most 300 characters."""
    return clean(text[:_TEXT_MAX])


def seconds(at_ns: int, buckets: Buckets) -> float:
    """Seconds since the start of the buckets, to a millisecond."""
    return round((at_ns - buckets.start_ns) / 1e9, 3)
