"""Exit codes of every entry point. 1 is reserved for a FAIL that stands in a written verdict.json."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """The process's last word; the numbers are part of the public interface."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    HARNESS = 3
    INCONCLUSIVE = 10
    INTERRUPTED = 130
    TERMINATED = 143


# Over several scenarios the worst counts, and a crash of ours must not hide behind an INCONCLUSIVE.
_WORST_FIRST = (Exit.FAIL, Exit.TERMINATED, Exit.INTERRUPTED, Exit.USAGE, Exit.HARNESS, Exit.INCONCLUSIVE, Exit.PASS)


def worst(exits: Iterable[Exit]) -> Exit:
    """The exit of a whole from those of its parts; nothing at all proved nothing."""
    seen = set(exits)
    return next((code for code in _WORST_FIRST if code in seen), Exit.INCONCLUSIVE)
