"""The first record of each partition that retention by time may not delete yet.

A leader says which record is the first one with a timestamp of at least `young_time_ms`. Until AHEAD_S later it stays
younger than retention.ms. That holds for the retention that was asked with, and for a while after a change brokers may
still delete by the earlier one; so a change makes all that was known of a topic useless for SETTLED_S.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from harness.audit.engine.looker import Asked
from harness.audit.service.per_partition import PerPartition
from harness.audit.store.partitions import UNKNOWN

AHEAD_S: Final = 180.0
SETTLED_S: Final = 1200.0
_DUE_S: Final = 60.0
_DUE_EMPTY_S: Final = 10.0  # where no record was young, or there was none at all
_NEVER: Final = -1


def young_time_ms(retention_ms: int) -> int:
    """The timestamp from which on records are too young for retention until AHEAD_S later."""
    return int((time.time() + AHEAD_S) * 1000) - retention_ms


class YoungRecords:
    """The answers of leaders, in 12 bytes a partition. Times are monotonic."""

    def __init__(self) -> None:
        self._offsets = PerPartition("q", UNKNOWN)
        self._asked_s = PerPartition("i", _NEVER)
        self._retention: dict[str, tuple[int | None, float]] = {}  # topic id -> retention.ms, and since when

    def saw(self, of: Asked, retention_ms: int | None, now_s: float) -> None:
        """The retention of the topic now."""
        known = self._retention.get(of.topic_id)
        if known is None:
            self._retention[of.topic_id] = retention_ms, now_s - SETTLED_S
        elif known[0] != retention_ms:
            self._retention[of.topic_id] = retention_ms, now_s

    def get(self, of: Asked, now_s: float) -> int | None:
        """The first record that is too young, as far as it holds now."""
        asked_s, offset = self._asked_s.get(of), self._offsets.get(of)
        fresh = asked_s != _NEVER and now_s - asked_s < AHEAD_S and self._since_s(of) <= asked_s
        return offset if fresh and offset != UNKNOWN else None

    def due(self, of: Asked, now_s: float) -> bool:
        """Whether the leader should be asked again."""
        if now_s - self._since_s(of) < SETTLED_S:
            return False
        asked_s = self._asked_s.get(of)
        wait_s = _DUE_EMPTY_S if self._offsets.get(of) == UNKNOWN else _DUE_S
        return asked_s == _NEVER or now_s - asked_s >= wait_s

    def put(self, of: Asked, offset: int, now_s: float) -> None:
        self._offsets.put(of, offset)
        self._asked_s.put(of, int(now_s) - 1)  # whole seconds; never later than it was

    def keep(self, exists: Callable[[str], bool]) -> None:
        """Frees what it has of topics that do not exist any more."""
        self._offsets.keep(exists)
        self._asked_s.keep(exists)
        for topic_id in [topic_id for topic_id in self._retention if not exists(topic_id)]:
            del self._retention[topic_id]

    def _since_s(self, of: Asked) -> float:
        known = self._retention.get(of.topic_id)
        return float("inf") if known is None else known[1]
