"""Finds partitions that got no ack although their leader and their ISR did not change."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.faults.steps.step_context import StepContext
from harness.model.clock import now_ns
from harness.model.documents.steps import NoAcks
from harness.model.place import Place

LOOK_EACH_S: Final = 1.0
# Leader, leader epoch, ISR.
_State = tuple[int, int, frozenset[int]]


@dataclass(slots=True)
class StateWatch:
    """The state of each partition while it stays the same; None = it changed, or no broker answered.

    seen: the last state of each, in words.
    """

    context: StepContext
    places: Sequence[Place]
    states: dict[Place, _State | None] = field(default_factory=dict)
    looked_s: float = 0.0
    seen: dict[Place, str] = field(default_factory=dict)

    def look(self) -> None:
        """Asks for the states, at most once a second."""
        if time.monotonic() - self.looked_s < LOOK_EACH_S:
            return
        seen = self.context.states(self.places)
        for place in self.places:
            one = seen.get(place)
            self.seen[place] = "no broker answers" if one is None else f"leader {one.leader}, ISR {sorted(one.isr)}"
            state = None if one is None else (one.leader, one.leader_epoch, frozenset(one.isr))
            self.states[place] = state if self.states.get(place, state) == state else None
        self.looked_s = time.monotonic()

    def record_silent(self, acks: Mapping[Place, int], wanted: int, since_ns: int) -> bool:
        """Records an event `no_acks` for each partition below `wanted` acks, and returns True, when all of them are
        silent: without any ack, with an unchanged leader and ISR, and with all nodes of the ISR running."""
        short = [place for place in self.places if acks[place] < wanted]
        if any(acks[place] or not self._unchanged(place) for place in short):
            return False
        for topic, partition in short:
            state = self.states[topic, partition]
            assert state is not None
            beside = {
                f"{t}/{p}": acks[t, p]
                for t, p in self.places
                if acks[t, p] >= wanted and _served(self.states[t, p]) == _served(state)
            }
            self.context.record_event(
                NoAcks(
                    topic=topic,
                    partition=partition,
                    at_ns=now_ns(),
                    since_ns=since_ns,
                    leader=state[0],
                    isr=tuple(sorted(state[2])),
                    beside=beside,
                )
            )
        return True

    def _unchanged(self, place: Place) -> bool:
        state = self.states.get(place)
        return state is not None and state[0] >= 0 and all(self.context.cluster.running(node) for node in state[2])


def _served(state: _State | None) -> tuple[int, frozenset[int]] | None:
    """The leader and the ISR, without the epoch."""
    return None if state is None else (state[0], state[2])
