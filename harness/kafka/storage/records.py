"""The records of a batch of format v2 (KIP-98), from bytes that are not compressed, or not any more."""

from __future__ import annotations

from collections.abc import Iterator

from harness.kafka.storage.message_reader import MessageReader
from harness.kafka.storage.record_batch import HEADER_BYTES, Batch

Record = tuple[int, int, bytes | None, bytes | None]  # offset, time in ms, key, value
Headers = list[tuple[str, bytes | None]]


def next_record(reader: MessageReader, batch: Batch) -> Record:
    """Offset, time, key and value of the next record of a batch; the reader begins behind the batch's header."""
    return _begun(MessageReader(reader.take(reader.varint())), batch)


def next_with_headers(reader: MessageReader, batch: Batch) -> tuple[Record, Headers]:
    """The same, with the record's headers."""
    inner = MessageReader(reader.take(reader.varint()))
    record = _begun(inner, batch)
    names = range(inner.varint())
    return record, [((_nullable(inner) or b"").decode("utf-8", "replace"), _nullable(inner)) for _ in names]


def records_of(batch: Batch, data: bytes) -> Iterator[Record]:
    """The records of a batch in the bytes that it was found in, as `next_record` has them. BROKEN if it is damaged."""
    reader = MessageReader(data[batch.position + HEADER_BYTES : batch.position + batch.size_bytes])
    for _ in range(batch.records):
        yield next_record(reader, batch)


def _begun(inner: MessageReader, batch: Batch) -> Record:
    inner.take(1)  # attributes, which have no meaning yet
    time_ms, offset = batch.base_timestamp_ms + inner.varint(), batch.base_offset + inner.varint()
    if batch.timestamp_type == "append":
        time_ms = batch.max_timestamp_ms
    return offset, time_ms, _nullable(inner), _nullable(inner)


def _nullable(reader: MessageReader) -> bytes | None:
    count = reader.varint()
    return None if count < 0 else reader.take(count)
