"""SIGTERM: controlled shutdown. Leaders move first, logs are flushed, the next start skips recovery."""

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
class Terminate(Fault):
    """SIGTERM of nodes, one after the other; healing starts them again."""

    do: ClassVar[str] = "terminate"
    needs: ClassVar[frozenset[str]] = frozenset({"terminate", "restart"})
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
            for node in victims:
                stage.cluster.terminate(node)
            yield injection(stage, victims, probe)
        finally:
            restart(stage, victims)
