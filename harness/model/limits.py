"""Limits of memory and CPU for one node."""

from __future__ import annotations

import re
from math import isfinite
from typing import Annotated, Final

from harness.model.documents.record import Record, meaning
from harness.model.errors import BadInput

MIB: Final = 1 << 20
HEAP: Final = 384 * MIB
# For everything but the heap: classes, compiled code, stacks, direct buffers, mapped indexes, the class-data archive.
ROOM: Final = 256 * MIB
MEMORY_MIN: Final = HEAP + ROOM
# A start takes up to 5 CPU-seconds, and the session timeout of brokers is 3 s.
CPUS_MIN: Final = 0.25
_UNITS: Final = {"": 1, "k": 1 << 10, "m": MIB, "g": 1 << 30, "t": 1 << 40}


class Limits(Record, frozen=True, kw_only=True):
    """The limits of one node."""

    memory: Annotated[int | None, meaning("bytes, page cache of its own files included; null = no limit")] = None
    cpus: Annotated[float | None, meaning("CPU time in cores; null = no limit")] = None

    def asked(self) -> tuple[str, ...]:
        """The options that the user gave."""
        given = {"--memory": self.memory, "--cpus": self.cpus}
        return tuple(option for option, value in given.items() if value is not None)

    def command_line(self) -> str:
        """The options that give these limits again, each after a space."""
        memory = "" if self.memory is None else f" --memory {_size(self.memory)}"
        return memory + ("" if self.cpus is None else f" --cpus {self.cpus:g}")


NO_LIMITS: Final = Limits()


def limits_of(memory: str | None, cpus: float | None) -> Limits:
    """The limits from the values of the options. BadInput if a broker could not start with them."""
    if cpus is not None and not isfinite(cpus):
        raise BadInput(f"--cpus {cpus:g} is not a number of cores: give {CPUS_MIN:g} or more")
    if cpus is not None and cpus < CPUS_MIN:
        raise BadInput(f"--cpus {cpus:g} is too little CPU time for a broker to start: give {CPUS_MIN:g} or more")
    size = None if memory is None else _bytes(memory)
    if size is not None and size < MEMORY_MIN:
        raise BadInput(
            f"--memory {memory} is too small for a broker, whose heap alone has {HEAP // MIB} MiB: "
            f"give {MEMORY_MIN // MIB}m or more"
        )
    return Limits(memory=size, cpus=cpus)


def _size(size_bytes: int) -> str:
    """As `--memory` takes it, without rounding."""
    return f"{size_bytes // MIB}m" if size_bytes % MIB == 0 else str(size_bytes)


def _bytes(text: str) -> int:
    # At most 15 digits, which is a petabyte, so that no float overflows.
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?|\.\d{1,15})([kmgt]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise BadInput(f"--memory {text!r} is not a size: give one such as 1g or 768m")
    return int(float(found[1]) * _UNITS[found[2]])
