"""Produce answers that never arrive: the records are in the log, the client does not know, and sends them again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.clusters.base import party
from harness.faults.network.links import CLIENT, between, broken
from harness.faults.steps.effect import answers_missed, await_recent_acks
from harness.faults.steps.step import BrokersExpr, Fault, Injection
from harness.faults.steps.step_context import Stage


@dataclass(frozen=True, kw_only=True)
class LoseAnswers(Fault):
    """Loses what brokers answer to clients; requests still arrive. Healing drops the connections, so clients retry."""

    do: ClassVar[str] = "lose_answers"
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    node: BrokersExpr

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        victims = stage.nodes(self.node)
        await_recent_acks(stage, lambda s: s.leader in victims)
        probe = answers_missed(stage)
        links = between([CLIENT], map(party, victims))
        cut = stage.cluster.links.cut
        with broken(stage.cluster.links, links, lambda a, b: cut(a, b, "silent", "answers")):
            yield Injection(resolved={"nodes": list(victims)}, probe=probe, nodes=victims, after_heal=True)
