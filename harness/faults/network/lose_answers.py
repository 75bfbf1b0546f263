"""Lost answers to produce requests: the records are in the log, the client does not know it, and retries them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.clusters.base import party
from harness.faults.network.links import between, broken
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import acks_stalled, answers_missed, any_of, await_recent_acks
from harness.faults.steps.step import CUTS, OF_CLIENTS, BrokersExpr, EffectProof, Fault, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.targets import CLIENT, fed_leaders
from harness.model.facts import FactKind
from harness.model.scenario.scenario import CLIENTS, Scenario


@dataclass(frozen=True, kw_only=True)
class LoseAnswers(Fault):
    """Requests still arrive. Healing closes the connections, so that the clients retry at once."""

    do: ClassVar[str] = "lose_answers"
    proven_late: ClassVar[bool] = True
    facts: ClassVar[Declares] = (Declared(FactKind.ANSWERS_LOST),)
    summary: ClassVar[str] = (
        "Drops the answers of brokers to clients, while requests still arrive; healing closes the connections."
    )
    proof: ClassVar[str] = (
        "clients retried records, gave them up without an answer, or had no acks of those brokers until the healing"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    node: BrokersExpr

    @classmethod
    def drawn_in(cls, scenario: Scenario, chosen: Mapping[str, object]) -> Mapping[str, tuple[object, ...]]:  # noqa: ARG003
        return {"node": fed_leaders(scenario, *CLIENTS)}

    def breaks(self) -> frozenset[str]:
        return frozenset({CUTS, OF_CLIENTS})

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        victims = context.nodes(self.node)
        led = await_recent_acks(context, lambda s: s.leader in victims)
        # A transaction may wait for an answer of its coordinator, and then no record is sent again.
        stalled = acks_stalled(context, tuple(led))
        at_healing = EffectProof(False, "no acks were looked for")

        def probe() -> EffectProof:
            return any_of(missed, lambda: at_healing)()

        missed = answers_missed(context)
        links = between([CLIENT], map(party, victims))
        cut = context.cluster.links.cut
        with broken(context.cluster.links, links, lambda a, b: cut(a, b, "silent", "answers")):
            yield Injection(resolved={"nodes": list(victims)}, probe=probe, nodes=victims, after_heal=True)
            at_healing = stalled()
