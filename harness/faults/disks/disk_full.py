"""A limit on the size of files: no file of a broker can grow, its log directory goes offline, and it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

from harness.faults.disks.common import LogSince, ended_by_disk, only_node
from harness.faults.nodes.process import absence_proof, injection, restart
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Fault, Injection, OneBrokerExpr
from harness.faults.steps.step_context import StepContext
from harness.model.facts import FactKind, Stop
from harness.model.scenario.scenario import Range

# The log must first grow by `spare_kb`, which takes time under a slow load.
DEADLINE_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class DiskFull(Fault):
    """The limit is `spare_kb` above the size of its server log, so that it can still log why it ends."""

    do: ClassVar[str] = "disk_full"
    facts: ClassVar[Declares] = (Declared(FactKind.DISK_FILLED), Declared(FactKind.STOPPED, how=Stop.CRASHED))
    summary: ClassVar[str] = (
        "Limits the size of a broker's files (RLIMIT_FSIZE), until it ends; healing starts it without a limit."
    )
    proof: ClassVar[str] = "it ended, its log says that its log directory failed, and its absence shows as for `kill`"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.full", "restart"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    spare_kb: Annotated[int, Range(1, 1 << 20)] = 256  # the broker needs some to log why it ends

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node = only_node(context.nodes(self.node), context.cluster.brokers, "disk_full")
        missed = absence_proof(context, (node,))
        log = context.cluster.server_log(node)
        limit = (log.stat().st_size if log.exists() else 0) + self.spare_kb * 1024
        since = LogSince(log)
        try:
            context.cluster.limit_file_size(node, limit)
            injected = injection(context, (node,), ended_by_disk(context, node, since, missed))
            yield replace(injected, resolved={**injected.resolved, "limit_bytes": limit}, deadline_s=DEADLINE_S)
        finally:
            try:
                context.cluster.limit_file_size(node, None)
            finally:
                restart(context, (node,))
