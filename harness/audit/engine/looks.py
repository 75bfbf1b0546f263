"""Which partitions are looked at next: those that a suspicion waits for, those that changed, and all others in turn."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

from harness.audit.engine.cluster_state import ClusterState
from harness.audit.engine.looker import Asked

CHUNK: Final = 1000  # partitions of one order: about 10 ms of a broker
_BEGINS_S: Final = 1.0  # a round that is due begins within this time, unless the budget delays it
Place = tuple[str, int]  # topic id, partition


class LookReason(StrEnum):
    """Why a partition is looked at. Only rounds wait for the budget."""

    ROUND = "round"
    CHANGE = "change"  # a record of the metadata log changed it
    SUSPICION = "suspicion"  # a new one
    AGAIN = "again"  # a suspicion that an earlier look did not decide


class Rounds:
    """Goes through all partitions again and again, and knows which part of a round is behind it.

    every_s: how often a round begins, if the last one is over. ordered: how many looks, by their reason.
    """

    def __init__(self, state: ClusterState, every_s: float, wanted: Callable[[str], bool]) -> None:
        self._state = state
        self.every_s = every_s
        self._wanted = wanted  # by topic
        self._urgent: dict[Place, LookReason] = {}
        self.ordered: Final = Counter[LookReason]()
        self._round: Iterator[Place] | None = None
        self._begun_s = time.monotonic() - every_s  # the first round is due now
        self.ended_s: float | None = None  # monotonic time at which the last whole round was over
        self.round_s: float | None = None  # how long it took

    def soon(self, topic_id: str, partition: int, reason: LookReason) -> None:
        """Looks at this partition with the next order. The first reason counts."""
        self._urgent.setdefault((topic_id, partition), reason)

    def urgent(self) -> list[Asked]:
        """The next order of partitions that cannot wait; they are in no other."""
        found: list[Asked] = []
        for place in list(self._urgent)[:CHUNK]:
            reason = self._urgent.pop(place)
            asked = self._asked(place)
            if asked is not None:
                self.ordered[reason] += 1
                found.append(asked)
        return found

    def next(self) -> list[Asked]:
        """The next order of the round; empty if none is due."""
        now_s = time.monotonic()
        if self._round is None:
            if now_s - self._begun_s < self.every_s:
                return []
            self._round, self._begun_s = self._state.packed.places(), now_s
        chosen: list[Asked] = []
        for place in self._round:
            asked = self._asked(place)
            if asked is not None:
                self.ordered[LookReason.ROUND] += 1
                chosen.append(asked)
            if len(chosen) == CHUNK:
                return chosen
        self._round = None
        self.ended_s, self.round_s = now_s, now_s - self._begun_s
        return chosen

    def restart(self) -> None:
        """Begins a new round with the next order, whether one is due or under way."""
        self._round, self._begun_s, self.ended_s = None, time.monotonic() - self.every_s, None

    @property
    def late_s(self) -> float:
        """Since when a round should have been over: the age of the oldest look beyond `every_s`. A round that is due,
        and that the budget does not let begin, is late too."""
        late_s = time.monotonic() - self._begun_s - self.every_s
        return late_s if late_s > (0.0 if self._round is not None else _BEGINS_S) else 0.0

    def _asked(self, place: Place) -> Asked | None:
        of = self._state.partition(*place)
        if of is None or not self._wanted(of.topic):
            return None
        tiered = self._state.own_setting(of.topic, "remote.storage.enable") == "true"
        return Asked(of.topic, of.topic_id, of.partition, of.leader, of.leader_epoch, of.replicas, tiered)
