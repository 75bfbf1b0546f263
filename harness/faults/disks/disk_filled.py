"""A disk without room: ENOSPC on the next write, the log directory is given up, and the others serve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from harness.faults.disks.common import LogSince, disks_of, ended_of_disk, foresee_own_disks, the_only
from harness.faults.disks.disk_full import DEADLINE_S
from harness.faults.nodes.process import felt, injection, restart
from harness.faults.steps.step import Fault, Injection, OneBrokerExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.scenario.scenario import Range


@dataclass(frozen=True, kw_only=True)
class DiskFilled(Fault):
    """Fills the disks of a broker but for `spare_kb` (ENOSPC), until it ends of that; healing makes room, starts it."""

    do: ClassVar[str] = "disk_filled"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own", "restart"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    spare_kb: Annotated[int, Range(0, 1 << 20)] = 256

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_own_disks(plan, self.do)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node, disks = the_only(stage.nodes(self.node), stage.cluster.brokers, self.do), disks_of(stage)
        missed, since = felt(stage, (node,)), LogSince(stage.cluster.server_log(node))
        directories = stage.cluster.log_directories(node)
        try:
            stage.cluster.let_end(node)
            taken = [disks.fill(directory, self.spare_kb) for directory in directories]
            injected = injection(stage, (node,), ended_of_disk(stage, node, since, missed))
            yield replace(injected, resolved={**injected.resolved, "ballast_bytes": taken}, deadline_s=DEADLINE_S)
        finally:
            for directory in directories:
                disks.make_room(directory)
            restart(stage, (node,))
