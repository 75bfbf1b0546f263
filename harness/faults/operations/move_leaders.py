"""Leadership moved on purpose to a replica that neither leads nor is one that is to be left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.operations.elect import await_leaders
from harness.faults.steps.effect import named
from harness.faults.steps.step import Action, BrokersExpr, Done, EffectProof, PartitionsExpr, PartitionView, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput, HarnessTimeout


def next_order(state: PartitionView, without: tuple[int, ...]) -> list[int]:
    """The replicas, first the one in sync that shall lead; HarnessTimeout where nobody is left to lead, since
    ISRs shrink by themselves: that is a step that came too late, not a mistake in the scenario."""
    able = [b for b in state.replicas if b in state.isr and b != state.leader and b not in without]
    if not able:
        raise HarnessTimeout(
            f"{state.topic}/{state.partition}: of the ISR {sorted(state.isr)} nobody but the leader {state.leader} and "
            f"those left out ({', '.join(map(str, without)) or 'none'}) can lead"
        )
    return [able[0], *(b for b in state.replicas if b != able[0])]


@dataclass(frozen=True, kw_only=True)
class MoveLeaders(Action):
    """Makes another replica the preferred one and elects it; `without` names brokers that shall not lead."""

    do: ClassVar[str] = "move_leaders"
    internal: ClassVar[bool] = True
    disturbs: ClassVar[bool] = True
    on: PartitionsExpr
    without: BrokersExpr = ""

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if alone := [t.name for t in plan.topics_of(self.on) if t.replicas == 1]:
            raise BadInput(f"on: {alone[0]} has one replica, which leads already; give it replicas = 2 or more")

    def perform(self, stage: Stage) -> Done:
        places = stage.places(self.on)
        left_out = stage.nodes(self.without) if self.without else ()
        before = stage.states(places)
        wanted: Mapping[Place, list[int]] = {p: next_order(before[p], left_out) for p in places}
        stage.admin.reassign(wanted)
        stage.admin.elect_leaders("preferred", places)
        after = await_leaders(stage, places, lambda s: s.leader == wanted[s.topic, s.partition][0], "the chosen leader")
        seen = {f"{t}/{p}": {"leader": [before[t, p].leader, s.leader]} for (t, p), s in after.items()}
        return Done(resolved=seen, effect=EffectProof(True, f"{named(places)} were given another leader", seen))
