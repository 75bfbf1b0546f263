"""The samples of a run as one timeline for each replica, and the times at which they may not be compared.

Samples are few and stay on the driver. All of them have the clock of the harness, the history has that of controllers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from harness.model.clock import CLOCKS_MS
from harness.model.facts import Fact, FactKind, Stop
from harness.model.history.changes import BrokerChange, BrokerEvent, PartitionChange
from harness.model.history.elections import ElectedFrom
from harness.model.history.history import History
from harness.model.sample import Sample
from harness.verify.engine.case import Case, Place
from harness.verify.engine.elections import Clocks
from harness.verify.engine.tables import UNBOUNDED

CLOCKS_NS: Final = CLOCKS_MS * 10**6
_OF_RUN_NS: Final = 10**9  # the clock of a controller and that of the harness differ by less
# The longest time between two answers of a broker without a silence, and between the values and their answer.
LATE_NS: Final = 3_500_000_000
# A broker reports to the controllers this long after it has moved a replica to another of its disks.
_MOVED_NS: Final = 30 * 10**9
CLEAN: Final = (ElectedFrom.ISR, ElectedFrom.ELR)
Timelines = Mapping[Place, Mapping[int, Sequence[Sample]]]
# After one of these a replica may lack what it had, or what its broker knew of it.
OF_DISKS: Final = frozenset(
    {
        FactKind.DATA_LOST,
        FactKind.COPIES_REBUILT,
        FactKind.DISK_DAMAGED,
        FactKind.METADATA_DAMAGED,
        FactKind.DISK_FAILED,
        FactKind.DISK_FILLED,
        FactKind.FLUSHES_FORGOTTEN,
    }
)
_HARMFUL_ENDS: Final = (Stop.CRASHED, Stop.POWER)


class Span(NamedTuple):
    """From when until when something may have happened, limits included."""

    from_ns: int
    to_ns: int

    def touches(self, from_ns: int, to_ns: int) -> bool:
        """Whether it has a moment in common with these times."""
        return self.from_ns <= to_ns and self.to_ns >= from_ns


def timelines(case: Case) -> Timelines:
    """The samples by partition and broker, in the order of their times; none of a run with several clocks."""
    return case.once(_timelines)


def _timelines(case: Case) -> Timelines:
    found: defaultdict[Place, defaultdict[int, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in case.samples() if case.run.timestamps == "send" else ():
        found[sample.topic, sample.topic_id, sample.partition][sample.broker].append(sample)
    for of_place in found.values():
        for of_broker in of_place.values():
            of_broker.sort(key=lambda sample: (sample.at_ns, sample.asked_ns))
    return found


def is_of_run(case: Case, time_ns: int) -> bool:
    """Whether a time of the metadata log can be one of the run, whose own clock may differ. True if that is unknown."""
    run = case.run
    if run.started_ns is None or run.ended_ns is None:
        return True
    return run.started_ns - _OF_RUN_NS <= time_ns <= run.ended_ns + _OF_RUN_NS


def spans_of(case: Case, broker: int | None, wanted: Callable[[Fact], bool]) -> list[Span]:
    """When facts that may be about a broker, or about any (None), had an effect: until their step is healed."""
    return [
        Span(fact.from_ns, max(step.healed_ns or step.ended_ns or UNBOUNDED, fact.to_ns or 0))
        for step in case.steps
        for fact in step.facts
        if wanted(fact) and (broker is None or fact.concerns(broker))
    ]


def harm(case: Case, broker: int) -> list[Span]:
    """When a broker may have lost a part of its logs, or of what it had written about them."""
    ended = [Span(gone.at_ns, UNBOUNDED) for gone in case.run.exits or () if gone.node == broker]
    return [*spans_of(case, broker, harms), *ended]


def harms(fact: Fact) -> bool:
    return fact.kind in OF_DISKS or (fact.kind is FactKind.STOPPED and fact.how in _HARMFUL_ENDS)


def interrupted(case: Case, history: History, broker: int) -> list[Span]:
    """When the process of a broker did not run, or may have been another one than before."""
    stopped = spans_of(case, broker, lambda fact: fact.kind in (FactKind.STOPPED, FactKind.FROZEN))
    registered = [
        Span(row.time_ns - CLOCKS_NS, row.time_ns + CLOCKS_NS)
        for row in history.of(BrokerChange)
        if row.broker == broker and row.event is BrokerEvent.REGISTERED
    ]
    return [*stopped, *registered]


def any_interrupted(case: Case, history: History, brokers: Iterable[int], from_ns: int, to_ns: int) -> bool:
    """Whether one of these brokers may not have run as one process all these times, as the harness's clock has them."""
    times = from_ns - CLOCKS_NS, to_ns + CLOCKS_NS
    return any(span.touches(*times) for broker in brokers for span in interrupted(case, history, broker))


