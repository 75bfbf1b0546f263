"""Decompresses the records of a batch, in the four codecs of Kafka."""

from __future__ import annotations

import struct
import zlib
from typing import Final

import pyarrow as pa

_XERIAL: Final = b"\x82SNAPPY\x00"  # the framing of Java's snappy; other clients write one plain block
_XERIAL_HEADER_BYTES: Final = 16
_STREAMED: Final = {"lz4": "lz4", "zstd": "zstd"}


def decompressed(codec: str, data: bytes) -> bytes:
    """The records as they were before compression. ValueError for data that cannot be decompressed."""
    try:
        if codec == "none":
            return data
        if codec == "gzip":
            return zlib.decompress(data, wbits=31)
        if codec == "snappy":
            return _snappy(data)
        with pa.CompressedInputStream(pa.BufferReader(data), _STREAMED[codec]) as stream:
            return bytes(stream.read())
    except (zlib.error, pa.ArrowException, OSError, KeyError, IndexError, struct.error) as broken:
        raise ValueError(f"records that are compressed by {codec} cannot be decompressed: {broken}") from broken


def _snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL):
        return _block(data)
    blocks, at = [], _XERIAL_HEADER_BYTES
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        blocks.append(_block(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(blocks)


def _block(data: bytes) -> bytes:
    """One block, whose size stands before it as a varint."""
    size = shift = at = 0
    while True:
        byte = data[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            break
    return bytes(pa.Codec("snappy").decompress(data, size, asbytes=True))
