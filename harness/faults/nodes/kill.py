"""SIGKILL: the process is gone at once; what it had in the page cache is still there when it returns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.nodes import process
from harness.faults.nodes.process import felt, injection, restart
from harness.faults.steps.step import Fault, Injection, NodesExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation


@dataclass(frozen=True, kw_only=True)
class Kill(Fault):
    """SIGKILL of nodes; healing starts them again on the same disk."""

    do: ClassVar[str] = "kill"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart"})
    stops: ClassVar[bool] = True
    node: NodesExpr

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        process.validate(plan, self.node)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        victims = stage.nodes(self.node)
        probe = felt(stage, victims)
        try:
            stage.cluster.kill(*victims)
            yield injection(stage, victims, probe)
        finally:
            restart(stage, victims)
