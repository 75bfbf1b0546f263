"""Headers, checksums and torn ends of record batches, on bytes that kafka-python builds."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from harness.kafka.storage.record_batch import CHECKED_FROM, HEADER_BYTES, Batch, Walk, oddities

GZIP = 1
FIRST_MS = 1_700_000_000_000


def batch_bytes(
    base_offset: int,
    values: Sequence[bytes],
    *,
    codec: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    leader_epoch: int = 0,
    attributes: int = 0,
    key: bytes | None = None,
) -> bytes:
    """A batch as a leader writes it. Offset and epoch are outside the checksum; the rest is from the producer."""
    builder = DefaultRecordBatchBuilder(2, codec, transactional, *producer, 1 << 20)
    for delta, value in enumerate(values):
        assert builder.append(delta, FIRST_MS + delta, key, value, []) is not None
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, 12, leader_epoch)
    return rechecked(data, attributes)


def rechecked(data: bytes | bytearray, attributes: int = 0) -> bytes:
    """The batch with further attributes and the matching checksum."""
    changed = bytearray(data)
    (before,) = struct.unpack_from(">h", changed, CHECKED_FROM)
    struct.pack_into(">h", changed, CHECKED_FROM, before | attributes)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[CHECKED_FROM:])))
    return bytes(changed)


def marker(base_offset: int, kind: int) -> bytes:
    """A control batch with one record. Its key is a version and a type."""
    return batch_bytes(
        base_offset,
        [b"\0" * 6],
        producer=(7, 3, -1),
        transactional=True,
        attributes=0x20,
        key=struct.pack(">hh", 0, kind),
    )


def walked(data: bytes, chunk_bytes: int = 1 << 20) -> tuple[list[Batch], Walk]:
    walk = Walk(io.BytesIO(data), len(data), chunk_bytes=chunk_bytes)
    return list(walk), walk


@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    gaps=st.lists(st.integers(0, 5), min_size=6, max_size=6),
    codec=st.sampled_from([0, GZIP]),
    producer=st.one_of(
        st.just((-1, -1, -1)), st.tuples(st.integers(0, 1 << 62), st.integers(0, 32767), st.integers(0, 1 << 30))
    ),
    transactional=st.booleans(),
    chunk_bytes=st.integers(1, 400),
)
def test_headers_agree_with_another_parser(
    sizes: list[int],
    gaps: list[int],
    codec: int,
    producer: tuple[int, int, int],
    transactional: bool,
    chunk_bytes: int,
) -> None:
    data, offset = b"", 5
    for size, gap in zip(sizes, gaps, strict=False):
        data += batch_bytes(
            offset,
            [b"x" * size * 20] * size,
            codec=codec,
            producer=producer,
            transactional=transactional,
            leader_epoch=gap,
        )
        offset += size + gap
    batches, walk = walked(data, chunk_bytes)
    assert walk.tail is None
    theirs = list(MemoryRecords(data))
    assert len(batches) == len(theirs) == len(sizes)
    for ours, other in zip(batches, theirs, strict=True):
        assert ours.base_offset == other.base_offset
        assert ours.last_offset == other.base_offset + other.last_offset_delta
        assert ours.records == other.records_count
        assert ours.size_bytes == other.size_in_bytes
        assert ours.leader_epoch == other.leader_epoch
        assert (ours.producer_id, ours.producer_epoch, ours.base_sequence) == producer
        assert ours.transactional is transactional
        assert ours.codec == ("none", "gzip")[other.compression_type]
        assert ours.timestamp_type == "create"
        assert (ours.base_timestamp_ms, ours.max_timestamp_ms) == (other.first_timestamp, other.max_timestamp)
        assert (ours.crc_ok, ours.digest) == (other.validate_crc(), other.crc)
        assert ours.control is None
        assert oddities(ours) == []


@given(flip=st.integers(CHECKED_FROM * 8, (HEADER_BYTES + 30) * 8 - 1))
def test_a_flipped_bit_under_the_checksum_is_detected(flip: int) -> None:
    data = bytearray(batch_bytes(0, [b"0123456789"] * 3) + batch_bytes(3, [b"next"]))
    data[flip // 8] ^= 1 << flip % 8
    batches, walk = walked(bytes(data))
    assert [batch.crc_ok for batch in batches] == [False, True]
    assert walk.tail is None


@given(cut=st.integers(1, 200))
def test_a_torn_end_is_measured_to_the_byte(cut: int) -> None:
    whole, torn = batch_bytes(0, [b"a" * 50]), batch_bytes(1, [b"b" * 200])
    batches, walk = walked(whole + torn[: len(torn) - cut], chunk_bytes=64)
    assert [batch.base_offset for batch in batches] == [0]
    assert walk.tail is not None
    assert (walk.tail.position, walk.tail.size_bytes) == (len(whole), len(torn) - cut)
    if len(torn) - cut < HEADER_BYTES:
        assert walk.tail.reason == f"{len(torn) - cut} bytes, less than a header"
    else:
        assert walk.tail.reason == f"a batch of {len(torn)} bytes, of which {len(torn) - cut} are there"


def test_zeros_after_the_last_batch_are_reported() -> None:
    whole = batch_bytes(0, [b"a"])
    _, walk = walked(whole + b"\0" * 5000, chunk_bytes=100)
    assert walk.tail is not None
    assert (walk.tail.size_bytes, walk.tail.reason) == (5000, "zeros")


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_an_impossible_length_ends_the_walk(length: int) -> None:
    bad = bytearray(batch_bytes(1, [b"b"]))
    struct.pack_into(">i", bad, 8, length)
    batches, walk = walked(batch_bytes(0, [b"a"]) + bytes(bad))
    assert len(batches) == 1
    assert walk.tail is not None
    assert walk.tail.reason == f"a length of {length} in the header"


def test_an_empty_file_has_no_batches() -> None:
    batches, walk = walked(b"")
    assert (batches, walk.tail) == ([], None)


@pytest.mark.parametrize(("kind", "name"), [(0, "abort"), (1, "commit"), (2, "other"), (9, "other")])
def test_commit_and_abort_markers_are_distinguished(kind: int, name: str) -> None:
    ((batch,), _) = walked(marker(10, kind))
    assert (batch.control, batch.transactional, batch.crc_ok) == (name, True, True)
    assert oddities(batch) == []


@pytest.mark.parametrize(("code", "name"), [(0, "none"), (1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd")])
def test_codecs_have_kafkas_names(code: int, name: str) -> None:
    ((batch,), _) = walked(batch_bytes(0, [b"a"], attributes=code))
    assert batch.codec == name


def test_append_time_is_recognised() -> None:
    ((batch,), _) = walked(batch_bytes(0, [b"a"], attributes=0x08))
    assert batch.timestamp_type == "append"


def test_the_digest_ignores_offset_and_leader_epoch() -> None:
    ((one,), _), ((other,), _) = (
        walked(batch_bytes(0, [b"same"], leader_epoch=1)),
        walked(batch_bytes(9, [b"same"], leader_epoch=4)),
    )
    assert one.digest == other.digest


@pytest.mark.parametrize(
    ("at", "form", "value", "what"),
    [
        (16, ">b", 1, "magic 1"),
        (0, ">q", -5, "offsets from -5"),
        (23, ">i", 0, "2 records in 1 offsets"),
        (57, ">i", -1, "-1 records"),
        (21, ">h", 7, "attributes 0x0007"),
        (21, ">h", 0x80, "attributes 0x0080"),
        (12, ">i", -1, "leader epoch -1"),
        (43, ">q", 12, "producer 12 with epoch -1"),
        (35, ">q", 5, "newest timestamp 5 before the first"),
    ],
)
def test_headers_that_no_broker_writes_are_reported(at: int, form: str, value: int, what: str) -> None:
    data = bytearray(batch_bytes(0, [b"a", b"b"]))
    struct.pack_into(form, data, at, value)
    ((batch,), _) = walked(rechecked(data))
    assert [odd for odd in oddities(batch) if what in odd]


def test_offsets_and_epochs_must_not_fall_below_the_previous_batch() -> None:
    (first, second), _ = walked(batch_bytes(10, [b"a"] * 3, leader_epoch=2) + batch_bytes(12, [b"b"], leader_epoch=1))
    assert oddities(second, first) == ["offset 12 after 12", "leader epoch 1 after 2"]
    (first, second), _ = walked(batch_bytes(10, [b"a"] * 3, leader_epoch=2) + batch_bytes(99, [b"b"], leader_epoch=2))
    assert oddities(second, first) == []


@given(st.binary(max_size=400), st.integers(1, 90))
def test_any_bytes_are_accounted_for(data: bytes, chunk_bytes: int) -> None:
    batches, walk = walked(data, chunk_bytes)
    tail = walk.tail.size_bytes if walk.tail else 0
    assert sum(batch.size_bytes for batch in batches) + tail == len(data)
    for batch in batches:
        oddities(batch)
        assert isinstance(batch.control, str | None)
