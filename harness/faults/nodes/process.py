"""Faults that stop processes of nodes: their common base, and the proof that the cluster noticed the absence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from harness.faults.steps.effect import Probe, acks_stalled, any_of, await_recent_acks, isr_lost, leaders_moved
from harness.faults.steps.step import EffectProof, Fault, Injection, NodesExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import CONTROLLERS, StepValidation
from harness.model.errors import BadInput

RESTART_DEADLINE_S: Final = 180.0  # a JVM of a busy machine needs more than a minute
How = Literal["killed", "cleanly"]
# The proof of every fault that is proven by `absence_proof`, for its `proof`.
ABSENCE: Final = (
    "the partitions that the node led under load have a newer leader epoch; a follower left the ISR; "
    "another controller took over from the active one"
)


@dataclass(frozen=True, kw_only=True)
class ProcessFault(Fault):
    """Base of faults that stop the processes of nodes and start or continue them on healing."""

    stops: ClassVar[bool] = True
    brief: ClassVar[bool] = False  # too short for the ISR to shrink
    node: NodesExpr

    def validate(self, plan: StepValidation) -> None:
        validate(plan, self.node)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        victims = context.nodes(self.node)
        probe = absence_proof(context, victims, brief=self.brief)
        try:
            self._stop(context, victims)
            yield injection(context, victims, probe)
        finally:
            self._heal(context, victims)

    @abstractmethod
    def _stop(self, context: StepContext, victims: tuple[int, ...]) -> None: ...

    def _heal(self, context: StepContext, victims: tuple[int, ...]) -> None:
        restart(context, victims)


def validate(plan: StepValidation, node: str) -> None:
    """BadInput for controllers without a visible effect when absent: only a new active controller shows it."""
    found, controllers = plan.reach(node), plan.scenario.shape.controllers
    if found.role != CONTROLLERS:
        return
    if found.word == "controller_follower":
        raise BadInput(
            f'node: {node!r} is not the active controller, so nothing shows its absence; name "controller" instead'
        )
    if controllers - found.count <= controllers // 2:
        raise BadInput(
            f"node: without {node!r} no majority of {controllers} is left to take over; set controllers = 3 in [shape] "
            'and name "controller", or use quorum_lost'
        )


def injection(context: StepContext, victims: tuple[int, ...], probe: Probe) -> Injection:
    """An active fault on these nodes. When it is on all brokers, its effect can be asked for only after the healing."""
    all_brokers = set(victims) >= set(context.cluster.brokers)
    return Injection(
        resolved={"nodes": list(victims)},
        probe=probe,
        nodes=victims,
        after_heal=all_brokers,
        deadline_s=60.0 if all_brokers else 20.0,
    )


def absence_proof(context: StepContext, victims: tuple[int, ...], *, brief: bool = False) -> Probe:
    """Proof that fits the roles of the victims: active controller, leaders or followers. Call it before the fault.

    `brief`: the fault is too short for the ISR to shrink, so that stopped acks prove the absence of a follower, too.
    """
    if any(node in context.cluster.controllers for node in victims):
        return controller_moved(context, victims)
    led = await_recent_acks(context, lambda s: s.leader in victims)
    if led:
        return leaders_moved(context, led)
    followed = await_recent_acks(context, lambda s: bool(set(s.isr) & set(victims)))
    shrank = isr_lost(context, victims, followed)
    return any_of(shrank, acks_stalled(context, tuple(followed))) if brief else shrank


def controller_moved(context: StepContext, victims: tuple[int, ...]) -> Probe:
    """Proof: a victim was the active controller, and another controller took over."""
    before = context.active_controller()

    def probe() -> EffectProof:
        now = context.active_controller()
        seen = {"active_controller": [before, now]}
        if before not in victims:
            return EffectProof(False, f"the active controller was {before}, not the victim", seen)
        if now in (before, -1):
            return EffectProof(False, f"no other controller took over from {before}", seen)
        return EffectProof(True, f"the active controller moved from {before} to {now}", seen)

    return probe


def stop(context: StepContext, node: int, how: How) -> None:
    """Stops a node: "killed" by SIGKILL, "cleanly" by SIGTERM."""
    if how == "killed":
        context.cluster.kill(node)
    else:
        context.cluster.terminate(node)


def restart(context: StepContext, victims: tuple[int, ...]) -> None:
    """Starts those nodes that are down, all at once, and waits until each has started."""
    down = [node for node in victims if not context.cluster.running(node)]
    context.cluster.start(*down)
    for node in down:
        context.cluster.wait_started(node, RESTART_DEADLINE_S)
