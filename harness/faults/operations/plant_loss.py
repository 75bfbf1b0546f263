"""A loss that the harness plants: the proof that a loss reaches the verdict and the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.faults.steps.declared_facts import NOTHING, Declares
from harness.faults.steps.step import Action, Done, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.targets import place_of


@dataclass(frozen=True, kw_only=True)
class PlantLoss(Action):
    """DeleteRecords (KIP-107) that no fact and no event records: for the verifier, acknowledged records are lost."""

    do: ClassVar[str] = "plant_loss"
    facts: ClassVar[Declares] = NOTHING
    by_hand: ClassVar[str] = "only planted episodes have it, and those are FAIL on purpose"
    summary: ClassVar[str] = (
        "Deletes the older half of a partition's records and hides it from the verifier, so that the run must be FAIL."
    )
    on: PartitionExpr

    def perform(self, context: StepContext) -> Done:
        place = place_of(self.on)
        state = context.states([place])[place]
        start, end = context.admin.replica_offsets([place[0]])[*place, state.leader]
        before = start + (end - start) // 2
        context.admin.delete_records({place: before})
        return Done(resolved={self.on: before})
