"""The segments of every partition in the remote tier, folded from __remote_log_metadata, in about 40 bytes each."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from typing import Final

from harness.audit.look import RemoteSegment
from harness.audit.store.partitions import UNKNOWN
from harness.kafka.storage.remote_log_metadata import SEGMENT, SEGMENT_STATES, SEGMENT_UPDATE, TierRecord
from harness.kafka.storage.uuids import kafka_uuid, uuid_of
from harness.model.clock import NS_PER_MS

STARTED, FINISHED, DELETING, DELETED = SEGMENT_STATES
_ROW: Final = struct.Struct("<16s b q q i")
_ROW_BYTES: Final = _ROW.size


class RemoteSegments:
    """The segments with their states. Those that are deleted are dropped."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], bytearray] = {}
        self._bytes: dict[tuple[str, int], int] = {}  # of finished segments
        self._names: dict[str, str] = {}  # topic id -> name

    def apply(self, record: TierRecord) -> tuple[RemoteSegment, RemoteSegment | None] | None:
        """The segment after a record and before it; None for a record that is about no segment."""
        if record.kind not in (SEGMENT, SEGMENT_UPDATE) or record.topic_id is None or record.partition is None:
            return None
        if record.segment_id is None or record.state is None:
            return None
        place = record.topic_id, record.partition
        self._names.setdefault(record.topic_id, record.topic or "")
        before = self._get(record, place, record.segment_id)
        after = RemoteSegment(
            topic=record.topic or "",
            topic_id=record.topic_id,
            partition=record.partition,
            segment_id=record.segment_id,
            state=record.state,
            first_offset=_kept(record.base_offset, before.first_offset if before else UNKNOWN),
            last_offset=_kept(record.end_offset, before.last_offset if before else UNKNOWN),
            size_bytes=_kept(record.size_bytes, before.size_bytes if before else UNKNOWN),
            at_ns=(record.event_ms or 0) * NS_PER_MS,
            broker=_kept(record.broker, UNKNOWN),
        )
        self._put(place, after, before)
        return after, before

    def bytes_of(self, topic_id: str, partition: int) -> int:
        """The bytes of the finished segments of a partition."""
        return self._bytes.get((topic_id, partition), 0)

    def of(self, topic: str, topic_id: str, partition: int) -> Iterator[RemoteSegment]:
        """The segments of a partition, in the order of their first records."""
        rows = self._rows.get((topic_id, partition), bytearray())
        for at in range(0, len(rows), _ROW_BYTES):
            yield _segment(topic, topic_id, partition, bytes(rows[at : at + _ROW_BYTES]))

    def places(self) -> list[tuple[str, str, int]]:
        """(topic, topic id, partition) of all partitions, as `of` takes them."""
        return [(self._names[topic_id], topic_id, partition) for topic_id, partition in self._rows]

    def state(self, topic_id: str, partition: int, segment_id: str) -> str | None:
        """The state of a segment; None if it is not known, or deleted."""
        rows = self._rows.get((topic_id, partition), bytearray())
        at = _find(rows, uuid_of(segment_id).bytes)
        return None if at < 0 else SEGMENT_STATES[_ROW.unpack_from(rows, at)[1]]

    def remove_topic(self, topic_id: str) -> None:
        for place in [place for place in self._rows if place[0] == topic_id]:
            del self._rows[place]
            self._bytes.pop(place, None)
        self._names.pop(topic_id, None)

    def _get(self, record: TierRecord, place: tuple[str, int], segment_id: str) -> RemoteSegment | None:
        rows = self._rows.get(place)
        at = UNKNOWN if rows is None else _find(rows, uuid_of(segment_id).bytes)
        if rows is None or at < 0:
            return None
        return _segment(record.topic or "", *place, bytes(rows[at : at + _ROW_BYTES]))

    def _put(self, place: tuple[str, int], after: RemoteSegment, before: RemoteSegment | None) -> None:
        rows = self._rows.setdefault(place, bytearray())
        key = uuid_of(after.segment_id).bytes
        state = SEGMENT_STATES.index(after.state)
        row = _ROW.pack(key, state, after.first_offset, after.last_offset, after.size_bytes)
        at = _find(rows, key)
        here = slice(at, at + _ROW_BYTES) if at >= 0 else slice(len(rows), len(rows))
        rows[here] = b"" if after.state == DELETED else row
        grown = _finished_bytes(after) - _finished_bytes(before)
        self._bytes[place] = self._bytes.get(place, 0) + grown


def _finished_bytes(segment: RemoteSegment | None) -> int:
    return max(0, segment.size_bytes) if segment is not None and segment.state == FINISHED else 0


def _find(rows: bytearray, key: bytes) -> int:
    """Where the row with this key is; UNKNOWN if there is none. Other bytes may look like a key."""
    at = rows.find(key)
    while at >= 0 and at % _ROW_BYTES:
        at = rows.find(key, at + 1)
    return at


def _kept(new: int | None, old: int) -> int:
    return old if new is None else new


def _segment(topic: str, topic_id: str, partition: int, row: bytes) -> RemoteSegment:
    key, state, first, last, size_bytes = _ROW.unpack(row)
    return RemoteSegment(
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        segment_id=kafka_uuid(uuid.UUID(bytes=key)),
        state=SEGMENT_STATES[state],
        first_offset=first,
        last_offset=last,
        size_bytes=size_bytes,
    )