@dataclass(frozen=True, slots=True)
class States:
    """The states of one partition in a whole history, with a search by time."""

    rows: Sequence[PartitionChange]
    deleted_ns: int
    _ends: Sequence[int]  # when each state was over; it never falls
    _begins: Sequence[int]  # when each one began, or a later one; it never falls
    _begun: Mapping[int, PartitionChange]  # the first state of each leader epoch

    def during(self, from_ns: int, to_ns: int) -> range:
        """The numbers of all states that the partition may have had in these times; empty if it may not have existed.

        Some answers of brokers name topics without their ids, so they may be about the next topic of the name.
        """
        first = bisect_left(self._ends, from_ns - CLOCKS_NS)
        after = bisect_right(self._begins, to_ns + CLOCKS_NS)
        existed = self.rows[0].time_ns + CLOCKS_NS < from_ns and to_ns + CLOCKS_NS < self.deleted_ns
        return range(first, after) if existed else range(0)

    def on_one_disk(self, broker: int, from_ns: int, to_ns: int) -> bool:
        """Whether the broker kept its replica on one disk."""
        rows = [self.rows[number] for number in self.during(from_ns - _MOVED_NS, to_ns + _MOVED_NS)]
        if not rows:
            rows = [self.rows[number] for number in self.during(from_ns, to_ns + _MOVED_NS)]
        disks = {dict(zip(row.replicas, row.directories, strict=False)).get(broker) for row in rows}
        return bool(rows) and all(broker in row.replicas for row in rows) and len(disks) == 1

    def mark_of_leader(self, sample: Sample) -> tuple[int, int] | None:
        """Leader epoch and high watermark in a sample of a broker that led the partition in that epoch by then."""
        epoch, mark = sample.leader_epoch, sample.high_watermark
        if epoch is None or mark is None or epoch not in self._begun:
            return None
        begun = self._begun[epoch]
        knows = begun.leader == sample.broker and sample.asked_ns > begun.time_ns + CLOCKS_NS
        return (epoch, mark) if knows else None


class Mark(NamedTuple):
    """A high watermark, when a leader had reported it, and its epoch."""

    at_ns: int
    high_watermark: int
    epoch: int
    leader: int


def leader_marks(states: States, of_brokers: Mapping[int, Sequence[Sample]]) -> list[Mark]:
    """The high watermarks that the leaders of a partition reported, in the order of time."""
    return sorted(
        Mark(sample.at_ns, led[1], led[0], broker)
        for broker, samples in of_brokers.items()
        for sample in samples
        if (led := states.mark_of_leader(sample)) is not None
    )


def states_of(history: History, clocks: Clocks, place: Place) -> States | None:
    """None if the times of its changes are not known."""
    _, topic_id, partition = place
    rows = history.partition(topic_id, partition)
    deletions = [life.deleted for life in history.topics if life.topic_id == topic_id and life.deleted is not None]
    if not rows or any(row.from_snapshot or not clocks.right(row) for row in (*rows, *deletions)):
        return None
    times = [row.time_ns for row in rows]
    begins = list(accumulate(reversed(times), min))[::-1]
    ends = [*accumulate(times, max)][1:]
    begun = {row.leader_epoch: row for row in reversed(rows)}
    return States(rows, deletions[0].time_ns if deletions else UNBOUNDED, [*ends, UNBOUNDED], begins, begun)


def timed_partitions(case: Case, history: History) -> Iterator[tuple[Place, States, Mapping[int, Sequence[Sample]]]]:
    """The states and timelines of each partition whose changes have times; none of a history with gaps."""
    clocks = Clocks(case, history)
    for place, of_brokers in timelines(case).items() if history.whole else ():
        states = states_of(history, clocks, place)
        if states is not None:
            yield place, states, of_brokers


def held(of_broker: Sequence[Sample], late_ns: int) -> Iterator[tuple[Sample, int, int]]:
    """Each sample with times between which the broker reported its values; both are once more for the last report of
    unchanged values.

    late_ns: how long before an answer its values may have been read.
    """
    for number, sample in enumerate(of_broker):
        yield sample, sample.asked_ns, sample.at_ns
        after = of_broker[number + 1] if number + 1 < len(of_broker) else None
        if after is not None and not after.after_silence and after.at_ns - late_ns > sample.at_ns:
            yield sample, after.at_ns - late_ns, after.at_ns


def brokers_of(states: States) -> Collection[int]:
    """The brokers that ever had a replica."""
    return {replica for row in states.rows for replica in row.replicas}
