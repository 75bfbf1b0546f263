"""Disks that only pretend to flush: what they say is written is in a cache that goes with the power."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.disks.common import disks_of, foresee_own_disks
from harness.faults.steps.step import Action, BrokersExpr, Done
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation


@dataclass(frozen=True, kw_only=True)
class DiskLies(Action):
    """Notes what the disks of brokers hold; a power_loss that names this step takes them back to it.

    Until then nothing shows, as with such disks. No setting of a broker makes up for it, so nothing excuses the loss.
    """

    do: ClassVar[str] = "disk_lies"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own"})
    node: BrokersExpr

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_own_disks(plan, self.do)

    def perform(self, stage: Stage) -> Done:
        nodes, disks = stage.nodes(self.node), disks_of(stage)
        for node in nodes:
            for directory in stage.cluster.log_directories(node):
                disks.remember(directory)
        return Done(resolved={"nodes": list(nodes)})
