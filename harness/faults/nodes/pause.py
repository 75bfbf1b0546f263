"""SIGSTOP: the process answers nobody, keeps its connections, and goes on later as if nothing had been."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.nodes import process
from harness.faults.nodes.process import felt, injection
from harness.faults.steps.step import Fault, Injection, NodesExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation


@dataclass(frozen=True, kw_only=True)
class Pause(Fault):
    """SIGSTOP of nodes, as a long garbage collection or a frozen machine; healing is SIGCONT."""

    do: ClassVar[str] = "pause"
    needs: ClassVar[frozenset[str]] = frozenset({"pause"})
    stops: ClassVar[bool] = True
    node: NodesExpr

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        process.validate(plan, self.node)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        victims = stage.nodes(self.node)
        probe = felt(stage, victims, brief=True)
        try:
            stage.cluster.pause(*victims)
            stage.admin.leave_alone(victims)
            yield injection(stage, victims, probe)
        finally:
            stage.cluster.resume(*victims)
            stage.admin.ask_again(victims)
