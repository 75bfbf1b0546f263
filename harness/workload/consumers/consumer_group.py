"""Members of a consumer group: live readers that subscribe and commit, with a row for every commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.documents.cluster import GroupAnswer, MemberRefused
from harness.model.outcome import Outcome
from harness.model.place import Place
from harness.model.scenario.scenario import JAVA, GroupProtocol, Reader
from harness.workload.client_errors import is_fatal
from harness.workload.consumers.live_readers import EOF, JUMPS, LiveReader, ReadContext
from harness.workload.consumers.offset_resets import Resets
from harness.workload.java import java_settings
from harness.workload.producers.outcomes import outcome_of_offset_commit
from harness.workload.timed_calls import CallHung, TimedCalls

# Well below 0.5 s, by which a follower's high watermark may lag behind: so the newest commit is above it.
COMMIT_EVERY_S: Final = 0.15
COMMITTED_WAIT_S: Final = 10.0
ASKED_WAIT_S: Final = 1.0
# Much longer than three tries of librdkafka, each of socket.timeout.ms, and its wait of one session for a coordinator.
_COMMIT_S: Final = 40.0
_NO_ANSWER: Final = "_NO_ANSWER"
_STRATEGY: Final = "partition.assignment.strategy"
# Only for the classic protocol: with group.protocol=consumer (KIP-848) the coordinator decides on these, and librdkafka
# rejects them.
CLASSIC: Final[dict[str, object]] = {
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
    _STRATEGY: "cooperative-sticky",
}
SESSION: Final[dict[str, object]] = {"max.poll.interval.ms": 60_000}


class GroupReader(LiveReader):
    """Commits the offsets of observed records synchronously, so that each commit has an outcome."""

    def __init__(self, spec: Reader, context: ReadContext, observations: TableWriter, commits: TableWriter) -> None:
        super().__init__(spec, context, observations)
        self.protocol: GroupProtocol = spec.protocol
        self._commits = commits
        self._calls: TimedCalls | None = None
        self._committed: dict[Place, int] = {}
        self._mine: set[Place] = set()
        self.got_ns: dict[Place, int] = {}  # when it was assigned each partition last
        self._commit_at_s = time.monotonic() + COMMIT_EVERY_S
        self.rebalances = 0
        self.answers: list[GroupAnswer] = []  # committed offsets that the coordinator returned, see _ask
        self.resets = Resets(spec)
        self.refused: list[MemberRefused] = []
        self._since_ns = now_ns()  # before its present client joined the group
        self._gave_up = False
        # librdkafka requests stable offsets only with read_committed. Without that, a coordinator may return an older
        # offset after a failover although no commit is lost: it has not finished loading its log.
        self._asks_stable = self._settings()["isolation.level"] == "read_committed"

    def _settings(self) -> dict[str, object]:
        return super()._settings() | member_settings(self.spec, self.protocol)

    @property
    def client_id(self) -> str:
        """The name of its client, as coordinators report it."""
        return str(self._settings()["client.id"])

    @property
    def session_ms(self) -> int | None:
        """session.timeout.ms of its client; None: the brokers decide, as with the consumer protocol (KIP-848)."""
        return int(str(self._settings()["session.timeout.ms"])) if self.protocol == "classic" else None

    @property
    def is_member(self) -> bool:
        """Whether it is in its group, or about to join it."""
        return self.alive

    @property
    def places(self) -> frozenset[Place]:
        """Its current partitions."""
        return frozenset(self._mine)

    @property
    def committed(self) -> dict[Place, int]:
        """The last acknowledged commit of each of its partitions, as next offsets."""
        return dict(self._committed)

    def _begin(self, consumer: Consumer) -> None:
        self._since_ns = now_ns()
        consumer.subscribe(
            list(self.spec.topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _owns(self, told: Callable[[str, str, Collection[Place]], None], places: Collection[Place]) -> None:
        """Tells the load whose the partitions are. A Java client is in another process, and its word may come late."""
        if self.spec.group is not None and self.protocol == "consumer" and self.spec.client != JAVA:
            told(self.spec.group, self.spec.name, places)

    def _close_consumer(self, consumer: Consumer) -> None:
        # It leaves by itself, whether or not its coordinator still takes it for a member.
        self._owns(self.context.ownership.lost, self._mine)
        super()._close_consumer(consumer)
        if self._calls is not None:
            self._calls.close()
            self._calls = None

    def _update_assignment(self, consumer: Consumer) -> None:
        """Nothing to do: the group assigns added partitions itself."""

    def _turn(self, consumer: Consumer) -> None:
        super()._turn(consumer)
        if time.monotonic() >= self._commit_at_s:
            self._commit(consumer)
            self._commit_at_s = time.monotonic() + COMMIT_EVERY_S

    def _end(self, consumer: Consumer) -> None:
        self._commit(consumer)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = [(p.topic, p.partition) for p in partitions]
        self.got_ns |= dict.fromkeys(places, now_ns())
        self._owns(self.context.ownership.got, places)
        self._take(consumer, places)
        self._owns(self.context.ownership.holds, places)

    def _take(self, consumer: Consumer, places: Sequence[Place]) -> None:
        """Begins to read partitions, each where its group has come to."""
        self.rebalances += 1
        self._mine = self._mine | set(places)  # a new set, since other threads read it
        for place in places:
            self._committed.pop(place, None)
            self._observer.next_offset.pop(place, None)
        if not places:
            return
        self._observer.new_session(places)
        starts = self._ask(consumer, places, COMMITTED_WAIT_S)
        if starts is None:
            return  # the client requests the offsets again by itself
        reported = {(start.topic, start.partition): start.offset for start in starts}
        self._note_committed(reported)
        self.resets.assigned(reported, first=not self.acked_commits)
        for start in starts:
            start.offset = self._start_at(start.offset)
        if self._all_anew:
            consumer.assign(starts)
        else:
            consumer.incremental_assign(starts)

    def _begin_at(self, consumer: Consumer, place: Place, offset: int) -> None:
        if not self._all_anew:
            super()._begin_at(consumer, place, offset)
            return
        at = {mine: self._observer.next_offset.get(mine, confluent_kafka.OFFSET_STORED) for mine in self._mine}
        if place in at:
            consumer.assign([TopicPartition(*mine, position) for mine, position in (at | {place: offset}).items()])

    @property
    def _all_anew(self) -> bool:
        """Whether each rebalance gives it all its partitions again, and not only those that are added."""
        return self.protocol == "classic" and self.spec.assignor == "range"

    def _note_committed(self, committed: Mapping[Place, int]) -> None:
        """For subclasses: the group's committed offsets of newly assigned partitions; negative = none."""

    def _start_at(self, committed: int) -> int:
        """The offset to start at. A group without any commit starts at the start of the log."""
        if committed >= 0:
            return committed
        from_start = not self.spec.reset or not self.acked_commits
        return confluent_kafka.OFFSET_BEGINNING if from_start else confluent_kafka.OFFSET_INVALID

    def _process(self, consumer: Consumer, records: list[Message]) -> None:
        self.resets.given(records)
        super()._process(consumer, records)

    def _on_error(self, consumer: Consumer, message: Message) -> None:
        """With `reset`, the client's auto.offset.reset decides where it starts, or that it stops."""
        error = message.error()
        assert error is not None
        if is_fatal(error):
            self._refuse(error.str())
            return
        if not self.spec.reset or message.topic() is None:
            super()._on_error(consumer, message)
            return
        place = str(message.topic()), int(message.partition() or 0)
        if error.name() == EOF:
            self.resets.at_end(place, int(message.offset() or 0))
        elif error.name() in JUMPS:
            self.resets.stopped(place)
            consumer.incremental_unassign([TopicPartition(*place)])

    def _refuse(self, why: str) -> None:
        """Its client gave up for good. As an application would, the reader begins again with another one."""
        self.refused.append(
            MemberRefused(
                group=self.spec.group or "",
                member=self.spec.name,
                error=why,
                static=self.spec.static,
                since_ns=self._since_ns,
                at_ns=now_ns(),
            )
        )
        self._gave_up = True

    def _current(self, consumer: Consumer) -> Consumer:
        if not self._gave_up:
            return super()._current(consumer)
        self._gave_up = False
        return self._in_place_of(consumer)

    def _another(self) -> Consumer:
        # The former client, if it was stuck, has not said that it left.
        self._owns(self.context.ownership.lost, self._mine)
        another = super()._another()
        self._mine = set()
        return another

    def _ask(self, consumer: Consumer, places: Iterable[Place], timeout_s: float) -> list[TopicPartition] | None:
        """The group's committed offsets, from its coordinator; None without an answer.

        Stable offsets are evidence: a lost commit shows here before the next commit hides it. An answer that equals the
        last acknowledged commit is not stored.
        """
        asked_ns = now_ns()
        try:
            answers: list[TopicPartition] = consumer.committed([TopicPartition(*place) for place in places], timeout_s)
        except KafkaException:
            return None
        at_ns = now_ns()
        self.answers += [
            GroupAnswer(
                group=self.spec.group or "",
                topic=a.topic,
                partition=a.partition,
                offset=a.offset if a.offset >= 0 else None,
                asked_ns=asked_ns,
                at_ns=at_ns,
            )
            for a in answers
            if self._asks_stable and a.error is None and a.offset != self._committed.get((a.topic, a.partition))
        ]
        return answers

    @property
    def settled(self) -> bool:
        """Whether it has partitions and its start is known on each of them."""
        return bool(self._mine) and (not self.spec.reset or self.resets.known(self._mine))

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._stopping.wait(self.spec.revoke_s)
        self._commit(consumer)
        self._owns(self.context.ownership.gave_up, [(p.topic, p.partition) for p in partitions])
        self._lost(consumer, partitions)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        lost = {(p.topic, p.partition) for p in partitions}
        self._owns(self.context.ownership.lost, lost)
        self._mine = self._mine - lost

    def _commit(self, consumer: Consumer) -> None:
        """Commits the position of every partition that moved."""
        self._commit_at(consumer, self._observer.next_offset)

    def _commit_at(self, consumer: Consumer, positions: Mapping[Place, int]) -> bool:
        """Commits positions that are not committed yet and writes the outcome of each. True if all are committed.

        It first asks the coordinator for its committed offsets, and commits nothing without an answer: otherwise the
        next commit would hide that a new coordinator has lost the one before.
        """
        moved = {
            place: offset
            for place, offset in positions.items()
            if place in self._mine and self._committed.get(place) != offset
        }
        if not moved:
            return True
        if self._asks_stable and (known := self._mine & self._committed.keys()):
            answers = self._ask(consumer, known, ASKED_WAIT_S)
            if answers is None or any(a.error is not None for a in answers):
                return False
        called_ns = now_ns()
        errors = self._commit_within(consumer, moved)
        returned_ns = now_ns()
        for place, offset in moved.items():
            error = errors.get(place)
            self._write(place, offset, outcome_of_offset_commit(error), called_ns, returned_ns)
            if error is None:
                self._committed[place] = offset
        self.acked_commits += not errors
        return not errors

    def _commit_within(self, consumer: Consumer, offsets: dict[Place, int]) -> dict[Place, str]:
        """As `commit_now`. A client that does not return from it is stuck, and the reader goes on with another one."""
        if self.context.java is not None:
            return commit_now(consumer, offsets)
        self._calls = self._calls or TimedCalls(self.spec.name)
        try:
            return self._calls.call(lambda: commit_now(consumer, offsets), _COMMIT_S)
        except CallHung:
            self._calls = None
            self._pulse.hang()
            return dict.fromkeys(offsets, _NO_ANSWER)

    def _write(self, place: Place, offset: int, outcome: Outcome, called_ns: int, returned_ns: int) -> None:
        self._commits.append(
            {
                "group": self.spec.group,
                "topic": place[0],
                "topic_id": self.context.targets[place[0]].topic_id,
                "partition": place[1],
                "offset": offset,
                "outcome": outcome.value,
                "called_ns": called_ns,
                "returned_ns": returned_ns,
            }
        )


