"""Leadership that an operator moves to another in-sync replica, except to brokers that are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.operations.elect import elect_preferred
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import named
from harness.faults.steps.produce import transactional
from harness.faults.steps.step import Action, BrokersExpr, Done, EffectProof, PartitionsExpr, ProducerRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.transaction_phases import await_entry
from harness.kafka.admin.client import PartitionState
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.facts import FactKind
from harness.model.place import Place

DECIDED_S: Final = 30.0  # the longest wait for a transaction that begins to end


def next_order(state: PartitionState, without: tuple[int, ...]) -> list[int]:
    """The replicas, with the next leader first: an in-sync one that does not lead now.

    HarnessTimeout when there is none: an ISR shrinks by itself, so the step came too late, and the scenario is right.
    """
    able = [b for b in state.replicas if b in state.isr and b != state.leader and b not in without]
    if not able:
        raise HarnessTimeout(
            f"{state.topic}/{state.partition}: the ISR {sorted(state.isr)} has no other replica that can lead than the "
            f"leader {state.leader} and those left out ({', '.join(map(str, without)) or 'none'})"
        )
    return [able[0], *(b for b in state.replicas if b != able[0])]


def prepare(context: StepContext, places: list[Place], without: tuple[int, ...] = ()) -> dict[Place, list[int]]:
    """Makes another in-sync replica the preferred leader of each partition; returns leader and next leader of each.

    A preferred election then makes it the leader.
    """
    before = context.states(places)
    wanted: Mapping[Place, list[int]] = {place: next_order(before[place], without) for place in places}
    context.admin.reassign(wanted)
    return {place: [before[place].leader, order[0]] for place, order in wanted.items()}


def elect(context: StepContext, leaders: Mapping[Place, list[int]]) -> None:
    """Elects the preferred leaders that `prepare` returned, and waits until they lead."""
    elect_preferred(context, [*leaders], "the chosen leader")


@dataclass(frozen=True, kw_only=True)
class MoveLeaders(Action):
    """`without` names brokers that must not lead, such as "broker(3)" or "brokers(2, 3)".

    Where `producer` is named, markers of one of its transactions are on their way at the election.
    """

    do: ClassVar[str] = "move_leaders"
    # Without slow links markers arrive before an election ends.
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"without": ("",), "producer": ("",)}
    facts: ClassVar[Declares] = (Declared(FactKind.LEADERS_MOVED),)
    summary: ClassVar[str] = "Makes another in-sync replica the preferred leader of each partition, and elects it."
    proof: ClassVar[str] = (
        "the chosen replica leads; with `producer`: just before, the coordinator had begun to end a transaction of it"
    )
    internal: ClassVar[bool] = True
    disturbs: ClassVar[bool] = True
    on: PartitionsExpr
    without: BrokersExpr = ""
    producer: ProducerRef = ""

    def validate(self, plan: StepValidation) -> None:
        if self.producer:
            transactional(plan, self.producer)
        if alone := [t.name for t in plan.topics_of(self.on) if t.replicas == 1]:
            raise BadInput(f"on: {alone[0]} has one replica, so no other can lead; give it replicas = 2 or more")

    def perform(self, context: StepContext) -> Done:
        places = context.places(self.on)
        leaders = prepare(context, places, context.nodes(self.without) if self.without else ())
        seen = {f"{t}/{p}": {"leader": moved} for (t, p), moved in leaders.items()}
        # The slow part, which is over, would let the moment pass.
        effect = EffectProof(True, f"{named(places)} got another leader", seen)
        try:
            if self.producer:
                await_entry(context, self.producer, "decided", DECIDED_S)
        except HarnessTimeout as late:
            effect = EffectProof(False, f"no marker was on its way: {late}", seen)
        elect(context, leaders)
        return Done(resolved=seen, effect=effect)
