"""Exit codes of every entry point. 1 is reserved for a FAIL in a written verdict.json."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the process. The numbers are part of the public interface."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    HARNESS = 3
    INCONCLUSIVE = 10
    INTERRUPTED = 130
    TERMINATED = 143


# Over several scenarios the worst counts. An INCONCLUSIVE must not hide a failure of the harness.
_WORST_FIRST = (Exit.FAIL, Exit.TERMINATED, Exit.INTERRUPTED, Exit.USAGE, Exit.HARNESS, Exit.INCONCLUSIVE, Exit.PASS)


def worst(exits: Iterable[Exit]) -> Exit:
    """The worst of several exit codes; INCONCLUSIVE if there are none."""
    seen = set(exits)
    return next((code for code in _WORST_FIRST if code in seen), Exit.INCONCLUSIVE)
