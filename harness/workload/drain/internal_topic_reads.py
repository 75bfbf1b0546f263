"""Reads every record of an internal topic without decoding it; other modules decode the format."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from harness.model.errors import HarnessTimeout
from harness.workload.settings import consumer_settings

_POLL_RECORDS: Final = 5000
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class RawRecord:
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes


def read_all(bootstrap: str, topic: str, partitions: Collection[int], deadline_s: float) -> list[RawRecord]:
    """All records that were in the topic at the start, and some that came later. HarnessTimeout after `deadline_s`."""
    give_up_at = time.monotonic() + deadline_s
    name = f"raw-{topic}"
    consumer = Consumer(consumer_settings(bootstrap, name, name, "read_uncommitted"))
    try:
        marks = {p: _marks(consumer, TopicPartition(topic, p), give_up_at) for p in partitions}
        left = {p: high for p, (low, high) in marks.items() if high > low}
        consumer.assign([TopicPartition(topic, p, marks[p][0]) for p in left])
        found: list[RawRecord] = []
        while left:
            for message in consumer.consume(_POLL_RECORDS, _POLL_S):
                partition, offset = message.partition(), message.offset()
                if message.error() is not None or partition is None or offset is None:
                    continue
                found.append(RawRecord(partition, offset, message.timestamp()[1], message.value() or b""))
                if offset + 1 >= left.get(partition, 0):
                    left.pop(partition, None)
            if time.monotonic() > give_up_at:
                raise HarnessTimeout(f"waited {deadline_s:g} s to read {topic}: partitions {sorted(left)} are not done")
        return sorted(found, key=lambda record: (record.partition, record.offset))
    finally:
        consumer.close()


def _marks(consumer: Consumer, place: TopicPartition, give_up_at: float) -> tuple[int, int]:
    try:
        marks = consumer.get_watermark_offsets(place, timeout=max(0.1, give_up_at - time.monotonic()))
    except KafkaException as failure:
        raise HarnessTimeout(f"no offsets of {place.topic}-{place.partition}: {failure.args[0].str()}") from failure
    if marks is None:
        raise HarnessTimeout(f"no offsets of {place.topic}-{place.partition} in time")
    return marks
