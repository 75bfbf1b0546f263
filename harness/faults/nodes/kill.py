"""SIGKILL. The process ends at once; the page cache survives, so the node finds all that it wrote when it restarts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.nodes.process import ABSENCE, ProcessFault
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step_context import StepContext
from harness.model.facts import FactKind, Stop


@dataclass(frozen=True, kw_only=True)
class Kill(ProcessFault):
    """All nodes are killed at the same moment."""

    do: ClassVar[str] = "kill"
    facts: ClassVar[Declares] = (Declared(FactKind.STOPPED, how=Stop.KILLED, at_once=True),)
    summary: ClassVar[str] = "Kills nodes with SIGKILL; healing starts them again on the same disk."
    proof: ClassVar[str] = ABSENCE
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart"})

    def _stop(self, context: StepContext, victims: tuple[int, ...]) -> None:
        context.cluster.kill(*victims)
