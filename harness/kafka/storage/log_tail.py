"""Follows the metadata log on the disk of a running node: segments grow, new ones begin, and old ones are deleted.

Each byte is read once. The offset index of a segment shows where to begin, so that no segment is read from its start.
"""

from __future__ import annotations

import io
import os
import struct
import time
from pathlib import Path
from typing import Final

from harness.kafka.storage.log_directory import segments
from harness.kafka.storage.log_piece import read_piece
from harness.kafka.storage.record_batch import size_of_first
from harness.model.errors import HarnessFailure
from harness.model.history.log import LogBatch

_INDEX_ENTRY: Final = struct.Struct(">ii")  # last offset of a batch, from the segment's base, and the batch's position
_LIST_EVERY_S: Final = 1.0  # timestamps of folders are coarse, so one alone does not prove that nothing changed


class LogGap(HarnessFailure):
    """The log on the disk begins behind the offset, so the records between were deleted."""

    def __init__(self, wanted: int, start: int) -> None:
        super().__init__(f"the log begins at offset {start}, and offset {wanted} comes next")
        self.wanted = wanted


class LogTail:
    """Reads batches from `offset` on. `problem` says why bytes that are there could not be read; they may be torn."""

    def __init__(self, folder: Path, offset: int, epoch: int) -> None:
        self.offset = offset  # of the next record
        self.epoch = epoch  # of the record before it
        self.problem: str | None = None
        self._folder = folder
        self._file: io.FileIO | None = None
        self._base = -1
        self._position = 0
        self._last = False  # whether the open segment was the newest one
        self._listed: tuple[float, int] | None = None  # when the folder was listed, and its time of change then

    def has_more(self) -> bool:
        """Whether the disk has bytes that were not read. It looks at sizes and times, and lists the folder seldom.

        LogGap and OSError as for `read`.
        """
        if self._file is None:
            return self._open()
        if os.fstat(self._file.fileno()).st_size > self._position:
            return True
        return (not self._last or self._folder_changed()) and self._open()

    def read(self, end: int, limit_bytes: int) -> list[LogBatch]:
        """The next batches below offset `end`, about `limit_bytes` of them, or one that is larger.

        LogGap when the next record was deleted, OtherLog when it is not where it was. OSError when the disk refuses.
        """
        self.problem = None
        while self.has_more():
            piece = read_piece(self._piece(limit_bytes), self.offset, self.epoch, end)
            if piece.batches:
                self.offset, self.epoch = piece.batches[-1].last_offset + 1, piece.batches[-1].epoch
            elif piece.problem is not None or (not piece.at_end and not piece.used_bytes):
                reason = piece.problem or "the last batch is not complete"
                self.problem = f"{self._base:020}.log, position {self._position + piece.used_bytes}: {reason}"
            self._position += piece.used_bytes
            if piece.batches or piece.at_end or self.problem is not None:
                return piece.batches
        return []

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _piece(self, limit_bytes: int) -> bytes:
        """The next bytes, at least one whole batch if the file has it.

        They are read from the disk each time: a node may have truncated and rewritten what was not committed.
        """
        assert self._file is not None
        data = os.pread(self._file.fileno(), limit_bytes, self._position)
        whole = size_of_first(data)
        if limit_bytes <= len(data) < whole <= os.fstat(self._file.fileno()).st_size - self._position:
            data = os.pread(self._file.fileno(), whole, self._position)
        return data

    def _folder_changed(self) -> bool:
        """Whether the folder may have other segments. Its time of change is coarse, so it alone does not decide."""
        if self._listed is None:
            return True
        listed_at_s, changed_ns = self._listed
        return self._folder.stat().st_mtime_ns != changed_ns or time.monotonic() - listed_at_s > _LIST_EVERY_S

    def _open(self) -> bool:
        """Goes to the segment with the next offset; False if that is the open one, or none. LogGap without one."""
        self._listed = time.monotonic(), self._folder.stat().st_mtime_ns
        listed = segments(self._folder)
        if not listed:
            return False
        having = [segment for segment in listed if segment.base_offset <= self.offset]
        if not having:
            raise LogGap(self.offset, listed[0].base_offset)
        wanted = having[-1]
        self._last = wanted == listed[-1]
        try:
            file = io.FileIO(wanted.path)
        except FileNotFoundError:  # deleted meanwhile
            self._listed = None
            return False
        if self._file is not None and os.path.sameopenfile(file.fileno(), self._file.fileno()):
            file.close()
            return False
        self.close()
        self._file, self._base = file, wanted.base_offset
        self._position = position_before(wanted.path, wanted.base_offset, self.offset)
        return os.fstat(file.fileno()).st_size > self._position


def position_before(segment: Path, base_offset: int, offset: int) -> int:
    """A position in a segment at or before the batch with the offset, from its sparse index; 0 if that does not help.

    The index of the newest segment has its full size, with zeros behind the last entry.
    """
    try:
        with segment.with_suffix(".index").open("rb") as index:
            position = _last_entry_below(index.fileno(), offset - base_offset)
        with segment.open("rb") as log:
            log.seek(position)
            (found,) = struct.unpack(">q", log.read(8))
    except (OSError, struct.error):
        return 0
    return position if base_offset <= found < offset else 0


def _last_entry_below(index: int, relative: int) -> int:
    """The position in the last entry with an offset below `relative`; 0 without one."""
    low, high, position = 0, os.fstat(index).st_size // _INDEX_ENTRY.size, 0
    while low < high:
        middle = (low + high) // 2
        entry = os.pread(index, _INDEX_ENTRY.size, middle * _INDEX_ENTRY.size)
        offset, at = _INDEX_ENTRY.unpack(entry)
        if 0 < offset < relative:
            low, position = middle + 1, at
        else:
            high = middle
    return position
