"""A disk that stalls: writes and flushes wait, repeatedly, and none fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.clusters.base import Disks
from harness.faults.disks.common import disks_of, only_node, require_own_disks
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import STALL_S, Probe, acks_stalled, any_of, await_recent_acks, isr_lost, leaders_moved
from harness.faults.steps.repeat import Repeat
from harness.faults.steps.step import EffectProof, Fault, Injection, OneBrokerExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.facts import FactKind, Stop
from harness.model.scenario.scenario import Deadline


@dataclass(frozen=True, kw_only=True)
class DiskStalled(Fault):
    """All disks of the broker are frozen together."""

    do: ClassVar[str] = "disk_stalled"
    facts: ClassVar[Declares] = (Declared(FactKind.DISK_SLOW), Declared(FactKind.STOPPED, how=Stop.CRASHED))
    summary: ClassVar[str] = (
        "Freezes the disks of a broker for freeze_s (FIFREEZE) and thaws them for thaw_s, in turn, until it is healed."
    )
    proof: ClassVar[str] = (
        "the disks were thawed at least twice; and acks stopped, or the broker left an ISR or lost the leadership"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"disk.own"})
    node: OneBrokerExpr
    freeze_s: Deadline = 2.0
    thaw_s: Deadline = 0.5

    def validate(self, plan: StepValidation) -> None:
        require_own_disks(plan, self.do)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        node, disks = only_node(context.nodes(self.node), context.cluster.brokers, self.do), disks_of(context)
        directories = context.cluster.log_directories(node)
        stalling = Repeat(lambda: _frozen(disks, directories), "the disk was frozen", self.freeze_s, self.thaw_s)
        probe = stalling.proof(stall_proof(context, node, self.freeze_s), "stalls")
        with stalling.running():
            yield Injection(resolved={"nodes": [node]}, probe=probe, nodes=(node,))


@contextmanager
def _frozen(disks: Disks, directories: Sequence[Path]) -> Iterator[None]:
    try:
        for directory in directories:
            disks.freeze(directory)
        yield
    finally:
        for directory in directories:
            disks.thaw(directory)


def stall_proof(context: StepContext, node: int, freeze_s: float = STALL_S) -> Probe:
    """Proof: acks stopped on partitions with the broker in the ISR, or it left an ISR, or it lost the leadership.

    A freeze that is shorter than the time after which acks count as stopped cannot be the reason for stopped acks.
    """
    concerned = await_recent_acks(context, lambda s: node in s.isr)
    led = {place: state for place, state in concerned.items() if state.leader == node}
    moved = [leaders_moved(context, led)] if led else []
    paused = acks_stalled(context, tuple(concerned)) if freeze_s >= STALL_S else _too_short(freeze_s)
    return any_of(paused, isr_lost(context, [node], concerned), *moved)


def _too_short(freeze_s: float) -> Probe:
    return lambda: EffectProof(False, f"a freeze of {freeze_s:g} s is too short to stop acks visibly")
