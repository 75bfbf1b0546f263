"""What one broker may take of the machine that it runs on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import Final

from harness.model.errors import BadInput

MIB: Final = 1 << 20
HEAP: Final = 384 * MIB
# For what is no heap: classes, compiled code, stacks, direct buffers, mapped indexes and the class-data archive.
ROOM: Final = 256 * MIB
MEMORY_MIN: Final = HEAP + ROOM
# A start takes up to five CPU-seconds, and the sessions of brokers last three seconds.
CPUS_MIN: Final = 0.25
_UNITS: Final = {"": 1, "k": 1 << 10, "m": MIB, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class Limits:
    """memory: bytes, the page cache of its own files included. cpus: cores' worth of time. None: nothing was said."""

    memory: int | None = None
    cpus: float | None = None

    def asked(self) -> tuple[str, ...]:
        """The options that were given."""
        given = {"--memory": self.memory, "--cpus": self.cpus}
        return tuple(option for option, value in given.items() if value is not None)


NO_LIMITS: Final = Limits()


def limits_of(memory: str | None, cpus: float | None) -> Limits:
    """From the texts of the options. BadInput for what no broker can live with."""
    if cpus is not None and not isfinite(cpus):
        raise BadInput(f"--cpus {cpus:g} is not a number of cores: give {CPUS_MIN:g} or more")
    if cpus is not None and cpus < CPUS_MIN:
        raise BadInput(f"--cpus {cpus:g} is too little CPU time for a broker to start: give {CPUS_MIN:g} or more")
    size = None if memory is None else _bytes(memory)
    if size is not None and size < MEMORY_MIN:
        raise BadInput(
            f"--memory {memory} leaves no room above a broker's heap of {HEAP // MIB} MiB: "
            f"give {MEMORY_MIN // MIB}m or more"
        )
    return Limits(size, cpus)


def _bytes(text: str) -> int:
    # Fifteen digits: a petabyte, and no float overflows.
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?|\.\d{1,15})([kmgt]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise BadInput(f"--memory {text!r} is not a size: give one such as 1g or 768m")
    return int(float(found[1]) * _UNITS[found[2]])
