"""Live readers: they read all the while, so that what one of them saw can be told apart from what never was there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import repeat
from operator import is_
from typing import Any, Final

import confluent_kafka
from confluent_kafka import Consumer, Message, TopicPartition

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.scenario.scenario import Reader
from harness.model.secured import reader_name
from harness.workload.access import Access
from harness.workload.java.java_consumer import JavaConsumer
from harness.workload.java.java_process import JavaClients
from harness.workload.meters import Place
from harness.workload.producers.recording_producer import Target
from harness.workload.records.observations import POLL_RECORDS, Observer
from harness.workload.settings import reader_settings
from harness.workload.worker import Worker

POLL_S: Final = 0.2
EOF: Final = "_PARTITION_EOF"
# The position is not in the log (any more): retention passed it, or the log was truncated below it (KIP-320).
JUMPS: Final = frozenset({"_AUTO_OFFSET_RESET", "_LOG_TRUNCATION", "OFFSET_OUT_OF_RANGE"})
# A leader that cannot read what its log has: of a segment that nobody finds in the remote tier it says no more.
UNREADABLE: Final = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadContext:
    """What all readers of a run share. java: the release's own clients, where some reader is one."""

    bootstrap: str
    targets: Mapping[str, Target]
    run: int
    access: Access = field(default_factory=Access)
    java: JavaClients | None = None

    @property
    def topic_ids(self) -> dict[str, str]:
        """Topic ids by name."""
        return {name: target.topic_id for name, target in self.targets.items()}


class LiveReader(Worker):
    """Reads assigned partitions from their start in a thread of its own, until it is told to stop."""

    def __init__(self, spec: Reader, context: ReadContext, observations: TableWriter) -> None:
        super().__init__("reader", spec.name)
        self.spec = spec
        self.context = context
        self.jumps: list[tuple[str, str]] = []  # topic, and what happened
        self.last_turn_ns = now_ns()
        self.acked_commits = 0  # of a group
        self._jumps = Jumps()
        self._observer = Observer(
            observations, context.topic_ids, context.run, reader=spec.name, kind="live", isolation=spec.isolation
        )
        self._taken: set[Place] = set()
        self._topic_ids = context.topic_ids

    @property
    def seen(self) -> int:
        """Records observed so far."""
        return self._observer.seen

    @property
    def positions(self) -> dict[Place, int]:
        """The offset after the last observed record, by partition."""
        return dict(self._observer.next_offset)

    def reads(self, topic: str) -> bool:
        """Whether it has partitions of a topic; False once it has let go of them."""
        return any(place[0] == topic for place in self._taken)

    def _hanging(self, deadline_s: float) -> str:  # noqa: ARG002 - it was silent for longer than that
        return f"it did not answer for {(now_ns() - self.last_turn_ns) / 1e9:.0f} s"

    def _live(self) -> None:
        consumer = self._consumer()
        try:
            self._begin(consumer)
            while not self._stopping.is_set():
                consumer = self._current(consumer)
                self._turn(consumer)
            self._end(consumer)
        finally:
            self._let_go(consumer)

    def _let_go(self, consumer: Any) -> None:
        consumer.close()

    def _current(self, consumer: Any) -> Any:
        """The consumer, or another one when a topic was made anew: librdkafka goes by the highest leader epoch that it
        has seen of a name, and those of the new topic begin again at 0. It goes on where the old one was elsewhere."""
        reported = {t: self.context.targets[t] for t in self.spec.topics}
        anew = [t for t, target in reported.items() if target.partitions and self._topic_ids[t] != target.topic_id]
        if not anew:
            return consumer
        consumer.close()
        for topic in anew:
            self._topic_ids[topic] = reported[topic].topic_id
            self._observer.rename(topic, reported[topic].topic_id)
        self._taken = set()
        return self._consumer()

    def _consumer(self) -> Any:
        """A new client; the one kind has the methods of the other."""
        settings = self._settings()
        return Consumer(settings) if self.context.java is None else JavaConsumer(self.context.java, settings)

    def _settings(self) -> dict[str, Any]:
        access = self.context.access.of(reader_name(self.spec.name))
        return reader_settings(self.spec, self.context.bootstrap, f"{self.spec.name}-{self.context.run:x}", access)

    def _begin(self, consumer: Consumer) -> None:
        self._take_up(consumer)

    def _take_up(self, consumer: Consumer) -> None:
        """Reads partitions from their start that it does not read yet: all of them, later those that were added. Lets
        go of those that are not to be read any more."""
        every = ((topic, p) for topic in self.spec.topics for p in range(self.context.targets[topic].partitions))
        wanted = set(every)
        if gone := [TopicPartition(*place) for place in self._taken - wanted]:
            consumer.incremental_unassign(gone)
            self._taken = self._taken & wanted  # never in place: another thread may be looking
        new = sorted(wanted - self._taken)
        if new:
            self._taken = self._taken | set(new)
            self._observer.new_session(new)
            at = {place: self._observer.next_offset.get(place, confluent_kafka.OFFSET_BEGINNING) for place in new}
            consumer.incremental_assign([TopicPartition(*place, offset) for place, offset in at.items()])

    def _turn(self, consumer: Consumer) -> None:
        self._take_up(consumer)
        messages = consumer.consume(POLL_RECORDS, POLL_S)
        self.last_turn_ns = now_ns()
        records, errors = split(messages)
        self._process(consumer, records)
        for message in errors:
            self._on_error(consumer, message)

    def _process(self, consumer: Consumer, records: list[Message]) -> None:  # noqa: ARG002 - of those who commit
        """What a reader is there for: records that it was given count as read when they are observed."""
        self._observer.observe(records)

    def _on_error(self, consumer: Consumer, message: Message) -> None:
        error = message.error()
        assert error is not None
        if error.fatal():
            raise confluent_kafka.KafkaException(error)
        if error.name() in JUMPS and message.topic() is not None:
            self._again_from_start(consumer, (str(message.topic()), int(message.partition() or 0)), error.str())

    def _again_from_start(self, consumer: Consumer, place: Place, why: str) -> None:
        """The position left the log: read on from the log's start, as a session of its own."""
        position = self._observer.next_offset[place]
        if self._jumps.go_on(consumer, self._observer, place, position):
            self.jumps.append((place[0], f"{place[0]}[{place[1]}] after offset {position - 1}: {why}"))

    def _end(self, consumer: Consumer) -> None:
        """What a kind of reader does last, before its consumer closes."""


