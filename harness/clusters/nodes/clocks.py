"""Clocks that a fault can set: libfaketime, loaded before everything else into the processes of a cluster.

A file of each node's own says how far its clock is off; the library looks at it once a second. Only the wall clock is
touched: with another monotonic one a JVM sleeps for ever. So it does at a rate of the library's own, where waits by
the monotonic clock are reckoned from the wall clock (0.9.10): they end decades later, or at once. A clock that gains is
set again and again instead. To ask for the time costs some microseconds more, so only clusters whose shape asks for it
get the library.
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
    """Where this machine has it."""
    triplet = sysconfig.get_config_var("MULTIARCH") or ""
    found = (Path(folder.format(triplet)) / _LIBRARY for folder in _FOLDERS)
    return next((path for path in found if path.is_file()), None)


def missing() -> dict[str, str]:
    """Why this machine lacks the capability, with the remedy; empty when it does not."""
    return {} if library() else {CLOCK: f"{_LIBRARY} is not installed: apt install libfaketime"}


@dataclass(frozen=True, slots=True)
class ClockFile:
    """What a node's process believes of the time."""

    path: Path

    def environment(self) -> Mapping[str, str]:
        """What its process has to be started with. Raises HarnessFailure without the library."""
        found = library()
        if found is None:
            raise HarnessFailure(missing()[CLOCK])
        return {
            "LD_PRELOAD": str(found),
            "FAKETIME_TIMESTAMP_FILE": str(self.path),
            "FAKETIME_CACHE_DURATION": "0",  # looks whenever another second has begun
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Or waits by the monotonic clock end at once: every thread of a JVM that waits would spin.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "LC_ALL": "C.UTF-8",  # a number is read by the locale's decimal separator
        }

    def set(self, ahead_s: float) -> None:
        """From now on so far ahead of the machine's clock (behind, if negative)."""
        descriptor, name = tempfile.mkstemp(dir=self.path.parent)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{ahead_s:+.3f}\n")
        Path(name).chmod(0o644)
        Path(name).replace(self.path)


def tidy() -> None:
    """Removes what the library leaves in shared memory of each process that was killed: of ours that are no more."""
    for path in _left_behind():
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _left_behind() -> Iterator[Path]:
    for path in _SHARED.glob("*faketime_*"):
        match = _LEFT_BEHIND.fullmatch(path.name)
        with contextlib.suppress(FileNotFoundError):
            if match and path.stat().st_uid == os.getuid() and not psutil.pid_exists(int(match[1])):
                yield path
