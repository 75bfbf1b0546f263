"""A rolling restart: one broker after the other stops and starts, as in every upgrade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.faults.nodes.kill import Kill
from harness.faults.nodes.terminate import Terminate
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import Action, BrokersExpr, Done, EffectProof
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.waits import WaitHealthy
from harness.model.errors import HarnessTimeout
from harness.model.facts import FactKind, Stop
from harness.model.waiting import wait_for

_HOW: dict[str, type[Terminate] | type[Kill]] = {"terminate": Terminate, "kill": Kill}
EFFECT_DEADLINE_S = 20.0


@dataclass(frozen=True, kw_only=True)
class RollingRestart(Action):
    """`how`: by SIGTERM or by SIGKILL."""

    do: ClassVar[str] = "rolling_restart"
    facts: ClassVar[Declares] = (Declared(FactKind.STOPPED),)
    summary: ClassVar[str] = "Stops and starts brokers one by one, and waits for full ISRs before the next."
    proof: ClassVar[str] = "the absence of each broker shows as for `kill`"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "terminate", "restart"})
    disturbs: ClassVar[bool] = True
    node: BrokersExpr = "brokers"
    how: Literal["terminate", "kill"] = "terminate"

    def declared(self) -> Declares:
        how = Stop.KILLED if self.how == "kill" else Stop.CLEANLY
        return (Declared(FactKind.STOPPED, how=how),)

    def perform(self, context: StepContext) -> Done:
        effects: dict[int, EffectProof] = {}
        for node in context.nodes(self.node):
            fault = _HOW[self.how](node=f"broker({node})")
            with context.stopping(node), fault.active(context) as injection:
                effects[node] = effect_of(injection.probe)
            WaitHealthy().perform(context)
            context.log(f"broker {node} has restarted; {effects[node].because}")
        idle = [node for node, effect in effects.items() if not effect.held]
        seen = {str(node): effect.recorded for node, effect in effects.items()}
        because = f"the absence of each of {sorted(effects)} was noticed"
        if idle:
            because = f"nothing shows the absence of {idle}"
        return Done(resolved={"nodes": list(effects)}, effect=EffectProof(not idle, because, seen))


def effect_of(probe: Probe) -> EffectProof:
    """The proof of a probe, once it holds or its deadline is over."""
    try:
        return wait_for(probe, until=lambda e: e.held, deadline_s=EFFECT_DEADLINE_S, what="an effect", interval_s=0.1)
    except HarnessTimeout:
        return probe()
