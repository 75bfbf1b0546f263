"""A rolling upgrade or downgrade: nodes restart one after the other on another release.

Kafka's upgrade notes restart nodes one at a time; its system tests (kraft_upgrade_test.py) restart controllers first.
A downgrade is possible until a feature level is raised (KIP-584, KIP-778).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

from harness.clusters.base import START
from harness.faults.controllers import common as controllers
from harness.faults.disks.common import LogSince
from harness.faults.nodes.process import restart
from harness.faults.nodes.rolling_restart import effect_of
from harness.faults.nodes.terminate import Terminate
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import IDLE, under_load
from harness.faults.steps.step import Action, Done, EffectProof, NodesExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import CONTROLLERS, StepValidation
from harness.faults.steps.waits import WaitHealthy
from harness.model.clock import now_ns
from harness.model.errors import BadInput
from harness.model.facts import FactKind, Stop
from harness.model.waiting import wait_for

CAUGHT_UP_DEADLINE_S: Final = 60.0
_VERSION: Final = r"Kafka version: (\S+)"  # AppInfoParser, of every node and client inside it


@dataclass(frozen=True, kw_only=True)
class Roll(Action):
    """`to`: the release under test, or the one that the cluster starts on (`starts_on` in [shape])."""

    do: ClassVar[str] = "roll"
    facts: ClassVar[Declares] = (Declared(FactKind.STOPPED, how=Stop.CLEANLY), Declared(FactKind.UPGRADED))
    summary: ClassVar[str] = (
        'Restarts nodes one by one on the release `to`, "tested" or "start", and waits for full ISRs in between.'
    )
    proof: ClassVar[str] = (
        "the absence of each broker shows as for `terminate`, the other controllers committed without each controller, "
        "and each node's own log names the other release"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"terminate", "restart", "disk.read"})
    disturbs: ClassVar[bool] = True
    by_hand: ClassVar[str] = "the plan of a cluster with `starts_on` has it, and a second one would change nothing"
    node: NodesExpr = "brokers"
    to: Literal["tested", "start"] = "tested"

    def declared(self) -> Declares:
        stopped, _ = self.facts
        return (stopped, Declared(FactKind.UPGRADED, what=self.to))

    def validate(self, plan: StepValidation) -> None:
        if plan.scenario.shape.starts_on is None:
            raise BadInput('the cluster has only one release; set starts_on = "3.9.1", or another version, in [shape]')
        if plan.reach(self.node).role == CONTROLLERS:
            controllers.validate(plan)
        raised = [name for name, kind in plan.earlier.items() if kind.do == "raise_features"]
        if self.to == START and raised:
            raise BadInput(
                f"to: step {raised[0]!r} raises feature levels that {START!r} may not know; remove one of the two steps"
            )

    def perform(self, context: StepContext) -> Done:
        effects: dict[int, EffectProof] = {}
        for node in context.nodes(self.node):
            swap = _swap_controller if node in context.cluster.controllers else _swap_broker
            before = context.cluster.release_of(node).version
            with context.stopping(node):
                swapped = swap(context, node, self.to)
            effects[node] = _swap_proof(context, node, before, swapped)
            context.log(f"node {node}: {effects[node].because}")
        idle = [node for node, effect in effects.items() if not effect.held]
        version = context.cluster.releases[self.to].version
        because = f"the absence of each of {list(effects)} was noticed, and each restarted on {version}"
        if idle:
            because = f"{idle[0]}: {effects[idle[0]].because}"
        seen = {str(node): effect.recorded for node, effect in effects.items()}
        return Done(resolved={"nodes": list(effects), "to": version}, effect=EffectProof(not idle, because, seen))


@dataclass(frozen=True, slots=True)
class _Swapped:
    """missed: the proof that the absence was noticed. since: the node's log from the restart on."""

    missed: EffectProof
    since: LogSince


def _swap_broker(context: StepContext, node: int, to: str) -> _Swapped:
    with Terminate(node=f"broker({node})").active(context) as injection:
        missed = effect_of(injection.probe)
        since = LogSince(context.cluster.server_log(node))
        context.cluster.use_release(node, to)
    WaitHealthy().perform(context)
    return _Swapped(missed, since)


def _swap_controller(context: StepContext, node: int, to: str) -> _Swapped:
    """Active or not: the others commit without it, and it catches up with that before the next node is restarted."""
    busy = bool(under_load(context))
    before = context.admin.quorum()
    try:
        context.cluster.terminate(node)
        mark = controllers.committed_without(context, node, before, "which gets another release")
        since = LogSince(context.cluster.server_log(node))
        context.cluster.use_release(node, to)
    finally:
        restart(context, (node,))
    missed = wait_for(
        lambda: controllers.caught_up(context, node, mark, "was away"),
        until=lambda effect: effect.held,
        deadline_s=CAUGHT_UP_DEADLINE_S,
        what=f"controller {node} to catch up with what was committed without it",
        interval_s=0.1,
    )
    WaitHealthy().perform(context)
    return _Swapped(missed if busy else EffectProof(False, IDLE), since)


def _swap_proof(context: StepContext, node: int, before: str, swapped: _Swapped) -> EffectProof:
    """Proof: the absence of the node was noticed, and its own log names another release than before."""
    said = swapped.since.find(_VERSION)
    version, now = (said[1] if said else None), context.cluster.release_of(node).version
    seen = {**swapped.missed.seen, "release": [before, version], "since_ns": now_ns()}
    if not swapped.missed.held:
        return replace(swapped.missed, seen=seen)
    if before == now:
        return EffectProof(False, f"it already ran {now} before", seen)
    if version != now:
        return EffectProof(False, f"its log says that it runs {version} after {before}, not {now}", seen)
    return EffectProof(True, f"{swapped.missed.because}; its log says that it runs {version} after {before}", seen)