class Jumps:
    """Where a reader goes on whose position is not in the log (any more)."""

    def __init__(self) -> None:
        self._last: dict[Place, tuple[int, int]] = {}  # the position, and how often it was that

    def go_on(self, consumer: Consumer, observer: Observer, place: Place, position: int) -> bool:
        """From the log's start, as a session of its own. When that only led back to the same position there is a hole,
        and what comes before it says nothing new: then from the position itself (False), and ever more seldom from the
        start, which may have passed the hole."""
        at, times = self._last.get(place, (position, 0))
        times = times + 1 if at == position else 1
        self._last[place] = (position, times)
        if position > 0 and times & (times - 1):
            begin_at(consumer, place, position)
            return False
        observer.new_session([place])
        begin_at(consumer, place, confluent_kafka.OFFSET_BEGINNING)
        return True


def begin_at(consumer: Consumer, place: Place, offset: int) -> None:
    """Reads a partition from an offset after the client gave its position up; a seek fails in that state.

    A group may have taken the partition away while the error was on its way: then there is nothing to begin again.
    """
    if place not in {(mine.topic, mine.partition) for mine in consumer.assignment()}:
        return
    consumer.incremental_unassign([TopicPartition(*place)])
    consumer.incremental_assign([TopicPartition(*place, offset)])


def split(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Records and events (errors, ends of partitions) of one poll."""
    of: Any = type(messages[0]) if messages else Message
    errors: list[Any] = list(map(of.error, messages))
    if all(map(is_, errors, repeat(None))):  # by identity: comparing a KafkaError with None raises
        return messages, []
    events = [message for message, error in zip(messages, errors, strict=True) if error is not None]
    return [message for message, error in zip(messages, errors, strict=True) if error is None], events


def serving_brokers(statistics: str) -> dict[Place, tuple[int, int]]:
    """From a consumer's statistics: the broker that serves each partition, and the records received from it so far."""
    return {
        (topic, int(partition)): (int(numbers["broker"]), int(numbers["rxmsgs"]))
        for topic, of_topic in json.loads(statistics)["topics"].items()
        for partition, numbers in of_topic["partitions"].items()
        if partition != "-1"
    }
