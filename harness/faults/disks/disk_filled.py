"""A disk without free space: the next write returns ENOSPC, the log directory goes offline, and the broker ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from harness.faults.disks.common import LogSince, disks_of, ended_by_disk, only_node, require_own_disks
from harness.faults.disks.disk_full import DEADLINE_S
from harness.faults.nodes.process import absence_proof, injection, restart
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Fault, Injection, OneBrokerExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.facts import FactKind, Stop
from harness.model.scenario.scenario import Range


@dataclass(frozen=True, kw_only=True)
class DiskFilled(Fault):
    """All disks of the broker are filled."""

    do: ClassVar[str] = "disk_filled"
    facts: ClassVar[Declares] = (Declared(FactKind.DISK_FILLED), Declared(FactKind.STOPPED, how=Stop.CRASHED))
    summary: ClassVar[str] = (
        "Fills the disks of a broker except `spare_kb` (ENOSPC), until it ends; healing frees the space and starts it."
    )
    proof: ClassVar[str] = "as for `disk_full`"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own", "restart"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    spare_kb: Annotated[int, Range(0, 1 << 20)] = 256

    def validate(self, plan: StepValidation) -> None:
        require_own_disks(plan, self.do)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node, disks = only_node(context.nodes(self.node), context.cluster.brokers, self.do), disks_of(context)
        missed, since = absence_proof(context, (node,)), LogSince(context.cluster.server_log(node))
        directories = context.cluster.log_directories(node)
        try:
            context.cluster.let_end(node)
            taken = [disks.fill(directory, self.spare_kb) for directory in directories]
            injected = injection(context, (node,), ended_by_disk(context, node, since, missed))
            yield replace(injected, resolved={**injected.resolved, "ballast_bytes": taken}, deadline_s=DEADLINE_S)
        finally:
            for directory in directories:
                disks.make_room(directory)
            restart(context, (node,))
