"""Why log start offsets moved: the only place where Kafka says so are its brokers' logs.

UnifiedLog writes "Incremented log start offset to N due to REASON". Where it deletes segments, the lines after it name
the setting that they breached. The metadata log has neither.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from harness.audit.look import LogStartReason
from harness.audit.store.partitions import UNKNOWN
from harness.model.errors import BadInput

_BY_DELETION: Final = "segment deletion"
_MOVED: Final = re.compile(
    rb"\[(?P<at>[-0-9]+ [:,0-9]+)\] .*\[UnifiedLog partition=(?P<topic>[^ ,/]+)-(?P<partition>\d+), .*\] "
    rb"Incremented log start offset to (?P<start>\d+) due to (?P<reason>.+?)(?: \([\w.]+\))?\s*$"
)
_BREACH: Final = re.compile(
    rb"\[UnifiedLog partition=(?P<topic>[^ ,/]+)-(?P<partition>\d+), .*\] "
    rb"Deleting segments? .*due to (?:log )?(?P<breach>retention (?:time|size) \d+(?:ms)? breach)"
)
_NODE: Final = re.compile(rb"\b(?:nodeId|BrokerServer id|BrokerLifecycleManager id|broker\.id)[ =]+(\d+)\b")
_HELD_S: Final = 1.0  # a deletion waits this long for the line with the setting that was breached
_CHUNK_BYTES: Final = 1 << 20
_LINE_MAX: Final = 64 << 10
_BROKER_IN_NAME: Final = re.compile(r"\d+")


class BrokerLogs:
    """Follows every `*.log` in a folder, and in the folders in it. What was written before the start is not read.

    A file belongs to the broker that its lines name, and before they do to the number in its name or its folder's.
    """

    def __init__(self, folder: Path, *, from_start: bool = False) -> None:
        if not folder.is_dir():
            raise BadInput(f"--logs {folder} is no folder: name the one with the logs of the brokers")
        self.name = f"broker logs {folder}"
        self._folder = folder
        self._files: dict[Path, _Followed] = {}
        self._find(at_end=not from_start)

    @property
    def files(self) -> int:
        return len(self._files)

    def poll(self) -> Iterator[LogStartReason]:
        """Everything that was written since the last call, in the order of each file."""
        self._find(at_end=False)
        for path, followed in list(self._files.items()):
            try:
                yield from followed.poll()
            except OSError:  # deleted, or of another user now: it is found again if it comes back
                followed.close()
                del self._files[path]

    def close(self) -> None:
        for followed in self._files.values():
            followed.close()
        self._files.clear()

    def _find(self, *, at_end: bool) -> None:
        for path in [*self._folder.glob("*.log"), *self._folder.glob("*/*.log")]:
            if path not in self._files:
                try:
                    self._files[path] = _Followed(path, at_end=at_end)
                except OSError:
                    continue  # it cannot be read, or is gone again


class _Followed:
    """One file. A file that was rotated is read to its end before the new one is opened."""

    def __init__(self, path: Path, *, at_end: bool) -> None:
        self._path = path
        self._file: BinaryIO = path.open("rb")
        self._rest = b""
        self._held: dict[tuple[str, int], tuple[float, LogStartReason]] = {}
        self._broker = _number_in(path)
        if at_end:
            self._file.seek(0, 2)

    def poll(self) -> Iterator[LogStartReason]:
        while piece := self._file.read(_CHUNK_BYTES):
            *lines, self._rest = (self._rest + piece).split(b"\n")
            for line in lines:
                yield from self._line(line)
            self._rest = self._rest[-_LINE_MAX:]
        if self._rotated():
            self._file.close()
            self._file, self._rest = self._path.open("rb"), b""
        now_s = time.monotonic()
        for place, (until_s, reason) in list(self._held.items()):
            if until_s < now_s:
                del self._held[place]
                yield reason

    def close(self) -> None:
        self._file.close()

    def _rotated(self) -> bool:
        there, here = self._path.stat(), self._file.tell()
        return there.st_size < here or not _same(self._file, self._path)

    def _line(self, line: bytes) -> Iterator[LogStartReason]:
        if b"log start offset to" in line and (moved := _MOVED.search(line)):
            place = moved["topic"].decode(errors="replace"), int(moved["partition"])
            if earlier := self._held.pop(place, None):
                yield earlier[1]
            reason = LogStartReason(
                topic=place[0],
                partition=place[1],
                broker=self._broker,
                at_ns=_time_ns(moved["at"].decode()),
                log_start=int(moved["start"]),
                reason=moved["reason"].decode(errors="replace"),
            )
            if reason.reason == _BY_DELETION:
                self._held[place] = time.monotonic() + _HELD_S, reason
            else:
                yield reason
        elif b"Deleting segment" in line and (breach := _BREACH.search(line)):
            place = breach["topic"].decode(errors="replace"), int(breach["partition"])
            if held := self._held.pop(place, None):
                yield replace(held[1], breach=breach["breach"].decode())
        elif (node := _NODE.search(line)) is not None:
            self._broker = int(node[1])


def _same(file: BinaryIO, path: Path) -> bool:
    opened, named = os.fstat(file.fileno()), path.stat()
    return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)


def _number_in(path: Path) -> int:
    found = _BROKER_IN_NAME.findall(path.stem) or _BROKER_IN_NAME.findall(path.parent.name)
    return int(found[-1]) if found else UNKNOWN


def _time_ns(text: str) -> int:
    """The time of a line, which Kafka writes in the time zone of the broker's machine."""
    try:
        return int(datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1e9)
    except ValueError:
        return time.time_ns()
