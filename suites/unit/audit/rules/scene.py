"""A rule on a cluster that the test writes: records of the metadata log, looks and time, in the engine's order.

The state is the engine's own, with a clock that only the test moves. `look` gives what the rule suspects at a look and
keeps its offsets; `alarms` asks for second looks as the engine does, one each second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from harness.audit.engine.cluster_state import ClusterState, Observer
from harness.audit.look import CommitLook, PartitionLook, TransactionLook
from harness.audit.rules.rule import Rule, Suspicion
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.kafka.storage.remote_log_metadata import SEGMENT, SEGMENT_UPDATE, TierRecord
from harness.model.history.changes import AnyChange
from harness.model.history.log import Record, Snapshot, Unreadable
from suites.unit.model.history.logs import TOPIC, TOPIC_ID, batch, partition, record, time_ms, topic

S: Final = 1_000_000_000
START_NS: Final = 1_000 * S
SEGMENT_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
# Settings as brokers report them by default.
DEFAULTS: Final[Mapping[str, str]] = {
    "log.cleanup.policy": "delete",
    "log.retention.hours": "168",
    "log.retention.bytes": "-1",
    "log.retention.check.interval.ms": "300000",
    "log.local.retention.ms": "-2",
    "log.local.retention.bytes": "-2",
    "log.roll.hours": "168",
    "log.segment.bytes": "1073741824",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
}


class TimedState(ClusterState):
    """The state of the engine, with the clock of a test."""

    def __init__(self, observer: Observer) -> None:
        super().__init__(observer)
        self.clock_ns = START_NS

    @property
    def now_ns(self) -> int:
        return self.clock_ns


class Scene:
    """One rule and a cluster with the topic of `logs`: one partition on brokers 1, 2 and 3, led by 1."""

    def __init__(self, rule: Rule, *, made: bool = True, without: Iterable[str] = ("logs",)) -> None:
        self.rule = rule
        self.view = TimedState(self._changed)
        self.view.static = DEFAULTS
        self.view.covered = {"metadata", "offsets", "replicas", "tier", "groups", "transactions", "logs"} - {*without}
        self._end = 0
        self._found: list[Suspicion] = []
        if made:
            self.records(topic(), partition())

    # Records

    def records(self, *entries: Record | Unreadable) -> list[Suspicion]:
        """Returns the suspicions at these records, each in a batch of its own."""
        self._found = []
        for entry in entries:
            self.view.apply([batch(self._end, 1, entry)])
            self._end += 1
        return self._taken()

    def batch(self, *entries: Record) -> list[Suspicion]:
        """The same of one batch, so that the records have one time."""
        self._found = []
        written_ms = time_ms(self._end)
        self.view.replay.replay(
            tuple(
                Record(at, 1, written_ms, entry.kind, entry.version, entry.fields)
                for at, entry in enumerate(entries, self._end)
            )
        )
        self._end += len(entries)
        return self._taken()

    def load(self, snapshot: Snapshot) -> list[Suspicion]:
        self._found = []
        self.view.load(snapshot)
        self._end = snapshot.end_offset
        return self._taken()

    def _changed(self, after: AnyChange, before: AnyChange | None) -> None:
        self._found += self.rule.on_change(after, before, self.view)

    def _taken(self) -> list[Suspicion]:
        found, self._found = self._found, []
        return found

    # Looks

    def look(self, seen: Offsets | PartitionLook) -> list[Suspicion]:
        """Returns the suspicions at a look, a second after the last one."""
        look = self.timed(seen)
        place = look.topic_id, look.partition
        before = self.view.offsets(*place)
        found = [*self.rule.on_look(look, before, self.view)]
        if look.error is None and look.offsets.leader_epoch >= before.leader_epoch:
            self.view.packed.put_offsets(*place, look.offsets)
        if look.epochs:
            self.view.put_epochs(*place, look.epochs, look.offsets.log_start)
        return found

    def confirm(self, suspicions: Iterable[Suspicion], *seen: Offsets | PartitionLook) -> list[Suspicion]:
        """The alarms after second looks like these; the last one is repeated as long as the rule asks again."""
        alarms = []
        for suspicion in suspicions:
            assert suspicion.needs_look
            looks = [*seen]
            for _ in range(70):
                answer = self.rule.confirmed(suspicion, self.timed(looks[0]), self.view)
                if answer is None:
                    break
                if not answer.again:
                    alarms.append(answer)
                    break
                suspicion, looks = replace(answer, again=False), looks[1:] or looks
            else:
                raise AssertionError("the rule asks for looks without an end")
        return alarms

    def timed(self, seen: Offsets | PartitionLook) -> PartitionLook:
        self.wait(1)
        look = at(seen) if isinstance(seen, Offsets) else seen
        return replace(look, asked_ns=self.view.clock_ns - 1000, answered_ns=self.view.clock_ns)

    # Other sources

    def segment(
        self, state: str, name: str = SEGMENT_ID, first: int | None = None, last: int | None = None, size: int = 100
    ) -> list[Suspicion]:
        """Returns the suspicions at a record of the tier's metadata. The first record of a segment has its offsets."""
        record_of = TierRecord(
            kind=SEGMENT_UPDATE if first is None else SEGMENT,
            topic=TOPIC,
            topic_id=TOPIC_ID,
            partition=0,
            segment_id=name,
            state=state,
            broker=1,
            event_ms=self.view.clock_ns // 1_000_000,
            base_offset=first,
            end_offset=last,
            size_bytes=None if first is None else size,
        )
        changed = self.view.segments.apply(record_of)
        assert changed is not None
        return [*self.rule.on_segment(*changed, self.view)]

    def commit(self, offset: int, topic_id: str = TOPIC_ID) -> list[Suspicion]:
        """Returns the suspicions at a committed offset of the group `readers`, a second after the last one."""
        self.wait(1)
        look = CommitLook(
            group="readers",
            topic=TOPIC,
            topic_id=topic_id,
            partition=0,
            answered_ns=self.view.clock_ns,
            offset=offset,
        )
        before = self.view.put_commit(look)
        return [*self.rule.on_commit(look, before, self.view)]

    def transaction(self, state: str = "Ongoing", started_ms: int = 5) -> list[Suspicion]:
        """Returns the suspicions at a look at the transaction of `pay`, with a timeout of 60 s."""
        look = TransactionLook(
            transactional_id="pay",
            producer_id=7,
            producer_epoch=1,
            state=state,
            timeout_ms=60_000,
            started_ms=started_ms,
            answered_ns=self.view.clock_ns,
            places=((TOPIC, 0),),
        )
        return [*self.rule.on_transaction(look, self.view)]

    # Time

    def wait(self, seconds: float) -> None:
        self.view.clock_ns += int(seconds * S)

    def tick(self, seconds: float = 1) -> list[Suspicion]:
        """Returns the suspicions at the tick that many seconds later."""
        self.wait(seconds)
        return [*self.rule.on_tick(self.view)]

    def over(self, suspicion: Suspicion) -> bool:
        return self.rule.over(suspicion, self.view)


