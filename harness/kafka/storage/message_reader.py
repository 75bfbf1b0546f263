"""Reads values of Kafka's own message encoding: with compact lengths and tagged fields (KIP-482), and the older one."""

from __future__ import annotations

import struct
import uuid
from typing import BinaryIO, Final

from harness.kafka.storage.uuids import kafka_uuid

BROKEN = (IndexError, ValueError, struct.error)  # raised by a message that ends too early, or that no broker writes

_PIECE_BYTES: Final = 64 << 10
_VARINT_BYTES_MAX: Final = 10


class MessageReader:
    """Reads a message from its beginning. Raises one of BROKEN when it ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def uvarint(self) -> int:
        byte = self._data[self._at]
        if byte < 0x80:  # nearly always
            self._at += 1
            return byte
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7

    def varint(self) -> int:
        """A zigzag varint, as in the header of a record."""
        value = self.uvarint()
        return (value >> 1) ^ -(value & 1)

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def real(self) -> float:
        (value,) = struct.unpack(">d", self.take(8))
        return float(value)

    def take(self, count: int) -> bytes:
        at, end = self._at, self._at + count
        if not at <= end <= len(self._data):
            raise ValueError(f"{count} bytes are expected, and {self.left} are left")
        self._at = end
        return self._data[at:end]

    def compact(self) -> bytes | None:
        """Bytes or a string, preceded by its length plus one; None for null."""
        count = self.uvarint()
        return None if count == 0 else self.take(count - 1)

    def sized(self, form: str) -> bytes | None:
        """Bytes or a string of a version without compact lengths: the length is a number, and -1 for null."""
        count = self.number(form)
        return None if count < 0 else self.take(count)

    def uuid(self) -> str:
        return kafka_uuid(uuid.UUID(bytes=self.take(16)))

    def tags(self) -> dict[int, bytes]:
        """Tagged fields by their numbers; later releases may add some."""
        return {self.uvarint(): self.take(self.uvarint()) for _ in range(self.uvarint())}


class FileReader(MessageReader):
    """Reads a part of a file as one message, in pieces, so that memory is bounded by its largest value."""

    def __init__(self, file: BinaryIO, position: int, size_bytes: int) -> None:
        super().__init__(b"")
        self._file = file
        self._position = position  # in the file, of the next piece
        self._behind = size_bytes  # bytes of the part that are not in memory yet

    @property
    def left(self) -> int:
        return super().left + self._behind

    def uvarint(self) -> int:
        self._want(min(_VARINT_BYTES_MAX, self.left))
        return super().uvarint()

    def number(self, form: str) -> int:
        self._want(min(struct.calcsize(form), self.left))
        return super().number(form)

    def take(self, count: int) -> bytes:
        if 0 <= count <= self.left:
            self._want(count)
        return super().take(count)

    def _want(self, count: int) -> None:
        """Reads on until `count` bytes are in memory. ValueError if the file has become shorter."""
        lacking = count - super().left
        if lacking <= 0:
            return
        self._file.seek(self._position)
        piece = self._file.read(min(self._behind, max(lacking, _PIECE_BYTES)))
        if len(piece) < lacking:
            raise ValueError(f"{lacking} bytes are expected, and the file has {len(piece)}")
        self._data = self._data[self._at :] + piece
        self._at = 0
        self._position += len(piece)
        self._behind -= len(piece)
