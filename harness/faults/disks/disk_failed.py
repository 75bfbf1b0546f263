"""A disk that dies under a running broker: whatever it asks of it ends in EIO.

A broker gives up a log directory that fails. With another one left it stays up, tells the controllers which replicas
it has lost (KIP-858), and their leadership moves; with the last of them, or that of the metadata log, it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

from harness.faults.disks.common import (
    LogSince,
    disks_of,
    ended_of_disk,
    foresee_own_disks,
    mend,
    replica_folder,
    the_only,
)
from harness.faults.nodes.process import felt, injection
from harness.faults.steps.effect import Probe, await_recent_acks, isr_lost, leaders_moved
from harness.faults.steps.step import DisksView, EffectProof, Fault, Injection, OneBrokerExpr, PartitionView, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.scenario.scenario import LOG_DIRS_MAX, Range

DEADLINE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class DiskFailed(Fault):
    """Fails the disk of a log directory while its broker runs (EIO); healing mounts it again and starts the broker.

    `log_dir` counts from 1, which also holds the metadata log: without that one a broker ends, without another it
    stays up. What had not been flushed is gone when the disk is back.
    """

    do: ClassVar[str] = "disk_failed"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own", "kill", "restart"})
    stops: ClassVar[bool] = True
    node: OneBrokerExpr
    log_dir: Annotated[int, Range(1, LOG_DIRS_MAX)] = 1

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_own_disks(plan, self.do)
        there = plan.scenario.shape.log_dirs
        if self.log_dir > there:
            raise BadInput(f"log_dir: {self.log_dir} of {there}; set log_dirs = {self.log_dir} in [shape]")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node, disks = the_only(stage.nodes(self.node), stage.cluster.brokers, self.do), disks_of(stage)
        directory = stage.cluster.log_directories(node)[self.log_dir - 1]
        since = LogSince(stage.cluster.server_log(node))
        if self.log_dir == 1:
            probe = ended_of_disk(stage, node, since, felt(stage, (node,)))
        else:
            probe = _lives_on(stage, node, directory, since)
        try:
            if self.log_dir == 1:
                stage.cluster.let_end(node)
            self._break(disks, directory)
            injected = injection(stage, (node,), probe)
            yield replace(injected, resolved={**injected.resolved, "log_dir": directory.name}, deadline_s=DEADLINE_S)
        finally:
            mend(stage, (node,))

    def _break(self, disks: DisksView, directory: Path) -> None:
        disks.shut_down(directory)


def _followed(stage: Stage, node: int, there: Callable[[PartitionView], bool]) -> dict[Place, PartitionView]:
    return await_recent_acks(stage, lambda s: node in s.isr and there(s))


def _lives_on(stage: Stage, node: int, directory: Path, since: LogSince) -> Probe:
    """The broker runs, said that it gave the directory up, and the replicas that it had there were missed."""

    def there(state: PartitionView) -> bool:
        return replica_folder([directory], (state.topic, state.partition)) is not None

    led = await_recent_acks(stage, lambda s: s.leader == node and there(s))
    missed = leaders_moved(stage, led) if led else isr_lost(stage, [node], _followed(stage, node, there))

    def asked() -> EffectProof:
        effect = missed()
        runs = stage.cluster.running(node)
        said = since.says("Stopping serving logs in dir", str(directory)) or since.says(str(directory), "is offline")
        seen = {**effect.seen, "runs": runs, "said_why": said}
        if not runs:
            return EffectProof(False, f"broker {node} ended, though only one of its log directories failed", seen)
        if not said:
            return EffectProof(False, f"broker {node} has not given {directory.name} up", seen)
        return EffectProof(effect.held, f"broker {node} gave {directory.name} up and runs on; {effect.because}", seen)

    return asked
