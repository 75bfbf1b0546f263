"""A disk that is full: no file of a broker can grow, it gives its log directory up and ends, and the others serve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

from harness.faults.disks.common import LogSince, ended_of_disk, the_only
from harness.faults.nodes.process import felt, injection, restart
from harness.faults.steps.step import Fault, Injection, OneBrokerExpr
from harness.faults.steps.step_context import Stage
from harness.model.scenario.scenario import Range

# A log has to grow by as much first, which takes a slow load its time.
DEADLINE_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class DiskFull(Fault):
    """Lets no file of a broker grow any more (RLIMIT_FSIZE), until it ends of that; healing starts it without a limit.

    The limit is the size of its own server log and `spare_kb` on top, so that it can still say why it ends.
    """

    do: ClassVar[str] = "disk_full"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.full", "restart"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    spare_kb: Annotated[int, Range(1, 1 << 20)] = 256  # the broker needs some to say why it ends

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node = the_only(stage.nodes(self.node), stage.cluster.brokers, "disk_full")
        missed = felt(stage, (node,))
        log = stage.cluster.server_log(node)
        limit = (log.stat().st_size if log.exists() else 0) + self.spare_kb * 1024
        since = LogSince(log)
        try:
            stage.cluster.limit_file_size(node, limit)
            injected = injection(stage, (node,), ended_of_disk(stage, node, since, missed))
            yield replace(injected, resolved={**injected.resolved, "limit_bytes": limit}, deadline_s=DEADLINE_S)
        finally:
            try:
                stage.cluster.limit_file_size(node, None)
            finally:
                restart(stage, (node,))
