"""Record batches of format v2 (KIP-98): their 61-byte headers, their checksums, and the torn end of a log.

Only headers are parsed. The checksum is computed over the bytes, and records stay compressed. A header may be damaged:
`oddities` lists the values that no broker writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple

from crc32c import crc32c

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size  # 61
LOG_OVERHEAD_BYTES: Final = 12  # base offset and length, which the length does not include
CHECKED_FROM: Final = 21  # the checksum covers the attributes and all that follows, not base offset and epoch
MAGIC: Final = 2
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_CODEC_BITS: Final = 0x07
_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40
_UNUSED: Final = 0xFF80
_CONTROL_KINDS: Final = {0: "abort", 1: "commit"}
_CHUNK_BYTES: Final = 8 << 20
_PIECE_BYTES: Final = 64 << 10
_INT64_MAX: Final = (1 << 63) - 1
_NEVER: Final = 1 << 62  # larger than any file


class Batch(NamedTuple):
    """One batch in a file. `digest` is the computed checksum; `crc_ok` says whether the header has the same one."""

    position: int
    size_bytes: int  # with the 12 bytes of offset and length
    base_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int
    crc_ok: bool
    digest: int
    control: str | None  # "commit" | "abort" | "other"; None = data

    @property
    def last_offset(self) -> int:
        # The checksum does not cover the base offset, so a flipped bit may give it any value.
        return min(self.base_offset + self.last_offset_delta, _INT64_MAX)

    @property
    def codec(self) -> str:
        """Kafka's name of the compression; "unknown" for the three undefined codes."""
        code = self.attributes & _CODEC_BITS
        return CODECS[code] if code < len(CODECS) else "unknown"

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def timestamp_type(self) -> str:
        """ "create" or "append", as the topic's message.timestamp.type was when the batch was written."""
        return "append" if self.attributes & _APPEND_TIME else "create"


@dataclass(frozen=True, slots=True)
class Tail:
    """Bytes at the end of a file that are not a batch."""

    position: int
    size_bytes: int
    reason: str


