"""Live readers: they read while the load runs, so that a record that was readable and then vanished is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from operator import is_
from typing import Final, cast

import confluent_kafka
from confluent_kafka import Consumer, Message, TopicPartition

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.place import Place
from harness.model.scenario.scenario import Reader
from harness.model.secured import reader_name
from harness.workload.access import Access
from harness.workload.client_errors import is_fatal
from harness.workload.consumers import stuck_client
from harness.workload.consumers.ownership import Ownership
from harness.workload.java.java_consumer import JavaConsumer
from harness.workload.java.java_process import JavaClients
from harness.workload.load_thread import LoadThread
from harness.workload.producers.recording_producer import Target
from harness.workload.records.observations import POLL_RECORDS, Observer
from harness.workload.settings import STATISTICS, reader_settings

Begin = Callable[[Consumer, Place, int], None]  # reads a partition from an offset
POLL_S: Final = 0.2
EOF: Final = "_PARTITION_EOF"
# The position is not in the log: retention deleted it, or the log was truncated below it (KIP-320).
JUMPS: Final = frozenset({"_AUTO_OFFSET_RESET", "_LOG_TRUNCATION", "OFFSET_OUT_OF_RANGE"})
# The leader's error when it cannot read its log; for a segment that is missing in the remote tier it is no more exact.
UNREADABLE: Final = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadContext:
    """The context of a reader: addresses and topics of the run. `java`: the release's own clients, if it is one.
    `ownership`: of all members of groups in the load."""

    bootstrap: str
    targets: Mapping[str, Target]
    run: int
    access: Access = field(default_factory=Access)
    java: JavaClients | None = None
    ownership: Ownership = field(default_factory=Ownership)

    @property
    def topic_ids(self) -> dict[str, str]:
        """Topic ids by name."""
        return {name: target.topic_id for name, target in self.targets.items()}


class LiveReader(LoadThread):
    """Reads assigned partitions from their start in a thread of its own until it is stopped."""

    def __init__(self, spec: Reader, context: ReadContext, observations: TableWriter) -> None:
        super().__init__("reader", spec.name)
        self.spec = spec
        self.context = context
        self.jumps: list[tuple[str, str]] = []  # topic, and what happened
        self.last_turn_ns = now_ns()
        self.acked_commits = 0  # for members of a group
        self.stuck = 0  # clients that had to be replaced because they were stuck
        self._jumps = Jumps()
        self._observer = Observer(
            observations, context.topic_ids, context.run, reader=spec.name, kind="live", isolation=spec.isolation
        )
        self._taken: set[Place] = set()
        self._topic_ids = context.topic_ids
        self._pulse = stuck_client.Pulse(partial(context.access.note, reader_name(spec.name)))

    @property
    def seen(self) -> int:
        """Records observed so far."""
        return self._observer.seen

    @property
    def positions(self) -> dict[Place, int]:
        """The offset after the last observed record, by partition."""
        return dict(self._observer.next_offset)

    def reads(self, topic: str) -> bool:
        """Whether it has partitions of a topic; False once it has released them."""
        return any(place[0] == topic for place in self._taken)

    def _hanging(self, deadline_s: float) -> str:  # noqa: ARG002 - its last poll is longer ago than that
        return f"its last poll returned {(now_ns() - self.last_turn_ns) / 1e9:.0f} s ago"

    def _live(self) -> None:
        consumer = self._consumer()
        try:
            self._begin(consumer)
            while not self._stopping.is_set():
                consumer = self._current(consumer)
                self._turn(consumer)
            self._end(consumer)
        finally:
            self._close_consumer(consumer)

    def _close_consumer(self, consumer: Consumer) -> None:
        consumer.close()

    def _current(self, consumer: Consumer) -> Consumer:
        """The consumer, or a new one if it is stuck, or if a topic was recreated.

        A new one continues at the old positions, but not of recreated topics.

        librdkafka ignores leader epochs below the highest that it has seen for a topic name, and those of the new topic
        start at 0 again.
        """
        if self.context.java is None and self._pulse.stuck:
            stuck_client.keep_for_ever(consumer)
            self.stuck += 1
            return self._another()
        targets = {t: self.context.targets[t] for t in self.spec.topics}
        recreated = [t for t, target in targets.items() if target.partitions and self._topic_ids[t] != target.topic_id]
        if not recreated:
            return consumer
        for topic in recreated:
            self._topic_ids[topic] = targets[topic].topic_id
            self._observer.start_new_topic(topic, targets[topic].topic_id)
        return self._in_place_of(consumer)

    def _in_place_of(self, consumer: Consumer) -> Consumer:
        """Another client in place of one that can be closed."""
        self._close_consumer(consumer)
        return self._another()

    def _another(self) -> Consumer:
        self._taken = set()
        another = self._consumer()
        self._begin(another)
        return another

    def _consumer(self) -> Consumer:
        """A new client: librdkafka's, or a Java client with those of its methods that readers call."""
        settings = self._settings()
        if self.context.java is not None:
            return cast(Consumer, JavaConsumer(self.context.java, settings))
        self._pulse.begin()
        return Consumer(settings | STATISTICS | {"stats_cb": self._pulse.take})

    def _settings(self) -> dict[str, object]:
        access = self.context.access.settings
        return reader_settings(self.spec, self.context.bootstrap, f"{self.spec.name}-{self.context.run:x}", access)

    def _begin(self, consumer: Consumer) -> None:
        self._update_assignment(consumer)

    def _update_assignment(self, consumer: Consumer) -> None:
        """Assigns the wanted partitions that it does not read yet, from their start, and releases all others."""
        every = ((topic, p) for topic in self.spec.topics for p in range(self.context.targets[topic].partitions))
        wanted = set(every)
        if released := [TopicPartition(*place) for place in self._taken - wanted]:
            consumer.incremental_unassign(released)
            self._taken = self._taken & wanted  # a new set, since other threads read it
        new = sorted(wanted - self._taken)
        if new:
            self._taken = self._taken | set(new)
            self._observer.new_session(new)
            at = {place: self._observer.next_offset.get(place, confluent_kafka.OFFSET_BEGINNING) for place in new}
            consumer.incremental_assign([TopicPartition(*place, offset) for place, offset in at.items()])

    def _turn(self, consumer: Consumer) -> None:
        self._update_assignment(consumer)
        messages = consumer.consume(POLL_RECORDS, POLL_S)
        self.last_turn_ns = now_ns()
        self._pulse.polled()
        records, errors = split(messages)
        self._process(consumer, records)
        for message in errors:
            self._on_error(consumer, message)

    def _process(self, consumer: Consumer, records: list[Message]) -> None:  # noqa: ARG002 - subclasses commit with it
        """Processes the records of a poll: the harness counts records as read when they are observed."""
        self._observer.observe(records)

    def _on_error(self, consumer: Consumer, message: Message) -> None:
        error = message.error()
        assert error is not None
        if is_fatal(error):
            raise confluent_kafka.KafkaException(error)
        if error.name() in JUMPS and message.topic() is not None:
            self._restart_at_log_start(consumer, (str(message.topic()), int(message.partition() or 0)), error.str())

    def _restart_at_log_start(self, consumer: Consumer, place: Place, why: str) -> None:
        """Continues at the log's start, as a new session, since the position is no longer in the log."""
        position = self._observer.next_offset[place]
        if self._jumps.resume(consumer, self._observer, place, position, self._begin_at):
            self.jumps.append((place[0], f"{place[0]}[{place[1]}] after offset {position - 1}: {why}"))

    def _begin_at(self, consumer: Consumer, place: Place, offset: int) -> None:
        begin_at(consumer, place, offset)

    def _end(self, consumer: Consumer) -> None:
        """For subclasses: the last work before the consumer closes."""


