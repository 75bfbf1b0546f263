"""Within what time brokers write a record to disk, by their settings and those of its topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FLUSH_LOOKS: Final = "log.flush.scheduler.interval.ms"
NEVER: Final = -1
LONG_MAX: Final = (1 << 63) - 1  # Kafka's own way of saying so


def flush_within_ms(text: str, broker: Mapping[str, str]) -> int:
    """Nobody looks whether a log is due before log.flush.scheduler.interval.ms, which is never by default; then not
    even a topic's own flush.ms makes anybody flush. That interval stands for one that is not set, too.
    """
    looks = unless_never(broker.get(FLUSH_LOOKS, str(LONG_MAX)))
    return flushed_within_ms(unless_never(text) if text else looks, looks)


def flushed_within_ms(due_ms: int, looks_ms: int) -> int:
    """How long at most a record is on no disk that is due after so long, where somebody looks so often. -1 = never."""
    return NEVER if NEVER in (looks_ms, due_ms) else looks_ms + due_ms


def unless_never(text: str) -> int:
    """A setting that is Kafka's largest number, or not set, as -1."""
    return NEVER if not text or int(text) == LONG_MAX else int(text)