def member_settings(spec: Reader, protocol: GroupProtocol) -> dict[str, object]:
    """Settings of a member beside those of every reader; its own `config` wins."""
    settings = SESSION | {"group.protocol": protocol}
    if protocol == "classic":
        settings |= java_settings.CLASSIC if spec.client == JAVA else CLASSIC | {_STRATEGY: spec.assignor}
    if spec.reset:
        settings |= {"auto.offset.reset": spec.reset, "enable.partition.eof": True}
    if spec.static:
        settings["group.instance.id"] = spec.name
    return settings | spec.config


def commit_now(consumer: Consumer, offsets: dict[Place, int]) -> dict[Place, str]:
    """Commits offsets synchronously. Returns errors by partition; an error of the whole commit counts for each."""
    wanted = [TopicPartition(*place, offset, metadata=f"next {offset}") for place, offset in offsets.items()]
    try:
        answered = consumer.commit(offsets=wanted, asynchronous=False) or []
    except KafkaException as failure:
        return dict.fromkeys(offsets, failure.args[0].name())
    errors = {(a.topic, a.partition): a.error.name() for a in answered if a.error is not None}
    unanswered = offsets.keys() - {(a.topic, a.partition) for a in answered}
    return errors | dict.fromkeys(unanswered, _NO_ANSWER)


class Member(Protocol):
    """A member of a group: its positions, and what it has committed; both as next offsets."""

    @property
    def spec(self) -> Reader: ...
    @property
    def positions(self) -> Mapping[Place, int]: ...
    @property
    def committed(self) -> Mapping[Place, int]: ...


def group_lag(members: Sequence[Member], acked: Mapping[Place, int], *, committed: bool = False) -> dict[str, int]:
    """The offsets up to `acked` that a group has not read or, with `committed`, not committed yet.

    By "topic/partition"; only partitions with lag.
    """
    return lag([(m.spec.topics, m.committed if committed else m.positions) for m in members], acked)


def lag(reading: Collection[tuple[Collection[str], Mapping[Place, int]]], acked: Mapping[Place, int]) -> dict[str, int]:
    """The lag of readers that read together, given the topics and next offsets of each; the highest offset counts."""
    missing: dict[str, int] = {}
    for (topic, partition), offset in acked.items():
        reported = [positions.get((topic, partition), 0) for topics, positions in reading if topic in topics]
        if reported and max(reported) <= offset:
            missing[f"{topic}/{partition}"] = offset + 1 - max(reported)
    return missing
