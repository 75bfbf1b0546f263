"""The records in an answer to a fetch, with the methods of confluent_kafka's messages that readers call.

A reader of `read_committed` is given neither markers nor records of aborted transactions; the answer lists the latter.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from harness.kafka.storage.compression import decompressed
from harness.kafka.storage.message_reader import BROKEN, MessageReader
from harness.kafka.storage.record_batch import HEADER_BYTES, MAGIC, Batch, Walk
from harness.kafka.storage.records import Headers, next_with_headers

_TIMES: Final = {"create": 1, "append": 2}  # as confluent_kafka numbers them


class AbortedTransaction(Protocol):
    """An entry of the list of aborted transactions in an answer."""

    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FetchedRecord:
    """One record. Its methods are those of confluent_kafka.Message."""

    _topic: str
    _partition: int
    _offset: int
    _time_ms: int
    _time_type: int
    _epoch: int
    _key: bytes | None
    _value: bytes | None
    _headers: Headers | None

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        """The type of the timestamp, and the timestamp in ms."""
        return self._time_type, self._time_ms

    def leader_epoch(self) -> int:
        return self._epoch

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Headers | None:
        return self._headers

    def error(self) -> None:
        return None


@dataclass(slots=True)
class Given:
    """What an answer has for a reader from an offset. next_offset: behind the last batch, whose records may be none.

    batches: the headers of all whole batches.
    """

    records: list[FetchedRecord]
    batches: list[Batch]
    next_offset: int


def given(
    topic: str,
    partition: int,
    data: bytes,
    offset: int,
    aborted: Sequence[AbortedTransaction] | None = None,
) -> Given:
    """Decodes an answer. aborted: None = records of all transactions are given. ValueError for undecodable records."""
    walk = Walk(io.BytesIO(data), len(data))
    found = Given([], [], offset)
    skip = _Skipped(aborted)
    for batch in walk:
        found.batches.append(batch)
        if batch.magic != MAGIC:
            raise ValueError(f"the batch at offset {batch.base_offset} has the format {batch.magic}")
        if batch.last_offset < offset:
            continue
        if not skip.has(batch) and batch.control is None:
            body = data[batch.position + HEADER_BYTES : batch.position + batch.size_bytes]
            found.records += (one for one in _records(topic, partition, batch, body) if one.offset() >= offset)
        found.next_offset = batch.last_offset + 1
    return found


class _Skipped:
    """Which batches belong to aborted transactions (as in Kafka's CompletedFetch)."""

    def __init__(self, aborted: Sequence[AbortedTransaction] | None) -> None:
        self._filters = aborted is not None
        self._coming = deque(sorted(aborted or (), key=lambda one: one.first_offset))
        self._open: set[int] = set()

    def has(self, batch: Batch) -> bool:
        if not self._filters or not batch.transactional:
            return False
        while self._coming and self._coming[0].first_offset <= batch.last_offset:
            self._open.add(self._coming.popleft().producer_id)
        if batch.control == "abort":
            self._open.discard(batch.producer_id)
        return batch.control is None and batch.producer_id in self._open


def _records(topic: str, partition: int, batch: Batch, body: bytes) -> Iterator[FetchedRecord]:
    reader, kind = MessageReader(decompressed(batch.codec, body)), _TIMES[batch.timestamp_type]
    try:
        for _ in range(batch.records):
            (offset, time_ms, key, value), headers = next_with_headers(reader, batch)
            yield FetchedRecord(
                topic, partition, offset, time_ms, kind, batch.leader_epoch, key, value, headers or None
            )
    except BROKEN:
        raise ValueError(f"the batch at offset {batch.base_offset} ends within a record") from None
