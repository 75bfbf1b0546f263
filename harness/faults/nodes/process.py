"""What the faults on processes share: choosing victims, and the proof that their going was felt."""

from __future__ import annotations

from typing import Literal

from harness.faults.steps.effect import Probe, acks_stalled, any_of, await_recent_acks, isr_lost, leaders_moved
from harness.faults.steps.step import EffectProof, Injection
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import CONTROLLERS, StepValidation
from harness.model.errors import BadInput

RESTART_DEADLINE_S = 90.0
How = Literal["killed", "cleanly"]


def validate(plan: StepValidation, node: str) -> None:
    """BadInput for controllers that nobody would miss: that another one takes over is all that shows it."""
    found, controllers = plan.reach(node), plan.scenario.shape.controllers
    if found.role != CONTROLLERS:
        return
    if found.word == "controller_follower":
        raise BadInput(f'node: nothing shows that {node!r} is gone, for it does not lead; name "controller"')
    if controllers - found.count <= controllers // 2:
        raise BadInput(
            f"node: without {node!r} no majority of {controllers} is left to take over; set controllers = 3 in [shape] "
            'and name "controller", or use quorum_lost'
        )


def injection(stage: Stage, victims: tuple[int, ...], probe: Probe) -> Injection:
    """With every broker gone nobody can tell before the healing."""
    everyone = set(victims) >= set(stage.cluster.brokers)
    return Injection(
        resolved={"nodes": list(victims)},
        probe=probe,
        nodes=victims,
        after_heal=everyone,
        deadline_s=60.0 if everyone else 20.0,
    )


def felt(stage: Stage, victims: tuple[int, ...], *, brief: bool = False) -> Probe:
    """The proof fitting to what the victims were: controllers, leaders, followers. Taken before the fault.

    `brief` = too short for the ISR to shrink; then acks that stop are proof enough for followers.
    """
    if any(node in stage.cluster.controllers for node in victims):
        return controller_moved(stage, victims)
    led = await_recent_acks(stage, lambda s: s.leader in victims)
    if led:
        return leaders_moved(stage, led)
    followed = await_recent_acks(stage, lambda s: bool(set(s.isr) & set(victims)))
    shrank = isr_lost(stage, victims, followed)
    return any_of(shrank, acks_stalled(stage, tuple(followed))) if brief else shrank


def controller_moved(stage: Stage, victims: tuple[int, ...]) -> Probe:
    """The victim was the active controller, and another one is."""
    before = stage.active_controller()

    def probe() -> EffectProof:
        now = stage.active_controller()
        seen = {"active_controller": [before, now]}
        if before not in victims:
            return EffectProof(False, f"the active controller was {before}, not the victim", seen)
        if now in (before, -1):
            return EffectProof(False, f"no other controller took over from {before}", seen)
        return EffectProof(True, f"the active controller moved from {before} to {now}", seen)

    return probe


def stop(stage: Stage, node: int, how: How) -> None:
    """SIGKILL, or a clean end."""
    if how == "killed":
        stage.cluster.kill(node)
    else:
        stage.cluster.terminate(node)


def restart(stage: Stage, victims: tuple[int, ...]) -> None:
    """Starts what is down, all at once, and waits until each says that it is up."""
    down = [node for node in victims if not stage.cluster.running(node)]
    stage.cluster.start(*down)
    for node in down:
        stage.cluster.wait_started(node, RESTART_DEADLINE_S)
