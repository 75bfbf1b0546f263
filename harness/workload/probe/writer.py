"""Writes one self-certifying record a second to each partition, and keeps what was acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from harness.workload.probe.ledger import ProbeLedger
from harness.workload.records.payload import Payloads

Report = Callable[[KafkaError | None, Message], None]
_VALUE_BYTES: Final = 200
_SETTINGS: Final[dict[str, str | int | bool]] = {
    "acks": "all",
    "enable.idempotence": True,
    "compression.type": "none",
    "delivery.timeout.ms": 20_000,
    "linger.ms": 0,
    "log_level": 0,
}
_WAITING_MAX: Final = 1000  # records without an outcome, beyond which no new one is written


class ProbeWriter:
    """Used by one thread. Kept with the ledger's `save`."""

    def __init__(self, client: Mapping[str, str], topic: str, ledger: ProbeLedger, run: int) -> None:
        self._producer = Producer({**client, **_SETTINGS})
        self._topic = topic
        self._ledger = ledger
        self._payloads = Payloads(run, _VALUE_BYTES, run)
        self._waiting = 0
        self.acked = 0
        self.failed = 0
        self.last_error: str | None = None

    def write(self, partitions: Sequence[int]) -> None:
        """One record to each partition, without waiting for it."""
        for partition in partitions:
            if self._waiting >= _WAITING_MAX:
                break
            seq = self._ledger.next_seq(partition)
            (value,) = self._payloads.build(partition, seq, 1, self._topic, partition)
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._reporter(seq))
                self._waiting += 1
            except (BufferError, KafkaException) as refused:
                self.failed += 1
                self.last_error = str(refused)
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(5)

    def _reporter(self, seq: int) -> Report:
        def report(error: KafkaError | None, message: Message) -> None:
            self._waiting -= 1
            partition, offset = message.partition(), message.offset()
            if error is not None or partition is None or offset is None or offset < 0:
                self.failed += 1  # it may be in the log, or not
                self.last_error = None if error is None else error.str()
                return
            self.acked += 1
            self.last_error = None
            self._ledger.add(partition, offset, seq, time.time_ns() // 1_000_000)

        return report
