"""Lost answers to produce requests: the records are in the log, the client does not know it, and retries them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.clusters.base import party
from harness.faults.network.links import between, broken
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import answers_missed, await_recent_acks
from harness.faults.steps.step import CUTS, OF_CLIENTS, BrokersExpr, Fault, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.targets import CLIENT, fed_leaders
from harness.model.facts import FactKind
from harness.model.outcome import LIBRDKAFKA
from harness.model.scenario.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class LoseAnswers(Fault):
    """Requests still arrive. Healing closes the connections, so that the clients retry at once."""

    do: ClassVar[str] = "lose_answers"
    proven_late: ClassVar[bool] = True
    facts: ClassVar[Declares] = (Declared(FactKind.ANSWERS_LOST),)
    summary: ClassVar[str] = (
        "Drops the answers of brokers to clients, while requests still arrive; healing closes the connections."
    )
    proof: ClassVar[str] = "clients retried records, or gave them up without an answer"
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    node: BrokersExpr

    @classmethod
    def drawn_in(cls, scenario: Scenario, chosen: Mapping[str, object]) -> Mapping[str, tuple[object, ...]]:  # noqa: ARG003
        # The release's own client does not say what it sent again.
        return {"node": fed_leaders(scenario, LIBRDKAFKA)}

    def breaks(self) -> frozenset[str]:
        return frozenset({CUTS, OF_CLIENTS})

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        victims = context.nodes(self.node)
        await_recent_acks(context, lambda s: s.leader in victims)
        probe = answers_missed(context)
        links = between([CLIENT], map(party, victims))
        cut = context.cluster.links.cut
        with broken(context.cluster.links, links, lambda a, b: cut(a, b, "silent", "answers")):
            yield Injection(resolved={"nodes": list(victims)}, probe=probe, nodes=victims, after_heal=True)
