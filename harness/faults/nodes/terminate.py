"""SIGTERM, a controlled shutdown: leaders move first, logs are flushed, and the next start skips recovery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.nodes.process import ProcessFault
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step_context import StepContext
from harness.model.facts import FactKind, Stop


@dataclass(frozen=True, kw_only=True)
class Terminate(ProcessFault):
    """The next node is stopped when the one before has ended."""

    do: ClassVar[str] = "terminate"
    facts: ClassVar[Declares] = (Declared(FactKind.STOPPED, how=Stop.CLEANLY, at_once=True),)
    summary: ClassVar[str] = "Shuts nodes down with SIGTERM, one after the other; healing starts them again."
    proof: ClassVar[str] = "as for `kill`"
    needs: ClassVar[frozenset[str]] = frozenset({"terminate", "restart"})

    def _stop(self, context: StepContext, victims: tuple[int, ...]) -> None:
        for node in victims:
            context.cluster.terminate(node)
