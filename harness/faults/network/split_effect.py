"""Proof that a split had an effect: each side lost a leader, an in-sync follower or the records of a leader.

After a split among controllers they lost their leader, or some lag behind its log.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.clusters.base import party
from harness.faults.network.links import Link
from harness.faults.network.shapes import Shape
from harness.faults.network.slow import replicated_late
from harness.faults.steps.effect import IDLE, Probe, await_recent_acks, metadata_late, named, under_load
from harness.faults.steps.step import EffectProof
from harness.faults.steps.step_context import StepContext
from harness.kafka.admin.client import PartitionState
from harness.model.errors import HarnessTimeout
from harness.model.link import Direction
from harness.model.place import Place

NO_LEADER_S: Final = 4.0
# Longer than the controllers need to shrink an ISR or to replace a leader: where they can do that, it shows first.
STILL_S: Final = 4.0
Ends = Mapping[tuple[str, int, int], int]


def split_effect(
    context: StepContext, shape: Shape, lost: Mapping[Link, Direction], latency_s: float, *, control: bool
) -> Probe:
    """Proof: each side lost something under load. Call it before the split. `control`: the split is of controllers."""
    apart = frozenset(frozenset(link) for link in lost)
    if control:
        return _of_controllers(context, apart)

    def torn(state: PartitionState) -> bool:
        return any(_apart(apart, state.leader, broker) for broker in state.replicas)

    busy = await_recent_acks(context, torn)
    if busy:  # a coordinator that lost its followers stops the clients, and only its own log shows the split
        busy |= {place: state for place, state in context.internal_states().items() if torn(state)}
    return _Sides(context, shape, apart, busy, latency_s).probe


@dataclass(slots=True)
class _Sides:
    """Remembers the loss of each side, because flapping links show it only for moments."""

    context: StepContext
    shape: Shape
    apart: Collection[frozenset[str]]
    busy: Mapping[Place, PartitionState]
    latency_s: float
    found: dict[int, dict[str, str]] = field(default_factory=dict)  # side -> partition -> what it lost of it
    still: dict[tuple[str, int, int], tuple[int, float]] = field(default_factory=dict)  # log end offset, and since when

    def probe(self) -> EffectProof:
        """Looks at every pair of a leader and a follower that the split separates."""
        if not self.busy:
            return EffectProof(False, "no partition with acks in the last second has replicas on several sides")
        context, places = self.context, list(self.busy)
        now = context.states(places)
        offsets = context.admin.replica_offsets(sorted({topic for topic, _ in places}))
        ends = {key: end for key, (_, end) in offsets.items()}
        self._keep(ends)
        for place, before, follower in self._pairs():
            if self._open(before.leader, follower):
                what = _replaced(place, before, now.get(place), follower) or self._behind(
                    place, before.leader, follower
                )
                self._note(place, before.leader, follower, what or self._late(place, before, follower))
        return self._effect()

    def _pairs(self) -> Iterable[tuple[Place, PartitionState, int]]:
        """(partition, state before the split, follower) of followers that the split separates from their leader."""
        for place, state in sorted(self.busy.items()):
            for follower in state.replicas:
                if _apart(self.apart, state.leader, follower):
                    yield place, state, follower

    def _open(self, *nodes: int) -> bool:
        """Whether a side with one of the nodes has shown no loss yet."""
        return any(side not in self.found for node in nodes for side in self._sides_of(node))

    def _sides_of(self, node: int) -> list[int]:
        mine = party(node)
        return [n for n, side in enumerate(self.shape.sides) if any(mine in machine for machine in side)]

    def _note(self, place: Place, leader: int, follower: int, what: str | None) -> None:
        for side in {*self._sides_of(leader), *self._sides_of(follower)} if what else ():
            self.found.setdefault(side, {})[named([place])] = what or ""

    def _keep(self, ends: Ends) -> None:
        for key, end in ends.items():
            if self.still.get(key, (-1, 0.0))[0] != end:
                self.still[key] = (end, time.monotonic())
        for key in self.still.keys() - ends.keys():
            del self.still[key]

    def _behind(self, place: Place, leader: int, follower: int) -> str | None:
        mine, goal = self.still.get((*place, follower)), self.still.get((*place, leader), (-1, 0.0))[0]
        if mine is None or mine[0] >= goal or time.monotonic() - mine[1] < STILL_S:
            return None
        return f"the log of {named([place])} on {follower} stays at {mine[0]}, its leader's ends at {goal}"

    def _late(self, place: Place, before: PartitionState, follower: int) -> str | None:
        if self.latency_s <= 0:
            return None
        effect = replicated_late(self.context, [follower], {place: before}, self.latency_s)()
        return effect.because if effect.held else None

    def _effect(self) -> EffectProof:
        names = ["+".join(sorted(p for machine in side for p in machine)) for side in self.shape.sides]
        seen = {names[side]: what for side, what in sorted(self.found.items())}
        spared = [name for side, name in enumerate(names) if side not in self.found]
        if spared:
            return EffectProof(False, f"{', '.join(spared)} lost nothing on {named(self.busy)}", seen)
        first = "; ".join(f"{name}: {next(iter(what.values()))}" for name, what in seen.items())
        return EffectProof(True, f"each side lost something: {first}", seen)


def _replaced(place: Place, before: PartitionState, now: PartitionState | None, follower: int) -> str | None:
    """The decision of the controllers on a leader and a follower that cannot reach each other; None = none yet."""
    where, leader = named([place]), before.leader
    if now is not None and now.leader_epoch > before.leader_epoch and now.leader != leader:
        return f"{now.leader} leads {where} in epoch {now.leader_epoch}, in place of {leader}"
    if now is not None and follower in before.isr and follower not in now.isr:
        return f"{follower} left the ISR of {where}"
    return None


def _of_controllers(context: StepContext, apart: Collection[frozenset[str]]) -> Probe:
    """Proof, under load: another controller leads, or the epoch is newer, or none leads, or some lag at each look."""
    busy = under_load(context)
    before = context.admin.quorum()
    deaf = [node for node in context.cluster.controllers if _apart(apart, before.leader, node)]
    lagging = metadata_late(context, deaf)

    def asked() -> EffectProof:
        if not busy:
            return EffectProof(False, IDLE)
        if not deaf:
            return EffectProof(False, f"every controller still reaches the active one, {before.leader}")
        try:
            now = context.admin.quorum(NO_LEADER_S)
        except HarnessTimeout:
            return EffectProof(
                True, f"{before.leader} was the active controller, and for {NO_LEADER_S:g} s there is none"
            )
        seen = {"active_controller": [before.leader, now.leader], "epoch": [before.leader_epoch, now.leader_epoch]}
        if now.leader_epoch > before.leader_epoch:
            return EffectProof(
                True, f"controller {now.leader} leads in epoch {now.leader_epoch}, {before.leader} led before", seen
            )
        late = lagging()
        return EffectProof(late.held, late.because, {**seen, **late.seen})

    return asked


def _apart(apart: Collection[frozenset[str]], one: int, other: int) -> bool:
    return one >= 0 and frozenset((party(one), party(other))) in apart