def at(
    seen: Offsets,
    number: int = 0,
    *,
    error: str | None = None,
    stable: int = UNKNOWN,
    log_ends: Mapping[int, int] | None = None,
    epochs: Sequence[tuple[int, int]] = (),
    young_from: int = UNKNOWN,
    young_ms: int = UNKNOWN,
    size_bytes: int = UNKNOWN,
) -> PartitionLook:
    """A look at a partition of the topic; the scene sets its time."""
    return PartitionLook(
        topic=TOPIC,
        topic_id=TOPIC_ID,
        partition=number,
        asked_ns=0,
        answered_ns=0,
        offsets=seen,
        stable=stable,
        log_ends=log_ends or {},
        error=error,
        epochs=epochs,
        young_from=young_from,
        young_ms=young_ms,
        size_bytes=size_bytes,
    )


def feature(name: str, level: int) -> Record:
    return record("FeatureLevel", Name=name, FeatureLevel=level)


def offsets(log_start: int, high_watermark: int, log_end: int | None = None, epoch: int = 0) -> Offsets:
    return Offsets(epoch, log_start, high_watermark, high_watermark if log_end is None else log_end)


def ranges(suspicions: Iterable[Suspicion]) -> list[tuple[str, int | None, int | None, int | None]]:
    """(topic, partition, first offset, end offset) of each."""
    return [(of.topic, of.partition, of.first_offset, of.end_offset) for of in suspicions]
