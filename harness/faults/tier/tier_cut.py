"""Brokers that lose the connection to the server of their remote tier, also in the middle of a copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.clusters.base import TIER, party
from harness.faults.network.links import broken
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import BrokersExpr, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.tier.common import ServerFault, copies_failed
from harness.model.facts import FactKind
from harness.model.link import CutMode


@dataclass(frozen=True, kw_only=True)
class TierCut(ServerFault):
    """`node` names the brokers that lose the connection."""

    do: ClassVar[str] = "tier_cut"
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_UNAVAILABLE),)
    summary: ClassVar[str] = "Cuts the links by which brokers reach the server of a tier in S3: silent or refusing."
    proof: ClassVar[str] = "tiered partitions had acks, and a broker's own log says that it failed to copy a segment"
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    node: BrokersExpr = "brokers"
    mode: CutMode = "refusing"

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        links = [(party(node), TIER) for node in context.nodes(self.node)]
        probe = copies_failed(context)
        with broken(context.cluster.links, links, lambda a, b: context.cluster.links.cut(a, b, self.mode), "cut"):
            yield Injection(resolved={"links": [list(link) for link in links]}, probe=probe, deadline_s=40.0)
