"""Each codec of Kafka is decompressed as its clients write it; snappy in both framings."""

from __future__ import annotations

import gzip
import struct

import pyarrow as pa
import pytest

from harness.kafka.storage.compression import decompressed

DATA = b"".join(b"record %d " % n for n in range(5000))


def framed(codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(DATA)
    return bytes(sink.getvalue())


def snappy(data: bytes) -> bytes:
    return bytes(pa.Codec("snappy").compress(data, asbytes=True))


def xerial(*blocks: bytes) -> bytes:
    """The framing of Java's snappy: a header, then each block with its size."""
    packed = (snappy(block) for block in blocks)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(p)) + p for p in packed)


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        ("none", DATA),
        ("gzip", gzip.compress(DATA)),
        ("snappy", snappy(DATA)),
        ("snappy", xerial(DATA[:30_000], DATA[30_000:])),
        ("lz4", framed("lz4")),
        ("zstd", framed("zstd")),
    ],
    ids=["none", "gzip", "snappy", "xerial", "lz4", "zstd"],
)
def test_the_records_come_back(codec: str, packed: bytes) -> None:
    assert decompressed(codec, packed) == DATA


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "unknown"])
def test_data_that_no_client_compressed_so_is_an_error(codec: str) -> None:
    with pytest.raises(ValueError, match=f"compressed by {codec} cannot be decompressed"):
        decompressed(codec, b"\x00not compressed")


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_data_that_is_cut_off_is_an_error(codec: str) -> None:
    packed = gzip.compress(DATA) if codec == "gzip" else framed(codec)
    with pytest.raises(ValueError, match="cannot be decompressed"):
        decompressed(codec, packed[: len(packed) // 2])
