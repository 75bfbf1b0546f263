"""The coordinator of a producer's transactions moves to other brokers, in every phase of a transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.operations.move_leaders import elect, prepare
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.produce import transactional
from harness.faults.steps.step import Action, Done, EffectProof, ProducerRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.transaction_phases import Phase, await_phase
from harness.model.contract.internal_topics import TRANSACTIONS, state_partition
from harness.model.errors import HarnessTimeout
from harness.model.facts import FactKind
from harness.model.scenario.scenario import Deadline

PHASES: Final[tuple[Phase, ...]] = ("open", "decided", "ended")


@dataclass(frozen=True, kw_only=True)
class MoveCoordinator(Action):
    """One move for each phase. Far replicas make a phase last longer than the election."""

    do: ClassVar[str] = "move_coordinator"
    facts: ClassVar[Declares] = (Declared(FactKind.LEADERS_MOVED),)
    summary: ClassVar[str] = (
        "Moves the coordinator of a producer's transactions while one is open, while it is being ended, and after that."
    )
    proof: ClassVar[str] = "just before each move the coordinator reported the transaction in that phase"
    disturbs: ClassVar[bool] = True
    producer: ProducerRef
    deadline_s: Deadline = 60.0

    def shared(self) -> str:
        return f"the replicas of {TRANSACTIONS}"

    def validate(self, plan: StepValidation) -> None:
        transactional(plan, self.producer)

    def perform(self, context: StepContext) -> Done:
        asked = context.transactional_id(self.producer)
        internal = {topic.name: topic.partitions for topic in context.internal}
        place = (TRANSACTIONS, state_partition(asked, internal[TRANSACTIONS]))
        until_s = time.monotonic() + self.deadline_s
        moved: dict[str, list[int]] = {}
        for phase in PHASES:
            leaders = prepare(context, [place])  # the slow part comes before the wait for the phase
            try:
                await_phase(context, self.producer, phase, until_s - time.monotonic())
            except HarnessTimeout as missed:
                why = f"the coordinator moved in {len(moved)} of {len(PHASES)} phases; {missed}"
                return Done(resolved={"moved": moved}, effect=EffectProof(False, why, {"moved": moved}))
            elect(context, leaders)
            moved[phase] = leaders[place]
        why = f"it moved while a transaction of {self.producer} was open, while it was decided, and after its end"
        return Done(resolved={"moved": moved}, effect=EffectProof(True, why, {"moved": moved}))
