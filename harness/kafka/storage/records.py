"""The records of a batch of format v2 (KIP-98) that is not compressed."""

from __future__ import annotations

from collections.abc import Iterator

from harness.kafka.storage.message_reader import MessageReader
from harness.kafka.storage.record_batch import HEADER_BYTES, Batch


def next_record(reader: MessageReader, batch: Batch) -> tuple[int, int, bytes | None, bytes | None]:
    """Offset, time, key and value of the next record of a batch; the reader begins behind the batch's header."""
    inner = MessageReader(reader.take(reader.varint()))
    inner.take(1)  # attributes, which have no meaning yet
    time_ms, offset = batch.base_timestamp_ms + inner.varint(), batch.base_offset + inner.varint()
    if batch.timestamp_type == "append":
        time_ms = batch.max_timestamp_ms
    return offset, time_ms, _nullable(inner), _nullable(inner)


def records_of(batch: Batch, data: bytes) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    """The records of a batch in the bytes that it was found in, as `next_record` has them. BROKEN if it is damaged."""
    reader = MessageReader(data[batch.position + HEADER_BYTES : batch.position + batch.size_bytes])
    for _ in range(batch.records):
        yield next_record(reader, batch)


def _nullable(reader: MessageReader) -> bytes | None:
    count = reader.varint()
    return None if count < 0 else reader.take(count)
