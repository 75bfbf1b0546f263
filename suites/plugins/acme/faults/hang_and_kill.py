"""SIGSTOP and then SIGKILL. A watchdog kills a process that answers no more, and starts it again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.nodes.process import ABSENCE, ProcessFault
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step_context import StepContext
from harness.model.facts import FactKind, Stop
from harness.model.scenario.scenario import Seconds


@dataclass(frozen=True, kw_only=True)
class HangAndKill(ProcessFault):
    """All nodes are frozen and killed at the same moments."""

    do: ClassVar[str] = "hang_and_kill"
    facts: ClassVar[Declares] = (Declared(FactKind.FROZEN), Declared(FactKind.STOPPED, how=Stop.KILLED, at_once=True))
    summary: ClassVar[str] = "Freezes nodes for hung_s seconds, and kills them then; healing starts them again."
    proof: ClassVar[str] = ABSENCE
    needs: ClassVar[frozenset[str]] = frozenset({"pause", "kill", "restart"})
    hung_s: Seconds = 2.0

    def _stop(self, context: StepContext, victims: tuple[int, ...]) -> None:
        context.cluster.pause(*victims)
        time.sleep(self.hung_s)
        context.cluster.kill(*victims)