class Walk:
    """Iterates over the batches of a file from its current position. Afterwards `tail` describes the rest.

    It reads in chunks; memory is bounded by a chunk and the largest batch. A batch with a wrong checksum is returned
    like any other. An impossible length ends the walk, because the start of the next batch is then unknown.
    """

    def __init__(self, stream: BinaryIO, size_bytes: int, *, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self.tail: Tail | None = None
        self._stream = stream
        self._left = size_bytes
        self._chunk_bytes = chunk_bytes
        self._position = 0  # in the file, of the buffer's first byte
        self._buffer = b""

    def __iter__(self) -> Iterator[Batch]:
        at = 0
        while True:
            need = self._need(at)
            if need > len(self._buffer) - at:
                if not self._read(at, need):
                    break
                at = 0
                continue
            yield _batch(memoryview(self._buffer)[at : at + need], self._position + at)
            at += need
        self._end(at)

    def _need(self, at: int) -> int:
        """The number of bytes that the next step needs in the buffer: a header first, then the whole batch."""
        if len(self._buffer) - at < HEADER_BYTES:
            return HEADER_BYTES
        (length,) = struct.unpack_from(">i", self._buffer, at + 8)
        return max(HEADER_BYTES, LOG_OVERHEAD_BYTES + length) if _possible_length(length) else _NEVER

    def _read(self, at: int, need: int) -> bool:
        """Appends more of the file to the unread bytes; False when the file does not have that many."""
        kept = self._buffer[at:]
        if need > len(kept) + self._left:
            return False
        fresh = self._stream.read(min(self._left, max(self._chunk_bytes, need - len(kept))))
        self._left = self._left - len(fresh) if fresh else 0
        self._position += at
        self._buffer = kept + fresh
        return bool(fresh)

    def _end(self, at: int) -> None:
        size = len(self._buffer) - at + self._left
        if size:
            self.tail = Tail(self._position + at, size, self._reason(at, size))

    def _reason(self, at: int, size: int) -> str:
        rest = self._buffer[at:]
        if not any(rest) and not any(self._stream.read(self._left)):
            return "zeros"
        if len(rest) < HEADER_BYTES:
            return f"{size} bytes, less than a header"
        (length,) = struct.unpack_from(">i", rest, 8)
        if not _possible_length(length):
            return f"a length of {length} in the header"
        return f"a batch of {length + LOG_OVERHEAD_BYTES} bytes, of which {size} are there"


def oddities(batch: Batch, before: Batch | None = None) -> list[str]:
    """The values in a header that no broker writes. `before` is the previous batch in the same replica's log.

    A gap between offsets is allowed, because compaction leaves gaps.
    """
    found = []
    if batch.magic != MAGIC:
        found.append(f"magic {batch.magic}")
    if batch.base_offset < 0 or batch.last_offset_delta < 0:
        found.append(f"offsets from {batch.base_offset} to {batch.last_offset}")
    if not 0 <= batch.records <= batch.last_offset_delta + 1:
        found.append(f"{batch.records} records in {batch.last_offset_delta + 1} offsets")
    if batch.attributes & _UNUSED or batch.codec == "unknown":
        found.append(f"attributes {batch.attributes & 0xFFFF:#06x}")
    if batch.leader_epoch < 0:
        found.append(f"leader epoch {batch.leader_epoch}")
    if (batch.producer_id >= 0) != (batch.producer_epoch >= 0):
        found.append(f"producer {batch.producer_id} with epoch {batch.producer_epoch}")
    if batch.control is not None and batch.records > 1:
        found.append(f"a control batch of {batch.records} records")
    if batch.max_timestamp_ms < batch.base_timestamp_ms and not batch.attributes & (_APPEND_TIME | _DELETE_HORIZON):
        found.append(f"newest timestamp {batch.max_timestamp_ms} before the first {batch.base_timestamp_ms}")
    if before is not None and batch.base_offset <= before.last_offset:
        found.append(f"offset {batch.base_offset} after {before.last_offset}")
    if before is not None and batch.leader_epoch < before.leader_epoch:
        found.append(f"leader epoch {batch.leader_epoch} after {before.leader_epoch}")
    return found


def _possible_length(length: int) -> bool:
    return length >= HEADER_BYTES - LOG_OVERHEAD_BYTES


def size_of_first(data: bytes | memoryview) -> int:
    """The size of the batch at the start of some bytes, by its header; 0 if they are too few for that."""
    if len(data) < LOG_OVERHEAD_BYTES:
        return 0
    (length,) = struct.unpack_from(">i", data, 8)
    return int(length) + LOG_OVERHEAD_BYTES


def batch_at(file: BinaryIO, position: int, size_bytes: int) -> Batch | Tail | None:
    """The batch at a position of a file of that size; None at its end, and a Tail where no whole batch is.

    The batch itself is read in pieces, because one may have several megabytes.
    """
    left = size_bytes - position
    if left <= 0:
        return None
    file.seek(position)
    head = file.read(min(left, _PIECE_BYTES))
    if len(head) < HEADER_BYTES:
        return Tail(position, left, f"{left} bytes, less than a header")
    (length,) = struct.unpack_from(">i", head, 8)
    if not _possible_length(length):
        return Tail(position, left, f"a length of {length} in the header")
    whole = length + LOG_OVERHEAD_BYTES
    if whole > left:
        return Tail(position, left, f"a batch of {whole} bytes, of which {left} are there")
    digest, behind = crc32c(head[CHECKED_FROM:whole]), whole - len(head)
    while behind > 0 and (piece := file.read(min(behind, _PIECE_BYTES))):
        digest, behind = crc32c(piece, digest), behind - len(piece)
    return _batch_of(memoryview(head)[:whole], position, digest)


def _batch(data: memoryview, position: int) -> Batch:
    return _batch_of(data, position, crc32c(data[CHECKED_FROM:]))


def _batch_of(data: memoryview, position: int, digest: int) -> Batch:
    """A batch by its first bytes and its computed checksum."""
    (
        base_offset,
        length,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        records,
    ) = HEADER.unpack_from(data)
    return Batch(
        position,
        length + LOG_OVERHEAD_BYTES,
        base_offset,
        leader_epoch,
        magic,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        records,
        digest == crc,
        digest,
        _control_kind(data) if attributes & _CONTROL else None,
    )


def _control_kind(data: memoryview) -> str:
    """The kind of marker, from the batch's only record: length, attributes, two deltas, then a key.

    The key is a version and a type (int16 each).
    """
    try:
        _, at = _varint(data, HEADER_BYTES)
        at += 1
        for _ in range(2):
            _, at = _varint(data, at)
        key_bytes, at = _varint(data, at)
        if key_bytes < 4:
            return "other"
        (kind,) = struct.unpack_from(">h", data, at + 2)
    except (IndexError, struct.error):
        return "other"
    return _CONTROL_KINDS.get(kind, "other")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A zigzag varint and the position after it; IndexError past the end of the batch."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
