"""Which topics are watched: patterns as in a shell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

_KEPT: Final = 10_000  # topics with an answer that is remembered


def watched(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a topic matches one of the patterns; without patterns, every topic does."""
    if not patterns:
        return lambda _topic: True

    @lru_cache(maxsize=_KEPT)
    def matches(topic: str) -> bool:
        return any(fnmatchcase(topic, pattern) for pattern in patterns)

    return matches
