"""Records of `__remote_log_metadata`, in which brokers share the state of segments in the remote tier (KIP-405).

A value is a frame version, a message key and a message version (unsigned varints), followed by a flexible message in
Kafka's own encoding (KIP-482): storage/src/main/resources/message/*.json in Kafka's source.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from harness.kafka.storage.message_reader import BROKEN, MessageReader

SEGMENT: Final = "segment"
SEGMENT_UPDATE: Final = "segment_update"
PARTITION_DELETE: Final = "partition_delete"
UNREADABLE: Final = "unreadable"
KINDS: Final = (SEGMENT, SEGMENT_UPDATE, PARTITION_DELETE, UNREADABLE)
# Indexed by their numbers (RemoteLogSegmentState, RemotePartitionDeleteState).
SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
PARTITION_STATES: Final = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
_FRAMES: Final = (0, 1)
_MESSAGES: Final = {0: SEGMENT, 1: SEGMENT_UPDATE, 2: PARTITION_DELETE}
_VERSION: Final = 0
_TXN_INDEX_EMPTY: Final = 0  # a tag
_ENTRIES_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRecord:
    """One record. Fields that its kind does not have are None; `why` says why a record is unreadable."""

    kind: str
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    segment_id: str | None = None
    broker: int | None = None
    event_ms: int | None = None
    state: str | None = None
    base_offset: int | None = None
    end_offset: int | None = None
    max_timestamp_ms: int | None = None
    size_bytes: int | None = None
    epochs: tuple[tuple[int, int], ...] | None = None  # (leader epoch, start offset)
    custom_bytes: int | None = None  # size of the storage manager's own metadata
    txn_index_empty: bool | None = None  # True = no transaction index; reported from 4.0 on
    why: str | None = None


def decode(value: bytes) -> TierRecord:
    """Parses a record. Never raises, because a record that no broker writes is evidence too."""
    reader = MessageReader(value)
    try:
        frame, key, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
        if frame not in _FRAMES or key not in _MESSAGES or version != _VERSION:
            return TierRecord(kind=UNREADABLE, why=f"frame {frame}, message {key} of version {version}")
        kind = _MESSAGES[key]
        record = {SEGMENT: _segment, SEGMENT_UPDATE: _update, PARTITION_DELETE: _partition_delete}[kind](reader)
        tags = reader.tags()
        if kind == SEGMENT and tags.get(_TXN_INDEX_EMPTY) == b"\1":
            record = replace(record, txn_index_empty=True)
    except BROKEN as broken:
        return TierRecord(kind=UNREADABLE, why=str(broken) or type(broken).__name__)
    if reader.left:
        return TierRecord(kind=UNREADABLE, why=f"{reader.left} bytes after the message")
    return record


def _place(reader: MessageReader) -> tuple[str, str, int]:
    name, topic_id, partition = reader.compact(), reader.uuid(), reader.number("i")
    reader.tags()
    if name is None:
        raise ValueError("a topic without a name")
    return name.decode("utf-8"), topic_id, partition


def _state(reader: MessageReader, states: tuple[str, ...]) -> str:
    number = reader.number("b")
    if not 0 <= number < len(states):
        raise ValueError(f"state {number}")
    return states[number]


def _segment(reader: MessageReader) -> TierRecord:
    (topic, topic_id, partition), segment_id = _id(reader)
    base, end, broker = reader.number("q"), reader.number("q"), reader.number("i")
    max_timestamp_ms, event_ms = reader.number("q"), reader.number("q")
    epochs = []
    count = reader.uvarint() - 1
    if count > _ENTRIES_MAX:
        raise ValueError(f"{count} leader epochs")
    for _ in range(count):
        epochs.append((reader.number("i"), reader.number("q")))
        reader.tags()
    size_bytes, custom = reader.number("i"), reader.compact()
    return TierRecord(
        kind=SEGMENT,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        segment_id=segment_id,
        broker=broker,
        event_ms=event_ms,
        base_offset=base,
        end_offset=end,
        max_timestamp_ms=max_timestamp_ms,
        epochs=tuple(epochs),
        size_bytes=size_bytes,
        custom_bytes=None if custom is None else len(custom),
        state=_state(reader, SEGMENT_STATES),
    )


def _update(reader: MessageReader) -> TierRecord:
    (topic, topic_id, partition), segment_id = _id(reader)
    broker, event_ms, custom = reader.number("i"), reader.number("q"), reader.compact()
    return TierRecord(
        kind=SEGMENT_UPDATE,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        segment_id=segment_id,
        broker=broker,
        event_ms=event_ms,
        custom_bytes=None if custom is None else len(custom),
        state=_state(reader, SEGMENT_STATES),
    )


def _partition_delete(reader: MessageReader) -> TierRecord:
    topic, topic_id, partition = _place(reader)
    broker, event_ms = reader.number("i"), reader.number("q")
    return TierRecord(
        kind=PARTITION_DELETE,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        broker=broker,
        event_ms=event_ms,
        state=_state(reader, PARTITION_STATES),
    )


def _id(reader: MessageReader) -> tuple[tuple[str, str, int], str]:
    place, segment_id = _place(reader), reader.uuid()
    reader.tags()
    return place, segment_id
