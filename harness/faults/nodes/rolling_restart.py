"""One broker after the other goes down and comes back, as in every upgrade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from harness.faults.nodes.kill import Kill
from harness.faults.nodes.terminate import Terminate
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import Action, BrokersExpr, Done, EffectProof
from harness.faults.steps.step_context import Stage
from harness.faults.steps.waits import WaitHealthy
from harness.model.errors import HarnessTimeout
from harness.model.waiting import wait_for

_HOW: dict[str, type[Terminate] | type[Kill]] = {"terminate": Terminate, "kill": Kill}
BITE_DEADLINE_S = 20.0


@dataclass(frozen=True, kw_only=True)
class RollingRestart(Action):
    """Stops and starts nodes one by one, waiting for every ISR to be full before the next."""

    do: ClassVar[str] = "rolling_restart"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "terminate", "restart"})
    disturbs: ClassVar[bool] = True
    node: BrokersExpr = "brokers"
    how: Literal["terminate", "kill"] = "terminate"

    def perform(self, stage: Stage) -> Done:
        bites: dict[int, EffectProof] = {}
        for node in stage.nodes(self.node):
            with _HOW[self.how](node=f"broker({node})").active(stage) as injection:
                bites[node] = effect_of(injection.probe)
            WaitHealthy().perform(stage)
            stage.log(f"broker {node} is back; {bites[node].because}")
        idle = [node for node, effect in bites.items() if not effect.held]
        seen: dict[str, Any] = {str(node): effect.as_dict() for node, effect in bites.items()}
        because = f"nobody felt that {idle} was away" if idle else f"each of {sorted(bites)} was missed while away"
        return Done(resolved={"nodes": list(bites)}, effect=EffectProof(not idle, because, seen))


def effect_of(probe: Probe) -> EffectProof:
    """The bite of a node that is away, waited for within a bound."""
    try:
        return wait_for(probe, until=lambda b: b.held, deadline_s=BITE_DEADLINE_S, what="a bite", interval_s=0.1)
    except HarnessTimeout:
        return probe()
