"""What each side of a split lost: a leader, a follower in sync, a leader's records; or the controllers their leader."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from harness.clusters.base import party
from harness.faults.network.links import Link
from harness.faults.network.shapes import Shape
from harness.faults.network.slow import replicated_late
from harness.faults.steps.effect import IDLE, Probe, await_recent_acks, metadata_late, named, under_load
from harness.faults.steps.step import EffectProof, PartitionView, Place
from harness.faults.steps.step_context import Stage
from harness.model.errors import HarnessTimeout
from harness.model.link import Direction

NO_LEADER_S: Final = 4.0
# Longer than the controllers need to take a follower out of the ISR or to replace a leader: where they can, that shows.
STILL_S: Final = 4.0
Ends = Mapping[tuple[str, int, int], int]


def split_effect(
    stage: Stage, shape: Shape, lost: Mapping[Link, Direction], latency_s: float, *, control: bool
) -> Probe:
    """Every side has lost something under load. Taken before the split. `control` = it is among controllers."""
    apart = frozenset(frozenset(link) for link in lost)
    if control:
        return _of_controllers(stage, apart)
    busy = await_recent_acks(stage, lambda s: any(_apart(apart, s.leader, b) for b in s.replicas))
    return _Sides(stage, shape, apart, busy, latency_s).probe


@dataclass(slots=True)
class _Sides:
    """Remembers what was lost, by side: links that flap let it be seen for moments only."""

    stage: Stage
    shape: Shape
    apart: Collection[frozenset[str]]
    busy: Mapping[Place, PartitionView]
    latency_s: float
    found: dict[int, dict[str, str]] = field(default_factory=dict)  # side -> partition -> what it lost there
    still: dict[tuple[str, int, int], tuple[int, float]] = field(default_factory=dict)  # log end, and since when

    def probe(self) -> EffectProof:
        """Looks at all that is torn at once."""
        if not self.busy:
            return EffectProof(False, "no partition with acks in the last second has its replicas on several sides")
        stage, places = self.stage, list(self.busy)
        now = stage.states(places)
        offsets = stage.admin.replica_offsets(sorted({topic for topic, _ in places}))
        ends = {key: end for key, (_, end) in offsets.items()}
        self._keep(ends)
        for place, before, follower in self._pairs():
            if self._open(before.leader, follower):
                what = _replaced(place, before, now.get(place), follower) or self._behind(
                    place, before.leader, follower
                )
                self._note(place, before.leader, follower, what or self._late(place, before, follower))
        return self._effect()

    def _pairs(self) -> Iterable[tuple[Place, PartitionView, int]]:
        """Followers that have lost their leader, and leaders that have lost them."""
        for place, state in sorted(self.busy.items()):
            for follower in state.replicas:
                if _apart(self.apart, state.leader, follower):
                    yield place, state, follower

    def _open(self, *nodes: int) -> bool:
        """Whether a side of one of the nodes still has to show something."""
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
        return f"the log of {follower} stands still at {mine[0]} of {named([place])}, its leader's ends at {goal}"

    def _late(self, place: Place, before: PartitionView, follower: int) -> str | None:
        if self.latency_s <= 0:
            return None
        effect = replicated_late(self.stage, [follower], {place: before}, self.latency_s)()
        return effect.because if effect.held else None

    def _effect(self) -> EffectProof:
        names = ["+".join(sorted(p for machine in side for p in machine)) for side in self.shape.sides]
        seen: dict[str, Any] = {names[side]: what for side, what in sorted(self.found.items())}
        spared = [name for side, name in enumerate(names) if side not in self.found]
        if spared:
            return EffectProof(False, f"{', '.join(spared)} lost nothing yet on {named(self.busy)}", seen)
        first = "; ".join(f"{name}: {next(iter(what.values()))}" for name, what in seen.items())
        return EffectProof(True, f"each side lost something: {first}", seen)


def _replaced(place: Place, before: PartitionView, now: PartitionView | None, follower: int) -> str | None:
    """What the controllers made of a leader and a follower that cannot reach each other; None = nothing yet."""
    where, leader = named([place]), before.leader
    if now is not None and now.leader_epoch > before.leader_epoch and now.leader != leader:
        return f"{leader} leads {where} no more, in epoch {now.leader_epoch} {now.leader} does"
    if now is not None and follower in before.isr and follower not in now.isr:
        return f"{follower} left the ISR of {where}"
    return None


def _of_controllers(stage: Stage, apart: Collection[frozenset[str]]) -> Probe:
    """Under load: another controller leads, or in another epoch, or none, or some lag all the while."""
    busy = under_load(stage)
    before = stage.admin.quorum()
    deaf = [node for node in stage.cluster.controllers if _apart(apart, before.leader, node)]
    lagging = metadata_late(stage, deaf)

    def asked() -> EffectProof:
        if not busy:
            return EffectProof(False, IDLE)
        if not deaf:
            return EffectProof(False, f"no controller has lost the active one, {before.leader}")
        try:
            now = stage.admin.quorum(NO_LEADER_S)
        except HarnessTimeout:
            return EffectProof(
                True, f"{before.leader} led the controllers, and for {NO_LEADER_S:g} s none says that it does"
            )
        seen = {"active_controller": [before.leader, now.leader], "epoch": [before.leader_epoch, now.leader_epoch]}
        if now.leader_epoch > before.leader_epoch:
            return EffectProof(
                True, f"controller {now.leader} leads in epoch {now.leader_epoch}, {before.leader} did", seen
            )
        late = lagging()
        return EffectProof(late.held, late.because, {**seen, **late.seen})

    return asked


def _apart(apart: Collection[frozenset[str]], one: int, other: int) -> bool:
    return one >= 0 and frozenset((party(one), party(other))) in apart
