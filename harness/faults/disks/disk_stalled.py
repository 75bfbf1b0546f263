"""A disk that stalls: what is written or flushed waits, again and again, and nothing fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.faults.disks.common import disks_of, foresee_own_disks, the_only
from harness.faults.steps.effect import STALL_S, Probe, acks_stalled, any_of, await_recent_acks, isr_lost, leaders_moved
from harness.faults.steps.repeat import Again
from harness.faults.steps.step import DisksView, EffectProof, Fault, Injection, OneBrokerExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.scenario.scenario import Deadline


@dataclass(frozen=True, kw_only=True)
class DiskStalled(Fault):
    """Lets the disks of a broker stand still for freeze_s (FIFREEZE) and go on for thaw_s, in turn, until healed."""

    do: ClassVar[str] = "disk_stalled"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own"})
    node: OneBrokerExpr
    freeze_s: Deadline = 2.0
    thaw_s: Deadline = 0.5

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_own_disks(plan, self.do)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        node, disks = the_only(stage.nodes(self.node), stage.cluster.brokers, self.do), disks_of(stage)
        directories = stage.cluster.log_directories(node)
        stalling = Again(lambda: _frozen(disks, directories), "the disk stood still", self.freeze_s, self.thaw_s)
        probe = stalling.felt(felt_waiting(stage, node, self.freeze_s), "stalls")
        with stalling.running():
            yield Injection(resolved={"nodes": [node]}, probe=probe, nodes=(node,))


@contextmanager
def _frozen(disks: DisksView, directories: Sequence[Path]) -> Iterator[None]:
    try:
        for directory in directories:
            disks.freeze(directory)
        yield
    finally:
        for directory in directories:
            disks.thaw(directory)


def felt_waiting(stage: Stage, node: int, freeze_s: float = STALL_S) -> Probe:
    """Acks stood still where its replicas are in sync, or it left the ISR, or the leadership.

    A pause in acks that no freeze lasts as long as has other reasons.
    """
    concerned = await_recent_acks(stage, lambda s: node in s.isr)
    led = {place: state for place, state in concerned.items() if state.leader == node}
    moved = [leaders_moved(stage, led)] if led else []
    paused = acks_stalled(stage, tuple(concerned)) if freeze_s >= STALL_S else _too_short(freeze_s)
    return any_of(paused, isr_lost(stage, [node], concerned), *moved)


def _too_short(freeze_s: float) -> Probe:
    return lambda: EffectProof(False, f"acks do not stop for as little as {freeze_s:g} s")