def begin_at(consumer: Consumer, place: Place, offset: int) -> None:
    """Reads a partition from an offset after the client has lost its position; a seek fails in that state.

    Does nothing if a rebalance has revoked the partition in the meantime.
    """
    if place not in {(mine.topic, mine.partition) for mine in consumer.assignment()}:
        return
    consumer.incremental_unassign([TopicPartition(*place)])
    consumer.incremental_assign([TopicPartition(*place, offset)])


class Jumps:
    """Decides where a reader continues after its position has left the log."""

    def __init__(self) -> None:
        self._last: dict[Place, tuple[int, int]] = {}  # the last position, and how many times in a row

    def resume(
        self, consumer: Consumer, observer: Observer, place: Place, position: int, begin: Begin = begin_at
    ) -> bool:
        """Continues at the log's start, as a new session (True), or at the position again (False).

        If reading from the start led back to the same position, the log has a gap there, and reading the part before it
        once more shows nothing new. So only the 1st, 2nd, 4th, 8th ... error at one position leads to the log's start,
        which may have moved past the gap in the meantime.
        """
        at, times = self._last.get(place, (position, 0))
        times = times + 1 if at == position else 1
        self._last[place] = (position, times)
        if position > 0 and times & (times - 1):
            begin(consumer, place, position)
            return False
        observer.new_session([place])
        begin(consumer, place, confluent_kafka.OFFSET_BEGINNING)
        return True


def split(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Splits the messages of one poll into records and events (errors, ends of partitions)."""
    of = type(messages[0]) if messages else Message
    errors = list(map(of.error, messages))
    if all(map(is_, errors, repeat(None))):  # by identity: comparing a KafkaError with None raises
        return messages, []
    events = [message for message, error in zip(messages, errors, strict=True) if error is not None]
    return [message for message, error in zip(messages, errors, strict=True) if error is None], events


def serving_brokers(statistics: str) -> dict[Place, tuple[int, int]]:
    """By partition, from a consumer's statistics: the broker that serves it, and the records received so far."""
    return {
        (topic, int(partition)): (int(numbers["broker"]), int(numbers["rxmsgs"]))
        for topic, of_topic in json.loads(statistics)["topics"].items()
        for partition, numbers in of_topic["partitions"].items()
        if partition != "-1"
    }
