"""Brokers that run, but that other brokers, controllers or clients cannot reach, and the reverse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.network.links import broken, check_sides, isolation
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import (
    Probe,
    acks_stalled,
    answers_missed,
    any_of,
    await_recent_acks,
    isr_lost,
    leaders_moved,
)
from harness.faults.steps.step import CUTS, OF_CLIENTS, BrokersExpr, Fault, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.targets import fed_leaders
from harness.model.facts import FactKind
from harness.model.link import CutMode
from harness.model.scenario.scenario import CLIENTS, Scenario

_CLIENTS: Final = ("clients",)


@dataclass(frozen=True, kw_only=True)
class Isolate(Fault):
    """`away_from` names the sides to cut the links with."""

    do: ClassVar[str] = "isolate"
    # Not from brokers and clients at once: without new records a follower that fetches nothing stays in sync.
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "away_from": (("brokers",), ("controllers",), ("clients",), ("brokers", "controllers"))
    }
    facts: ClassVar[Declares] = (Declared(FactKind.LINKS_CUT),)
    summary: ClassVar[str] = 'Cuts brokers off from "brokers", "controllers", "clients" or several of them, both ways.'
    proof: ClassVar[str] = (
        "the partitions that it led have a newer leader epoch; or an ISR shrank, unless it led some and is cut off "
        "from controllers; away from clients only: acks stopped or records were retried"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    node: BrokersExpr
    away_from: tuple[str, ...]
    mode: CutMode = "silent"

    @classmethod
    def drawn_in(cls, scenario: Scenario, chosen: Mapping[str, object]) -> Mapping[str, tuple[object, ...]]:
        node, fitting = chosen.get("node"), cls.drawn["away_from"]
        if node not in fed_leaders(scenario, *CLIENTS):  # clients may ask nothing of it
            fitting = tuple(sides for sides in fitting if sides != _CLIENTS)
        if node == "brokers":  # no broker would be left that learns what the controllers decide
            fitting = (("brokers",),)
        return {"away_from": fitting}

    def __post_init__(self) -> None:
        check_sides(self.away_from)

    def breaks(self) -> frozenset[str]:
        return frozenset({CUTS, *([OF_CLIENTS] if "clients" in self.away_from else [])})

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        victims = context.nodes(self.node)
        cluster = context.cluster
        links = [
            link for node in victims for link in isolation(node, self.away_from, cluster.brokers, cluster.controllers)
        ]
        probe = self._effect_probe(context, victims)
        with broken(cluster.links, links, lambda a, b: cluster.links.cut(a, b, self.mode)):
            resolved = {"nodes": list(victims), "links": [list(link) for link in links]}
            yield Injection(resolved=resolved, probe=probe, nodes=victims)

    def _effect_probe(self, context: StepContext, victims: tuple[int, ...]) -> Probe:
        led = await_recent_acks(context, lambda s: s.leader in victims)
        if set(self.away_from) == set(_CLIENTS):
            return any_of(acks_stalled(context, tuple(led)), answers_missed(context))
        if "controllers" in self.away_from and led:
            return leaders_moved(context, led)
        followed = await_recent_acks(context, lambda s: bool(set(s.isr) & set(victims)))
        return any_of(leaders_moved(context, led), isr_lost(context, context.cluster.brokers, followed))
