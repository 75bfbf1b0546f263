"""A broker that is up and cannot reach some sides: other brokers, controllers, clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.network.links import broken, check_sides, isolation
from harness.faults.steps.effect import (
    Probe,
    acks_stalled,
    answers_missed,
    any_of,
    await_recent_acks,
    isr_lost,
    leaders_moved,
)
from harness.faults.steps.step import BrokersExpr, Fault, Injection
from harness.faults.steps.step_context import Stage
from harness.model.link import CutMode


@dataclass(frozen=True, kw_only=True)
class Isolate(Fault):
    """Cuts a node off from "brokers", "controllers", "clients" or several of them, both ways."""

    do: ClassVar[str] = "isolate"
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    node: BrokersExpr
    away_from: tuple[str, ...]
    mode: CutMode = "silent"

    def __post_init__(self) -> None:
        check_sides(self.away_from)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        victims = stage.nodes(self.node)
        cluster = stage.cluster
        links = [
            link for node in victims for link in isolation(node, self.away_from, cluster.brokers, cluster.controllers)
        ]
        probe = self._felt(stage, victims)
        with broken(cluster.links, links, lambda a, b: cluster.links.cut(a, b, self.mode)):
            resolved = {"nodes": list(victims), "links": [list(link) for link in links]}
            yield Injection(resolved=resolved, probe=probe, nodes=victims)

    def _felt(self, stage: Stage, victims: tuple[int, ...]) -> Probe:
        led = await_recent_acks(stage, lambda s: s.leader in victims)
        if set(self.away_from) == {"clients"}:
            return any_of(acks_stalled(stage, tuple(led)), answers_missed(stage))
        if "controllers" in self.away_from and led:
            return leaders_moved(stage, led)
        followed = await_recent_acks(stage, lambda s: bool(set(s.isr) & set(victims)))
        return any_of(leaders_moved(stage, led), isr_lost(stage, stage.cluster.brokers, followed))
