"""Logs of coordinators as bytes, in the versions that releases write, without the definitions of the harness."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from pathlib import Path

from suites.unit.kafka.storage.test_record_batch import batch_bytes

TOPIC = uuid.UUID(int=1)


def text(value: str | None) -> bytes:
    data = (value or "").encode()
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(data)) + data


def offset_key(group: str, topic: str, partition: int, number: int = 1) -> bytes:
    return struct.pack(">h", number) + text(group) + text(topic) + struct.pack(">i", partition)


def offset_value(offset: int, version: int = 3) -> bytes:
    """A value of OffsetCommitValue; version 4 is flexible and may have a topic id as a tagged field."""
    data = struct.pack(">hq", version, offset)
    data += struct.pack(">i", 5) if version >= 3 else b""
    data += b"\x01" if version >= 4 else text("")
    data += struct.pack(">q", 1)
    data += struct.pack(">q", 2) if version == 1 else b""
    return data + (b"\x01\x00\x10" + TOPIC.bytes if version >= 4 else b"")


def transaction_key(name: str) -> bytes:
    return struct.pack(">h", 0) + text(name)


def transaction_value(state: int, producer_id: int = 7, epoch: int = 3, version: int = 1, started_ms: int = 1) -> bytes:
    data = struct.pack(">hqhib", version, producer_id, epoch, 60_000, state)
    if version == 0:
        data += struct.pack(">i", 1) + text("t") + struct.pack(">ii", 1, 0)
        return data + struct.pack(">qq", 2, started_ms)
    data += b"\x02" + b"\x02t" + b"\x02" + struct.pack(">i", 0) + b"\x00"
    return data + struct.pack(">qq", 2, started_ms) + b"\x01\x02\x02" + struct.pack(">h", 2)  # ClientTransactionVersion


def group_key(number: int, group: str, member: str | None = None) -> bytes:
    return struct.pack(">h", number) + text(group) + (b"" if member is None else text(member))


def epoch_value(epoch: int) -> bytes:
    """ConsumerGroupMetadataValue and ConsumerGroupTargetAssignmentMetadataValue."""
    return struct.pack(">hi", 0, epoch) + b"\x00"


def member_value(epoch: int) -> bytes:
    return (
        struct.pack(">hiib", 0, epoch, epoch - 1, 0) + b"\x02" + TOPIC.bytes + b"\x02\0\0\0\0" + b"\0" + b"\x01" + b"\0"
    )


def classic_value(*members: str, version: int = 3) -> bytes:
    data = struct.pack(">h", version) + text("consumer") + struct.pack(">i", 4) + text("range") + text(None)
    data += (struct.pack(">q", 1) if version >= 2 else b"") + struct.pack(">i", len(members))
    for member in members:
        data += text(member) + (text(None) if version >= 3 else b"") + text("client") + text("host")
        data += (struct.pack(">i", 1) if version >= 1 else b"") + struct.pack(">i", 1)
        data += struct.pack(">i", 2) + b"ab" + struct.pack(">i", 0)
    return data


def share_key(group: str, partition: int, *, update: bool = False) -> bytes:
    return struct.pack(">h", int(update)) + text(group) + TOPIC.bytes + struct.pack(">i", partition)


def snapshot_value(start: int) -> bytes:
    data = struct.pack(">hiiiq", 0, 1, 2, 3, start) + struct.pack(">qq", 1, 1)
    return (
        data + b"\x02" + struct.pack(">qqbh", start, start + 4, 2, 1) + b"\0" + b"\x01\x00\x04" + struct.pack(">i", 5)
    )


def update_value(start: int) -> bytes:
    return struct.pack(">hiiq", 0, 1, 3, start) + b"\x01" + b"\x00"


def record(
    offset: int, key: bytes, value: bytes | None, *, producer: int = -1, epoch: int = 0, codec: int = 0
) -> bytes:
    """A batch of one record; with a producer it is transactional."""
    by = (producer, 0, 0) if producer >= 0 else (-1, -1, -1)
    values: Sequence[bytes] = [value]  # type: ignore[list-item]  # None is a tombstone
    return batch_bytes(
        offset, values, key=key, producer=by, transactional=producer >= 0, leader_epoch=epoch, codec=codec
    )


def log_folder(directory: Path, topic: str, partition: int, *batches: bytes) -> Path:
    """A replica with one segment."""
    folder = directory / f"{topic}-{partition}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder
