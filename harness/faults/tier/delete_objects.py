"""Objects that are deleted from the remote tier past the brokers: records that only the tier has are lost (KIP-405)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Action, Done, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.faults.tier.common import local_starts, require_tier_folder, store_of
from harness.faults.tier.tier_served import whole_logs
from harness.kafka.storage.local_tier import objects_of
from harness.model.clock import now_ns
from harness.model.documents.steps import ObjectsDeleted
from harness.model.errors import HarnessFailure
from harness.model.facts import FactKind
from harness.model.place import Place
from harness.model.scenario.scenario import Count
from harness.model.scenario.tier_rules import DELETE_OBJECTS


@dataclass(frozen=True, kw_only=True)
class DeleteObjects(Action):
    """They are not restored. An event `objects_deleted` records the offsets of each deleted segment, and the lowest
    local log start offset of the replicas at that time."""

    do: ClassVar[str] = DELETE_OBJECTS
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_OBJECTS_CHANGED),)
    summary: ClassVar[str] = (
        "Deletes all objects of the newest `segments` segments of a partition in the remote tier, past the brokers."
    )
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read", "disk.write"})
    of: PartitionExpr
    segments: Count = 1

    def validate(self, plan: StepValidation) -> None:
        require_tier_folder(plan, self.do, [plan.topic(place_of(self.of)[0])])

    def perform(self, context: StepContext) -> Done:
        place, store = place_of(self.of), store_of(context)
        logs = whole_logs(store, place)
        bases = sorted({one.base_offset for one, _ in logs})[-self.segments :]
        if len(bases) < self.segments:
            where = f"{place[0]}-{place[1]}"
            raise HarnessFailure(f"only {len(bases)} of {self.segments} segments of {where} are in the remote tier")
        # Read before the deletion: what a replica deletes locally afterwards is its own doing.
        local_start = local_starts(context, [place])[place]
        names = _delete(store, place, bases)
        for one, batches in logs:
            if one.base_offset in bases:
                context.record_event(
                    ObjectsDeleted(
                        topic=place[0],
                        partition=place[1],
                        at_ns=now_ns(),
                        segment_id=one.segment_id,
                        base_offset=one.base_offset,
                        last_offset=batches[-1].last_offset,
                        local_start=local_start,
                    )
                )
        return Done(resolved={"objects": names, "local_start": local_start})


def _delete(store: Path, place: Place, bases: Collection[int]) -> list[str]:
    """Deletes the objects of the segments with these base offsets; returns their names."""
    found = [one for one in objects_of(store, [place[0]]) if one.partition == place[1] and one.base_offset in bases]
    for one in found:
        one.path.unlink(missing_ok=True)
    return [one.path.name for one in found]
