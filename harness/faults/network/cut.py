"""Cuts of directed links: "silent" keeps connections open and drops all data, "refusing" closes connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.clusters.base import party
from harness.faults.network.links import LinkFault, between, broken, parties
from harness.faults.steps.declared_facts import Declared, Declares
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
from harness.faults.steps.step import CUTS, Fault, Injection, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import CLIENT, ISOLATED, place_of
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.link import CutMode, Direction


@dataclass(frozen=True, kw_only=True)
class Cut(LinkFault):
    """`direction`: both ways, or only requests or answers of a silent cut."""

    do: ClassVar[str] = "cut"
    facts: ClassVar[Declares] = (Declared(FactKind.LINKS_CUT),)
    summary: ClassVar[str] = (
        "Cuts the links by which `src` connects to `dst`: silent or refusing, both ways or only requests or answers."
    )
    proof: ClassVar[str] = (
        "between brokers: the source left the ISR, or its log did not grow and ends below its leader's; from clients: "
        "acks stopped or records were retried; from an isolated client: its acks stopped, and those of other clients "
        "continued; to controllers: the leader epoch of partitions that the source led rose"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    mode: CutMode = "silent"
    direction: Direction = "both"

    def __post_init__(self) -> None:
        if self.mode == "refusing" and self.direction != "both":
            raise BadInput(f"a refusing cut closes both directions; leave out direction = {self.direction!r}")

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        targets = context.nodes(self.dst)
        links = between(parties(context, self.src), [party(node) for node in targets])
        probe = self._effect_probe(context, targets)
        with broken(
            context.cluster.links, links, lambda a, b: context.cluster.links.cut(a, b, self.mode, self.direction)
        ):
            yield Injection(resolved={"links": [list(link) for link in links]}, probe=probe, nodes=targets)

    def _effect_probe(self, context: StepContext, targets: tuple[int, ...]) -> Probe:
        if self.src == ISOLATED:
            led = await_recent_acks(
                context, lambda s: s.leader in targets and (s.topic, s.partition) in context.load.isolated_places()
            )
            return isolated_stalled(context, tuple(led))
        if self.src == CLIENT:
            led = await_recent_acks(context, lambda s: s.leader in targets)
            return any_of(acks_stalled(context, tuple(led)), answers_missed(context))
        sources = context.nodes(self.src)
        if set(targets) & set(context.cluster.controllers):
            led = await_recent_acks(context, lambda s: s.leader in sources)
            return leaders_moved(context, led)
        led = await_recent_acks(context, lambda s: s.leader in targets)
        return any_of(isr_lost(context, sources, led), followers_behind(context, sources, targets))


@dataclass(frozen=True, kw_only=True)
class CutFollowers(Fault):
    """With records in flight the ISR shrinks to the leader within replica.lag.time.max.ms.

    Until then the leader acknowledges records with acks=1 that no follower has.
    """

    do: ClassVar[str] = "cut_followers"
    facts: ClassVar[Declares] = (Declared(FactKind.LINKS_CUT),)
    summary: ClassVar[str] = "Cuts only the links by which the followers of one partition fetch from its leader."
    proof: ClassVar[str] = "the followers left the ISR, or their logs did not grow and end below the leader's"
    internal: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    of: PartitionExpr
    mode: CutMode = "silent"

    def victims(self) -> str:
        return f"followers({self.of})"

    def breaks(self) -> frozenset[str]:
        return frozenset({CUTS})

    def validate(self, plan: StepValidation) -> None:
        topic, _ = place_of(self.of)
        if plan.topic(topic).replicas == 1:
            raise BadInput(f"of: {topic} has one replica, and so no followers; give it replicas = 2 or more")

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        place = place_of(self.of)
        state = context.partition(place)
        followers = [b for b in state.replicas if b != state.leader]
        links = between(map(party, followers), [party(state.leader)])
        before = {place: state}
        probe = any_of(isr_lost(context, followers, before), followers_behind(context, followers, [state.leader]))
        with broken(context.cluster.links, links, lambda a, b: context.cluster.links.cut(a, b, self.mode)):
            yield Injection(
                resolved={"links": [list(link) for link in links], "leader": state.leader, "followers": followers},
                probe=probe,
                nodes=tuple(followers),
            )
