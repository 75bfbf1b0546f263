"""Clocks that a fault can set: libfaketime, preloaded into the processes of a cluster.

A file of each node holds the offset of its clock; the library reads it once a second. Only the wall clock is changed:
with a changed monotonic clock a JVM sleeps for ever. The same happens with the library's own clock rates: libfaketime
0.9.10 then computes waits on the monotonic clock from the wall clock, so they end decades later, or at once. A clock
that runs fast is therefore set again and again. Reading the time takes some microseconds more, so only a cluster
with `clock = true` in its shape gets the library.
"""

from __future__ import annotations

import contextlib
import os
import re
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from harness.model.errors import HarnessFailure

CLOCK: Final = "clock"  # the capability
_LIBRARY: Final = "libfaketimeMT.so.1"
_FOLDERS: Final = ("/usr/lib/{}/faketime", "/usr/lib64/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime")
_SHARED: Final = Path("/dev/shm")
_LEFT_BEHIND: Final = re.compile(r"(?:sem\.faketime_sem|faketime_shm)_(\d+)")


def library() -> Path | None:
    """The path of libfaketime on this machine; None if it is not installed."""
    triplet = sysconfig.get_config_var("MULTIARCH") or ""
    found = (Path(folder.format(triplet)) / _LIBRARY for folder in _FOLDERS)
    return next((path for path in found if path.is_file()), None)


def missing() -> dict[str, str]:
    """Why this machine lacks the capability, with the remedy; empty if it has it."""
    return {} if library() else {CLOCK: f"{_LIBRARY} is not installed: apt install libfaketime"}


@dataclass(frozen=True, slots=True)
class ClockFile:
    """The file with the clock offset of one node."""

    path: Path

    def environment(self) -> Mapping[str, str]:
        """The variables that make a process use this clock. HarnessFailure if the library is not installed."""
        found = library()
        if found is None:
            raise HarnessFailure(missing()[CLOCK])
        return {
            "LD_PRELOAD": str(found),
            "FAKETIME_TIMESTAMP_FILE": str(self.path),
            "FAKETIME_CACHE_DURATION": "0",  # reads the file again in every new second
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Without this, waits on the monotonic clock end at once, and every waiting thread of a JVM would spin.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "LC_ALL": "C.UTF-8",  # the library reads numbers with the decimal separator of the locale
        }

    def set(self, ahead_s: float) -> None:
        """Sets the clock so many seconds ahead of the machine's (behind it, if negative)."""
        descriptor, name = tempfile.mkstemp(dir=self.path.parent)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{ahead_s:+.3f}\n")
        Path(name).chmod(0o644)
        Path(name).replace(self.path)


def tidy() -> None:
    """Removes the shared memory that the library leaves behind for each killed process of this user."""
    for path in _left_behind():
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _left_behind() -> Iterator[Path]:
    for path in _SHARED.glob("*faketime_*"):
        match = _LEFT_BEHIND.fullmatch(path.name)
        with contextlib.suppress(FileNotFoundError):
            if match and path.stat().st_uid == os.getuid() and not psutil.pid_exists(int(match[1])):
                yield path
