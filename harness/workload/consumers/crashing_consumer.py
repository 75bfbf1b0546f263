"""A member of a group that dies between committing and processing, like an application that crashes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

from confluent_kafka import OFFSET_END, Consumer, Message, TopicPartition

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.place import Place
from harness.model.scenario.scenario import GroupProtocol, Reader
from harness.workload.consumers.consumer_group import GroupReader
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.java.java_consumer import JavaConsumer

_T = TypeVar("_T")
AWAY_LOOK_S: Final = 0.1


@dataclass(slots=True)
class Death:
    """A death that a step has ordered: the member dies once it holds `records` records.

    `frozen`: its process is stopped instead, and killed once the death is called off. Only for members of share groups.
    `between`: by partition the offsets [from, to) that were committed and not processed, or processed and not
    committed; None while the member lives. `refused`: the commit before its death was not acknowledged, so it lives on.
    The step sets `called_off`.
    """

    records: int
    frozen: bool = False
    held: list[Message] = field(default_factory=list)
    between: dict[Place, tuple[int, int]] | None = None
    refused: bool = False
    called_off: bool = False


@dataclass(slots=True)
class Restart:
    """A restart that a step has ordered. `protocol`: the group protocol from then on.

    `at_end`: the new member starts at the end of the log, like an application that ignores its committed offsets.
    `begun`: the new member has subscribed.
    """

    protocol: GroupProtocol
    at_end: bool
    begun: bool = False


@dataclass(slots=True)
class Absence:
    """An absence that a step has ordered. `left_ns`: when the member had left its group, None = not yet.

    `killed`: it does not leave, its process ends. The step sets `over` when the member may join again.
    """

    killed: bool = False
    left_ns: int | None = None
    over: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Pause:
    """A pause that a step has ordered. `paused_ns`: when the member had paused its partitions and committed, None = not
    yet. The step sets `over` when the member may continue; `resumed`: it has done so.
    """

    paused_ns: int | None = None
    over: threading.Event = field(default_factory=threading.Event)
    resumed: bool = False


class CrashingReader(GroupReader):
    """Commits records after it has processed them, or before (`commits`); a new member replaces it when it has died.

    It leaves the group when it dies, so that the others need not wait for its session timeout.
    """

    def __init__(self, spec: Reader, context: ReadContext, observations: TableWriter, commits: TableWriter) -> None:
        super().__init__(spec, context, observations, commits)
        self._death: Death | None = None
        self._dead = False
        self._restart: Restart | None = None
        self._absence: Absence | None = None
        self._pause: Pause | None = None
        self._at_end = False

    @property
    def is_member(self) -> bool:
        """See `GroupReader`. Not while a step keeps it away."""
        return super().is_member and self._absence is None

    def restart(self, protocol: GroupProtocol | None = None, *, at_end: bool = False) -> Restart:
        """From another thread: the member commits what it has processed and closes, and a new one replaces it."""
        self._restart = ordered = Restart(protocol or self.protocol, at_end)
        return ordered

    def leave(self) -> Absence:
        """From another thread: the member commits what it has processed, closes, and stays away until `over` is set."""
        self._absence = ordered = Absence()
        return ordered

    def vanish(self) -> Absence:
        """From another thread: the process of the member's client is killed, and it stays away until `over` is set."""
        self._absence = ordered = Absence(killed=True)
        return ordered

    def pause(self) -> Pause:
        """From another thread: the member pauses its partitions and commits what it has processed, without leaving."""
        self._pause = ordered = Pause()
        return ordered

    def die(self, records: int, *, frozen: bool = False) -> Death:
        """From another thread: the member holds the records that it gets from now on, and dies with so many."""
        self._death = Death(records, frozen=frozen)
        return self._death

    def _turn(self, consumer: Consumer) -> None:
        ordered = self._pause
        if ordered is not None and ordered.over.is_set():
            self._pause = None
            # If it cannot continue where it stopped, its client's auto.offset.reset decides where it starts, and does
            # not say so.
            if self.spec.reset and self._mine:
                self._observer.new_session(sorted(self._mine))
            self.resets.assigned({place: self._observer.next_offset.get(place, 0) for place in self._mine})
            consumer.resume([TopicPartition(*place) for place in self._mine])
            ordered.resumed = True
        elif ordered is not None and ordered.paused_ns is None:
            consumer.pause([TopicPartition(*place) for place in self._mine])
            self._commit(consumer)
            ordered.paused_ns = now_ns()
        super()._turn(consumer)

    def _process(self, consumer: Consumer, records: list[Message]) -> None:
        death = self._death
        if death is not None and death.called_off:
            self._death, records = None, death.held + records
        elif death is not None and death.between is None and not death.refused:
            death.held += records
            if len(death.held) >= death.records:
                self._die(consumer, death)
            return
        if self.spec.commits == "before" and records:
            self._commit_at(consumer, {place: end for place, (_, end) in spans(records).items()})
        super()._process(consumer, records)

    def _die(self, consumer: Consumer, death: Death) -> None:
        between = spans(death.held)
        if self.spec.commits == "after":
            super()._process(consumer, death.held)
        elif not self._commit_at(consumer, {place: end for place, (_, end) in between.items()}):
            death.refused = True
            super()._process(consumer, death.held)
            return
        death.between, death.held, self._dead = between, [], True

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Also drops the records of these partitions that it holds: whoever gets the partitions receives them again."""
        super()._lost(consumer, partitions)
        if self._death is not None:
            lost = {(p.topic, p.partition) for p in partitions}
            self._death.held = [r for r in self._death.held if (_known(r.topic()), _known(r.partition())) not in lost]

    def _commit(self, consumer: Consumer) -> None:
        if not self._dead:
            super()._commit(consumer)

    def _current(self, consumer: Consumer) -> Consumer:
        ordered, absence = self._restart, self._absence
        if not self._dead and ordered is None and absence is None:
            return super()._current(consumer)
        if absence is not None and absence.killed:
            cast(JavaConsumer, consumer).kill()
        else:
            self._close_consumer(consumer)  # the revocation commits what was not committed yet, unless the member died
        self._committed.clear()
        self._mine = set()
        self._dead = False
        if absence is not None:
            self._stay_away(absence)
        if ordered is not None:
            self._restart, self.protocol, self._at_end, ordered.begun = None, ordered.protocol, ordered.at_end, True
        return self._another()

    def _stay_away(self, absence: Absence) -> None:
        """Waits without a consumer; updates `last_turn_ns`, so that it does not look like a reader that hangs."""
        absence.left_ns = now_ns()
        while not (absence.over.wait(AWAY_LOOK_S) or self._stopping.is_set()):
            self.last_turn_ns = now_ns()
        self._absence = None

    def _start_at(self, committed: int) -> int:
        return OFFSET_END if self._at_end else super()._start_at(committed)

    def _end(self, consumer: Consumer) -> None:
        """Processes the records that it still holds, since its death did not come."""
        if self._death is not None and self._death.between is None:
            super()._process(consumer, self._death.held)
        super()._end(consumer)


def spans(records: Sequence[Message]) -> dict[Place, tuple[int, int]]:
    """By partition the offsets [first, last + 1) of records."""
    found: dict[Place, tuple[int, int]] = {}
    for record in records:
        place, offset = _place(record), _known(record.offset())
        first, end = found.get(place, (offset, offset))
        found[place] = min(first, offset), max(end, offset + 1)
    return found


def _place(record: Message) -> Place:
    return _known(record.topic()), _known(record.partition())


def _known(value: _T | None) -> _T:
    assert value is not None
    return value
