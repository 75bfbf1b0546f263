"""SIGSTOP. The process answers no request, keeps its connections, and later continues as if no time had passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.nodes.process import ProcessFault
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step_context import StepContext
from harness.model.facts import FactKind


@dataclass(frozen=True, kw_only=True)
class Pause(ProcessFault):
    """As in a long garbage collection, or on a virtual machine that is frozen."""

    do: ClassVar[str] = "pause"
    facts: ClassVar[Declares] = (Declared(FactKind.FROZEN),)
    summary: ClassVar[str] = "Freezes nodes with SIGSTOP, as a long garbage collection does; healing sends SIGCONT."
    proof: ClassVar[str] = "as for `kill`; for a follower, stopped acks are a proof, too"
    needs: ClassVar[frozenset[str]] = frozenset({"pause"})
    brief: ClassVar[bool] = True

    def _stop(self, context: StepContext, victims: tuple[int, ...]) -> None:
        context.cluster.pause(*victims)
        context.admin.leave_alone(victims)

    def _heal(self, context: StepContext, victims: tuple[int, ...]) -> None:
        context.cluster.resume(*victims)
        context.admin.ask_again(victims)
