"""Within which time brokers flush a record to disk, by their settings and those of its topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FLUSH_LOOKS: Final = "log.flush.scheduler.interval.ms"
NEVER: Final = -1
LONG_MAX: Final = (1 << 63) - 1  # Kafka's value for "never"


def flush_within_ms(text: str, broker: Mapping[str, str]) -> int:
    """The longest time until a record is flushed, by flush.ms of a topic ("" = not set) and the settings of its
    brokers.

    Brokers check only every log.flush.scheduler.interval.ms whether a log is due, which is never by default; then even
    a topic's own flush.ms has no effect. The interval is also the default of flush.ms.
    """
    looks = unless_never(broker.get(FLUSH_LOOKS, str(LONG_MAX)))
    return flushed_within_ms(unless_never(text) if text else looks, looks)


def flushed_within_ms(due_ms: int, looks_ms: int) -> int:
    """The longest time until a record is flushed that is due after `due_ms`, with a check every `looks_ms`. -1 =
    never.
    """
    return NEVER if NEVER in (looks_ms, due_ms) else looks_ms + due_ms


def unless_never(text: str) -> int:
    """The number of a setting; -1 if it is not set, or Kafka's largest number."""
    return NEVER if not text or int(text) == LONG_MAX else int(text)
