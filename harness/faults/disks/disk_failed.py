"""A disk that fails under a running broker: every operation on it returns EIO.

A broker takes a failed log directory offline. While it has another one it keeps running, reports the lost replicas to
the controllers (KIP-858), and their leadership moves. It ends when it has no other, or has lost that of the metadata
log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

from harness.clusters.base import Disks
from harness.faults.disks.common import (
    LogSince,
    disks_of,
    ended_by_disk,
    only_node,
    remount_and_start,
    replica_folder,
    require_own_disks,
)
from harness.faults.nodes.process import absence_proof, injection
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe, await_recent_acks, isr_lost, leaders_moved
from harness.faults.steps.step import EffectProof, Fault, Injection, OneBrokerExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.admin.client import PartitionState
from harness.model.errors import BadInput
from harness.model.facts import FactKind, Stop
from harness.model.place import Place
from harness.model.scenario.scenario import LOG_DIRS_MAX, Range

DEADLINE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class DiskFailed(Fault):
    """`log_dir` counts from 1, which also has the metadata log: a broker ends when it loses that one, and keeps running
    when it loses another. Data that was not flushed is lost.
    """

    do: ClassVar[str] = "disk_failed"
    facts: ClassVar[Declares] = (
        Declared(FactKind.DISK_FAILED),
        Declared(FactKind.STOPPED, how=Stop.CRASHED),
        Declared(FactKind.DATA_LOST, what="unflushed"),
        Declared(FactKind.COPIES_REBUILT),
    )
    summary: ClassVar[str] = (
        "Fails the disk of a log directory while its broker runs (EIO); healing mounts it again and starts the broker."
    )
    proof: ClassVar[str] = (
        "as for `disk_full`; with several log directories, the broker still runs and logged that it took this one "
        "offline, and the partitions that it led there have a newer leader epoch"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own", "kill", "restart"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    log_dir: Annotated[int, Range(1, LOG_DIRS_MAX)] = 1

    def declared(self) -> Declares:
        """A broker must not end by itself when it loses another log directory than the first. Healing kills it."""
        if self.log_dir == 1:
            return self.facts
        by_itself, killed = Declared(FactKind.STOPPED, how=Stop.CRASHED), Declared(FactKind.STOPPED, how=Stop.KILLED)
        return tuple(killed if fact == by_itself else fact for fact in self.facts)

    def validate(self, plan: StepValidation) -> None:
        require_own_disks(plan, self.do)
        there = plan.scenario.shape.log_dirs
        if self.log_dir > there:
            raise BadInput(
                f"log_dir: brokers have {there} log directories; set log_dirs = {self.log_dir} in [shape] for this one"
            )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node, disks = only_node(context.nodes(self.node), context.cluster.brokers, self.do), disks_of(context)
        directory = context.cluster.log_directories(node)[self.log_dir - 1]
        since = LogSince(context.cluster.server_log(node))
        if self.log_dir == 1:
            probe = ended_by_disk(context, node, since, absence_proof(context, (node,)))
        else:
            probe = _still_runs(context, node, directory, since)
        try:
            if self.log_dir == 1:
                context.cluster.let_end(node)
            self._break(disks, directory)
            injected = injection(context, (node,), probe)
            yield replace(injected, resolved={**injected.resolved, "log_dir": directory.name}, deadline_s=DEADLINE_S)
        finally:
            remount_and_start(context, (node,))

    def _break(self, disks: Disks, directory: Path) -> None:
        disks.shut_down(directory)


def _followed(context: StepContext, node: int, there: Callable[[PartitionState], bool]) -> dict[Place, PartitionState]:
    return await_recent_acks(context, lambda s: node in s.isr and there(s))


def _still_runs(context: StepContext, node: int, directory: Path, since: LogSince) -> Probe:
    """Proof: the broker runs, logged that the directory is offline, and its replicas there left leadership or ISR."""

    def there(state: PartitionState) -> bool:
        return replica_folder([directory], (state.topic, state.partition)) is not None

    led = await_recent_acks(context, lambda s: s.leader == node and there(s))
    missed = leaders_moved(context, led) if led else isr_lost(context, [node], _followed(context, node, there))

    def asked() -> EffectProof:
        effect = missed()
        runs = context.cluster.running(node)
        said = since.says("Stopping serving logs in dir", str(directory)) or since.says(str(directory), "is offline")
        seen = {**effect.seen, "runs": runs, "said_why": said}
        if not runs:
            return EffectProof(False, f"broker {node} ended, though only one of its log directories failed", seen)
        if not said:
            return EffectProof(False, f"broker {node} has not taken {directory.name} offline", seen)
        because = f"broker {node} took {directory.name} offline and still runs; {effect.because}"
        return EffectProof(effect.held, because, seen)

    return asked
