"""A cut of directed links: the silent kind keeps connections and loses what is sent, the refusing kind closes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.clusters.base import party
from harness.faults.network.links import CLIENT, ISOLATED, PartiesExpr, between, broken, parties
from harness.faults.steps.effect import (
    Probe,
    acks_stalled,
    answers_missed,
    any_of,
    await_recent_acks,
    followers_behind,
    isolated_stalled,
    isr_lost,
    leaders_moved,
)
from harness.faults.steps.step import Fault, Injection, NodesExpr, PartitionExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.model.errors import BadInput
from harness.model.link import CutMode, Direction


@dataclass(frozen=True, kw_only=True)
class Cut(Fault):
    """Cuts the links by which `src` connects to `dst`: silent or refusing, both ways, requests or answers only."""

    do: ClassVar[str] = "cut"
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    src: PartiesExpr
    dst: NodesExpr
    mode: CutMode = "silent"
    direction: Direction = "both"

    def __post_init__(self) -> None:
        if self.mode == "refusing" and self.direction != "both":
            raise BadInput(f"a refusing cut closes both directions: leave out direction = {self.direction!r}")

    def victims(self) -> str:
        """See `Fault`."""
        return self.dst

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        plan.linked(self.src, self.dst)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        targets = stage.nodes(self.dst)
        links = between(parties(stage, self.src), [party(node) for node in targets])
        probe = self._felt(stage, targets)
        with broken(stage.cluster.links, links, lambda a, b: stage.cluster.links.cut(a, b, self.mode, self.direction)):
            yield Injection(resolved={"links": [list(link) for link in links]}, probe=probe, nodes=targets)

    def _felt(self, stage: Stage, targets: tuple[int, ...]) -> Probe:
        if self.src == ISOLATED:
            led = await_recent_acks(
                stage, lambda s: s.leader in targets and (s.topic, s.partition) in stage.load.isolated_places()
            )
            return isolated_stalled(stage, tuple(led))
        if self.src == CLIENT:
            led = await_recent_acks(stage, lambda s: s.leader in targets)
            return any_of(acks_stalled(stage, tuple(led)), answers_missed(stage))
        sources = stage.nodes(self.src)
        if set(targets) & set(stage.cluster.controllers):
            led = await_recent_acks(stage, lambda s: s.leader in sources)
            return leaders_moved(stage, led)
        led = await_recent_acks(stage, lambda s: s.leader in targets)
        return any_of(isr_lost(stage, sources, led), followers_behind(stage, sources, targets))


@dataclass(frozen=True, kw_only=True)
class CutFollowers(Fault):
    """Cuts the links by which the followers of one partition fetch from its leader, and lets nothing else fail.

    With records in flight the ISR shrinks to the leader within replica.lag.time.max.ms; until then acks=1 is
    answered by a leader whose followers have nothing.
    """

    do: ClassVar[str] = "cut_followers"
    internal: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    of: PartitionExpr
    mode: CutMode = "silent"

    def victims(self) -> str:
        """See `Fault`."""
        return f"followers({self.of})"

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        topic, _ = place_of(self.of)
        if plan.topic(topic).replicas == 1:
            raise BadInput(f"of: {topic} has one replica, and so no followers; give it replicas = 2 or more")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        place = place_of(self.of)
        state = stage.partition(place)
        followers = [b for b in state.replicas if b != state.leader]
        links = between(map(party, followers), [party(state.leader)])
        before = {place: state}
        probe = any_of(isr_lost(stage, followers, before), followers_behind(stage, followers, [state.leader]))
        with broken(stage.cluster.links, links, lambda a, b: stage.cluster.links.cut(a, b, self.mode)):
            yield Injection(
                resolved={"links": [list(link) for link in links], "leader": state.leader, "followers": followers},
                probe=probe,
                nodes=tuple(followers),
            )
