"""The release's own producer, with those methods of confluent_kafka's Producer that a `RecordingProducer` calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Final

from confluent_kafka import KafkaException, TopicPartition

from harness.workload.java.java_process import (
    Fields,
    JavaClients,
    JavaError,
    JavaProcess,
    content,
    long,
    number,
    places,
)
from harness.workload.producers.outcomes import NEVER_SENT
from harness.workload.producers.produce_arguments import Record

_NEVER_SENT: Final = 4
_NOW: Final = -1
_CALL_S: Final = 15.0  # longer than the client's own max.block.ms
_TICK_S: Final = 0.2
_CLOSE_S: Final = 2.0

Report = Callable[[JavaError | None, "Sent"], None]


class Sent:
    """A record that was sent, with the methods of a message in a delivery report."""

    __slots__ = ("_offset", "_report", "_value")

    def __init__(self, value: bytes | None, report: Report) -> None:
        self._value = value
        self._report = report
        self._offset = -1

    def value(self) -> bytes | None:
        return self._value

    def set_value(self, value: bytes) -> None:
        self._value = value

    def offset(self) -> int:
        return self._offset

    def reported(self, error: JavaError | None, offset: int) -> None:
        """Calls the delivery callback."""
        self._offset = offset
        self._report(error, self)


class JavaProducer(JavaProcess):
    """Accepts every record; one that cannot be sent gets a report with an error.

    `retried` is called with the client's own count of records that it transmitted again.
    """

    def __init__(self, clients: JavaClients, settings: Mapping[str, object], retried: Callable[[int], None]) -> None:
        self._retried = retried
        self._sent: dict[int, Sent] = {}
        self._next = 0
        super().__init__(clients, "producer", settings)

    def produce_batch(self, topic: str, messages: Sequence[Record], *, partition: int, on_delivery: Report) -> int:
        """How many records were accepted: all, or none if the process has ended."""
        return self._send(topic, messages, partition, on_delivery, _NOW)

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
        *,
        partition: int,
        on_delivery: Report,
        timestamp: int = _NOW,
    ) -> None:
        """Sends one record, with a timestamp in milliseconds and headers, if any."""
        message: Record = {"value": value, "key": key, "headers": headers}
        if not self._send(topic, [message], partition, on_delivery, timestamp):
            raise KafkaException(message["_error"])

    def _send(self, topic: str, messages: Sequence[Record], partition: int, report: Report, at_ms: int) -> int:
        head = (long(self._next), content(topic), number(partition), long(at_ms), number(len(messages)))
        try:
            self.send(b"S", *head, *map(_packed, messages))
        except KafkaException as gone:
            for message in messages:
                message["_error"] = gone.args[0]
            return 0
        for nth, message in enumerate(messages, self._next):
            self._sent[nth] = Sent(message["value"], report)
        self._next += len(messages)
        return len(messages)

    def poll(self, timeout_s: float) -> int:
        """Calls the callbacks of all reports that have arrived; waits up to `timeout_s` for the first."""
        frame = self.take(timeout_s)
        while frame is not None:
            self.event(frame)
            frame = self.take(0.0)
        return len(self._sent)

    def flush(self, timeout_s: float) -> int:
        """Waits up to `timeout_s` until everything is reported; returns how many records are not."""
        give_up_at_s = time.monotonic() + timeout_s
        while self._sent and (left_s := give_up_at_s - time.monotonic()) > 0:
            self.poll(min(_TICK_S, left_s))
        return len(self._sent)

    def purge(self) -> None:
        """Kills the process, so that no further record is sent; records without a report get none."""
        self.kill()

    def discard(self) -> None:
        """Ends the process: closes it in order, or kills it if records are not reported."""
        if self._sent:
            self.kill()
        else:
            self.close(_CLOSE_S)

    def event(self, frame: Fields) -> None:
        if frame.op == b"N":
            self._retried(frame.i64())
        elif frame.op == b"A":
            name, flags = frame.text(), frame.byte()
            never = bool(flags & _NEVER_SENT)
            error = JavaError(f"{NEVER_SENT}{name}" if never else name, flags) if name else None
            for _ in range(frame.i32()):
                nth, offset = frame.i64(), frame.i64()
                if (sent := self._sent.pop(nth, None)) is not None:
                    sent.reported(error, offset)

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        """The partitions of a topic in the client's metadata."""
        count = self.ask("partitions", content(topic), timeout_s=timeout).i32()
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=range(count))})

    def init_transactions(self, _: float) -> None:
        self.ask("init", timeout_s=_CALL_S)

    def begin_transaction(self) -> None:
        self.ask("begin", timeout_s=_CALL_S)

    def commit_transaction(self, _: float) -> None:
        self.ask("commit", timeout_s=_CALL_S)

    def abort_transaction(self, _: float) -> None:
        self.ask("abort", timeout_s=_CALL_S)

    def send_offsets_to_transaction(self, offsets: Sequence[TopicPartition], group: str, _: float) -> None:
        self.ask("offsets", content(group), places(offsets, offsets=True), timeout_s=_CALL_S)


def _packed(message: Record) -> bytes:
    headers = message.get("headers") or ()
    return b"".join(
        (
            content(message.get("key")),
            content(message["value"]),
            number(len(headers)),
            *(content(key) + content(value) for key, value in headers),
        )
    )
