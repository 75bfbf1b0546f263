"""Partitions that are waited for: who led them meanwhile, with whom in sync, and which of them gave nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.faults.steps.step import Place
from harness.faults.steps.step_context import Stage

LOOK_EACH_S: Final = 1.0
# Who leads in which epoch, and who is in sync.
_State = tuple[int, int, frozenset[int]]


@dataclass(slots=True)
class Watched:
    """Their states as long as they stay one and the same; None = they did not, or nobody answered."""

    stage: Stage
    places: Sequence[Place]
    states: dict[Place, _State | None] = field(default_factory=dict)
    looked_s: float = 0.0

    def look(self) -> None:
        """Asks for their states, now and then."""
        if time.monotonic() - self.looked_s < LOOK_EACH_S:
            return
        seen = self.stage.states(self.places)
        for place in self.places:
            one = seen.get(place)
            state = None if one is None else (one.leader, one.leader_epoch, frozenset(one.isr))
            self.states[place] = state if self.states.get(place, state) == state else None
        self.looked_s = time.monotonic()

    def tell_silent(self, acks: Mapping[Place, int], wanted: int, since_ns: int) -> bool:
        """Whether all that gave too little gave nothing, though each one's leader and all in sync stood as they were
        and run; an event tells of each."""
        short = [place for place in self.places if acks[place] < wanted]
        if any(acks[place] or not self._stood(place) for place in short):
            return False
        for topic, partition in short:
            state = self.states[topic, partition]
            assert state is not None
            beside = {
                f"{t}/{p}": acks[t, p]
                for t, p in self.places
                if acks[t, p] >= wanted and _served(self.states[t, p]) == _served(state)
            }
            self.stage.record_event(
                "no_acks",
                topic=topic,
                partition=partition,
                since_ns=since_ns,
                leader=state[0],
                isr=sorted(state[2]),
                beside=beside,
            )
        return True

    def _stood(self, place: Place) -> bool:
        state = self.states.get(place)
        return state is not None and state[0] >= 0 and all(self.stage.cluster.running(node) for node in state[2])


def _served(state: _State | None) -> tuple[int, frozenset[int]] | None:
    """By whom, and by whose followers."""
    return None if state is None else (state[0], state[2])
