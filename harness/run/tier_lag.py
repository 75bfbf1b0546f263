"""Whether the leaders of tiered partitions copy their closed segments to the remote tier (KIP-405)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.model.documents.run import TierLag
from harness.model.place import Place

# A leader that copies nothing for this share of the wait has stalled: a failed copy is retried within 2 s
# (harness/kafka/settings/tier_settings.py).
STALLED_SHARE: Final = 0.75

Replica = tuple[str, int, int]  # topic, partition, broker


@dataclass(frozen=True, slots=True)
class Lag:
    """See TierLag."""

    topic_id: str
    leader: int
    tiered_end: int
    closed_end: int


class Lags:
    """How long each partition has been behind while the same leader copied nothing."""

    def __init__(self) -> None:
        self._since_s: dict[Place, float] = {}
        self._last: dict[Place, Lag] = {}

    def look(self, behind: Mapping[Place, Lag]) -> None:
        """Takes one look. A partition that is not behind in it, or made progress, begins again."""
        now_s = time.monotonic()
        for place, lag in behind.items():
            last = self._last.get(place)
            if last is None or (last.topic_id, last.leader, last.tiered_end) != (
                lag.topic_id,
                lag.leader,
                lag.tiered_end,
            ):
                self._since_s[place] = now_s
        self._last = dict(behind)

    def stalled(self, waited_s: float) -> tuple[TierLag, ...]:
        """Partitions that have been behind for most of a wait of this length, without any progress."""
        ages_s = {place: time.monotonic() - self._since_s[place] for place in self._last}
        return tuple(
            TierLag(
                topic=place[0],
                topic_id=lag.topic_id,
                partition=place[1],
                leader=lag.leader,
                tiered_end=lag.tiered_end,
                closed_end=lag.closed_end,
                still_s=round(ages_s[place], 1),
            )
            for place, lag in sorted(self._last.items())
            if ages_s[place] >= STALLED_SHARE * waited_s
        )
