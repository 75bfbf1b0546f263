"""Brokers are cut off from the server of their remote tier: what they were storing stops half way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.clusters.base import TIER, party
from harness.faults.network.links import broken
from harness.faults.steps.step import BrokersExpr, Injection
from harness.faults.steps.step_context import Stage
from harness.faults.tier.common import ServerFault, copies_failed
from harness.model.link import CutMode


@dataclass(frozen=True, kw_only=True)
class TierCut(ServerFault):
    """Cuts the links by which brokers (`node`) reach the server of a tier in S3: silent or refusing."""

    do: ClassVar[str] = "tier_cut"
    needs: ClassVar[frozenset[str]] = frozenset({"links"})
    node: BrokersExpr = "brokers"
    mode: CutMode = "refusing"

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        links = [(party(node), TIER) for node in stage.nodes(self.node)]
        probe = copies_failed(stage)
        with broken(stage.cluster.links, links, lambda a, b: stage.cluster.links.cut(a, b, self.mode), "cut"):
            yield Injection(resolved={"links": [list(link) for link in links]}, probe=probe, deadline_s=40.0)
