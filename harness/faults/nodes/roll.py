"""A rolling upgrade, or the way back: one node after the other goes down and comes back on another release.

Kafka's upgrade notes restart nodes one at a time, and its system tests (kraft_upgrade_test.py) controllers first. The
way back is open for as long as no feature level was raised (KIP-584, KIP-778).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

from harness.clusters.base import START
from harness.faults.controllers import common as controllers
from harness.faults.disks.common import LogSince
from harness.faults.nodes.process import restart
from harness.faults.nodes.rolling_restart import effect_of
from harness.faults.nodes.terminate import Terminate
from harness.faults.steps.effect import IDLE, under_load
from harness.faults.steps.step import Action, Done, EffectProof, NodesExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import CONTROLLERS, StepValidation
from harness.faults.steps.waits import WaitHealthy
from harness.model.clock import now_ns
from harness.model.errors import BadInput
from harness.model.waiting import wait_for

CAUGHT_UP_DEADLINE_S: Final = 60.0
_VERSION: Final = r"Kafka version: (\S+)"  # AppInfoParser, of every node and client inside it


@dataclass(frozen=True, kw_only=True)
class Roll(Action):
    """Restarts nodes one by one on release `to`, "tested" or "start", waiting for every ISR to be full in between."""

    do: ClassVar[str] = "roll"
    needs: ClassVar[frozenset[str]] = frozenset({"terminate", "restart"})
    disturbs: ClassVar[bool] = True
    node: NodesExpr = "brokers"
    to: Literal["tested", "start"] = "tested"

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if plan.scenario.shape.starts_on is None:
            raise BadInput('there is one release only; set starts_on = "3.9.1", or another version, in [shape]')
        if plan.reach(self.node).role == CONTROLLERS:
            controllers.validate(plan)
        raised = [name for name, kind in plan.earlier.items() if kind.do == "raise_features"]
        if self.to == START and raised:
            raise BadInput(
                f"to: step {raised[0]!r} has raised feature levels, and {START!r} may not know them; leave it"
            )

    def perform(self, stage: Stage) -> Done:
        bites: dict[int, EffectProof] = {}
        for node in stage.nodes(self.node):
            swap = _swap_controller if node in stage.cluster.controllers else _swap_broker
            before = stage.cluster.release_of(node).version
            bites[node] = _reported(stage, node, before, swap(stage, node, self.to))
            stage.log(f"node {node}: {bites[node].because}")
        idle = [node for node, effect in bites.items() if not effect.held]
        version = stage.cluster.releases[self.to].version
        because = f"each of {list(bites)} was missed while away and came back on {version}"
        if idle:
            because = f"{idle[0]}: {bites[idle[0]].because}"
        seen: dict[str, Any] = {str(node): effect.as_dict() for node, effect in bites.items()}
        return Done(resolved={"nodes": list(bites), "to": version}, effect=EffectProof(not idle, because, seen))


@dataclass(frozen=True, slots=True)
class _Swapped:
    """missed: that its going was felt. since: what its log says from then on."""

    missed: EffectProof
    since: LogSince


def _swap_broker(stage: Stage, node: int, to: str) -> _Swapped:
    with Terminate(node=f"broker({node})").active(stage) as injection:
        missed = effect_of(injection.probe)
        since = LogSince(stage.cluster.server_log(node))
        stage.cluster.use_release(node, to)
    WaitHealthy().perform(stage)
    return _Swapped(missed, since)


def _swap_controller(stage: Stage, node: int, to: str) -> _Swapped:
    """Whether it leads or follows, the others commit without it, and it has all of that before the next one goes."""
    busy = bool(under_load(stage))
    before = stage.admin.quorum()
    try:
        stage.cluster.terminate(node)
        mark = controllers.committed_without(stage, node, before, "which is given another release")
        since = LogSince(stage.cluster.server_log(node))
        stage.cluster.use_release(node, to)
    finally:
        restart(stage, (node,))
    missed = wait_for(
        lambda: controllers.caught_up(stage, node, mark, "was away"),
        until=lambda effect: effect.held,
        deadline_s=CAUGHT_UP_DEADLINE_S,
        what=f"controller {node} to have what was committed without it",
        interval_s=0.1,
    )
    WaitHealthy().perform(stage)
    return _Swapped(missed if busy else EffectProof(False, IDLE), since)


def _reported(stage: Stage, node: int, before: str, swapped: _Swapped) -> EffectProof:
    """The bite of a node that was missed, and whose own log says that it now runs another release than before."""
    said = swapped.since.find(_VERSION)
    version, now = (said[1] if said else None), stage.cluster.release_of(node).version
    seen = {**swapped.missed.seen, "release": [before, version], "since_ns": now_ns()}
    if not swapped.missed.held:
        return replace(swapped.missed, seen=seen)
    if before == now:
        return EffectProof(False, f"it ran {now} before, too", seen)
    if version != now:
        return EffectProof(False, f"its log says that it runs {version}, after {before}, and not {now}", seen)
    return EffectProof(True, f"{swapped.missed.because}; its log says that it runs {version}, after {before}", seen)
