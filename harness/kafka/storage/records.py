"""The records of a batch of format v2 (KIP-98) that is not compressed."""

from __future__ import annotations

from harness.kafka.storage.message_reader import MessageReader
from harness.kafka.storage.record_batch import Batch


def next_record(reader: MessageReader, batch: Batch) -> tuple[int, int, bytes | None, bytes | None]:
    """Offset, time, key and value of the next record of a batch; the reader begins behind the batch's header."""
    inner = MessageReader(reader.take(reader.varint()))
    inner.take(1)  # attributes, which have no meaning yet
    time_ms, offset = batch.base_timestamp_ms + inner.varint(), batch.base_offset + inner.varint()
    if batch.timestamp_type == "append":
        time_ms = batch.max_timestamp_ms
    return offset, time_ms, _nullable(inner), _nullable(inner)


def _nullable(reader: MessageReader) -> bytes | None:
    count = reader.varint()
    return None if count < 0 else reader.take(count)
