"""The release's own consumer, with those methods of confluent_kafka's Consumer that live readers call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException, TopicPartition

from harness.workload.java.java_process import Fields, JavaClients, JavaError, JavaProcess, content, number, places

# Longer than the client's own timeout of any call, even with a rebalance during it.
_CALL_S: Final = 30.0
_CLOSE_S: Final = 5.0
_CREATED: Final = 1  # CreateTime; no caller uses the timestamp's type
# librdkafka's names of the same errors.
_NAMES: Final[dict[str, str]] = {
    "OffsetOutOfRangeException": "OFFSET_OUT_OF_RANGE",
    "LogTruncationException": "_LOG_TRUNCATION",
    "NoOffsetForPartitionException": "_AUTO_OFFSET_RESET",
    "FencedInstanceIdException": "_FATAL",
}

Rebalanced = Callable[["JavaConsumer", list[TopicPartition]], None]


class Given:
    """A record, or an error of one partition, with the methods of confluent_kafka's Message."""

    __slots__ = ("_at_ms", "_epoch", "_error", "_headers", "_key", "_offset", "_partition", "_topic", "_value")

    def __init__(self, topic: str | None, partition: int | None, error: JavaError | None = None) -> None:
        self._topic, self._partition, self._error = topic, partition, error
        self._offset = self._at_ms = -1
        self._epoch: int | None = None
        self._key: bytes | None = None
        self._value: bytes | None = None
        self._headers: list[tuple[str, bytes | None]] | None = None

    @classmethod
    def read(cls, topic: str, partition: int, fields: Fields) -> Given:
        given = cls(topic, partition)
        given._offset, given._at_ms, epoch, headers = fields.i64(), fields.i64(), fields.i32(), fields.i32()
        given._epoch = epoch if epoch >= 0 else None
        given._key, given._value = fields.content(), fields.content()
        if headers:
            given._headers = [(fields.text(), fields.content()) for _ in range(headers)]
        return given

    def topic(self) -> str | None:
        return self._topic

    def partition(self) -> int | None:
        return self._partition

    def error(self) -> JavaError | None:
        return self._error

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return _CREATED, self._at_ms

    def leader_epoch(self) -> int | None:
        return self._epoch

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self._headers


def records(fields: Fields) -> list[Given]:
    """The records of a poll, partition by partition."""
    found: list[Given] = []
    for _place in range(fields.i32()):
        topic, partition = fields.text(), fields.i32()
        found += [Given.read(topic, partition, fields) for _record in range(fields.i32())]
    return found


class JavaConsumer(JavaProcess):
    """Belongs to one thread; it calls the rebalance callbacks inside `consume` and `close`."""

    def __init__(self, clients: JavaClients, settings: Mapping[str, object]) -> None:
        self._callbacks: dict[str, Rebalanced] = {}
        self.on_commit: Callable[[dict[tuple[str, int], int]], None] | None = None  # for auto-commits
        super().__init__(clients, "consumer", settings)

    def subscribe(
        self, topics: Sequence[str], *, on_assign: Rebalanced, on_revoke: Rebalanced, on_lost: Rebalanced
    ) -> None:
        self._callbacks = {"a": on_assign, "r": on_revoke, "l": on_lost}
        self.ask("subscribe", number(len(topics)), *map(content, topics), timeout_s=_CALL_S)

    def consume(self, _: int, timeout_s: float) -> list[Given]:
        """The records of one poll; `max.poll.records` limits them. Errors come as messages, like librdkafka's."""
        try:
            fields = self.ask("poll", number(int(timeout_s * 1000)), timeout_s=_CALL_S)
        except KafkaException as failure:
            error: JavaError = failure.args[0]
            named = JavaError(_NAMES.get(error.name(), error.name()), error.flags, error.text)
            return [Given(*place, named) for place in error.places] or [Given(None, None, named)]
        return records(fields)

    def incremental_assign(self, parts: Sequence[TopicPartition]) -> None:
        """Adds partitions at these offsets. For partitions of a group, it only sets the offsets."""
        self.ask("assign", places(parts, offsets=True), timeout_s=_CALL_S)

    def incremental_unassign(self, parts: Sequence[TopicPartition]) -> None:
        self.ask("unassign", places(parts), timeout_s=_CALL_S)

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(*place) for place in self.ask("assignment", timeout_s=_CALL_S).places()]

    def commit(self, *, offsets: Sequence[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        """Commits synchronously. KafkaException if that failed; the Java client reports no errors by partition."""
        assert not asynchronous
        self.ask("commit", places(offsets, offsets=True), timeout_s=_CALL_S)
        return list(offsets)

    def committed(self, parts: Sequence[TopicPartition], timeout_s: float) -> list[TopicPartition]:
        """The group's committed offsets, from its coordinator; stable offsets only."""
        fields = self.ask("committed", number(int(timeout_s * 1000)), places(parts), timeout_s=timeout_s + _CALL_S)
        return [TopicPartition(fields.text(), fields.i32(), fields.i64()) for _ in range(fields.i32())]

    def event(self, frame: Fields) -> None:
        """Handles an acknowledged auto-commit, or a rebalance, for which the Java client waits."""
        if frame.op == b"K" and self.on_commit:
            self.on_commit({(frame.text(), frame.i32()): frame.i64() for _ in range(frame.i32())})
        if frame.op != b"B":
            return
        what = chr(frame.byte())
        try:
            if callback := self._callbacks.get(what):
                callback(self, [TopicPartition(*place) for place in frame.places()])
        finally:
            self.send(b"D")

    def close(self, within_s: float = _CLOSE_S) -> None:
        super().close(within_s)
