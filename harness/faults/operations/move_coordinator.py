"""The coordinator of a producer's transactions moves to other brokers, in every phase of a transaction."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.operations.move_leaders import elect, prepare
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.produce import transactional
from harness.faults.steps.step import Action, Done, EffectProof, ProducerRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.contract.internal_topics import TRANSACTIONS, state_partition
from harness.model.errors import HarnessTimeout
from harness.model.facts import FactKind
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for

# The phases, by Kafka's names of a transaction's states. In the second one the markers are on their way.
PHASES: Final[Mapping[str, frozenset[str]]] = {
    "open": frozenset({"Ongoing"}),
    "decided": frozenset({"PrepareCommit", "PrepareAbort"}),
    "ended": frozenset({"CompleteCommit", "CompleteAbort", "Empty"}),
}


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
            missed = _missed(context, asked, phase, until_s - time.monotonic())
            if missed is not None:
                why = f"the coordinator moved in {len(moved)} of {len(PHASES)} phases; {missed}"
                return Done(resolved={"moved": moved}, effect=EffectProof(False, why, {"moved": moved}))
            elect(context, leaders)
            moved[phase] = leaders[place]
        why = f"it moved while a transaction of {self.producer} was open, while it was decided, and after its end"
        return Done(resolved={"moved": moved}, effect=EffectProof(True, why, {"moved": moved}))


def _missed(context: StepContext, transactional_id: str, phase: str, deadline_s: float) -> str | None:
    """Why no transaction was seen in this phase; None as soon as there is one."""
    try:
        wait_for(
            lambda: {of.state for of in context.admin.transactions([transactional_id]).values()},
            until=lambda states: bool(states & PHASES[phase]),
            deadline_s=deadline_s,
            what=f"a transaction that is {phase}",
            interval_s=0.01,
        )
    except HarnessTimeout as missed:
        return str(missed)
    return None
