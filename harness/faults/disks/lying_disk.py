"""Disks that only pretend to flush: the data is in a cache that loses its content with the power."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.disks.common import disks_of, require_own_disks
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Action, BrokersExpr, Done
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.facts import FactKind


@dataclass(frozen=True, kw_only=True)
class DiskLies(Action):
    """Before the power loss nothing shows it, as with such disks. No setting of a broker protects against it, so
    nothing excuses the loss.
    """

    do: ClassVar[str] = "disk_lies"
    facts: ClassVar[Declares] = (Declared(FactKind.FLUSHES_FORGOTTEN),)
    summary: ClassVar[str] = (
        "Remembers the content of the disks of brokers; a later power_loss that names this step restores it."
    )
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own"})
    node: BrokersExpr

    def validate(self, plan: StepValidation) -> None:
        require_own_disks(plan, self.do)

    def perform(self, context: StepContext) -> Done:
        nodes, disks = context.nodes(self.node), disks_of(context)
        for node in nodes:
            for directory in context.cluster.log_directories(node):
                disks.remember(directory)
        return Done(resolved={"nodes": list(nodes)})
