"""Somebody deletes objects of the remote tier, past the brokers: what the tier alone had is gone (KIP-405)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.faults.steps.step import Action, Done, PartitionExpr, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.targets import place_of
from harness.faults.tier.common import begins, foresee_folder, store_of
from harness.faults.tier.tier_served import whole_logs
from harness.kafka.storage.local_tier import objects_of
from harness.model.errors import HarnessFailure
from harness.model.scenario.scenario import Count
from harness.model.scenario.tier_rules import DELETE_OBJECTS


@dataclass(frozen=True, kw_only=True)
class DeleteObjects(Action):
    """Deletes every object of the newest `segments` that a partition has in the remote tier, for good, past the
    brokers. Each deleted copy is told with the offsets of its log, and from where on some replica had them itself."""

    do: ClassVar[str] = DELETE_OBJECTS
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read", "disk.write"})
    of: PartitionExpr
    segments: Count = 1

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_folder(plan, self.do, [plan.topic(place_of(self.of)[0])])

    def perform(self, stage: Stage) -> Done:
        place, store = place_of(self.of), store_of(stage)
        logs = whole_logs(store, place)
        bases = sorted({one.base_offset for one, _ in logs})[-self.segments :]
        if len(bases) < self.segments:
            where = f"{place[0]}-{place[1]}"
            raise HarnessFailure(f"{len(bases)} of {self.segments} segments of {where} are in the remote tier")
        # Before they go: where a replica drops its own afterwards, that is its doing.
        local_start = begins(stage, [place])[place]
        names = _delete(store, place, bases)
        for one, batches in logs:
            if one.base_offset in bases:
                stage.record_event(
                    "objects_deleted",
                    topic=place[0],
                    partition=place[1],
                    segment_id=one.segment_id,
                    base_offset=one.base_offset,
                    last_offset=batches[-1].last_offset,
                    local_start=local_start,
                )
        return Done(resolved={"objects": names, "local_start": local_start})


def _delete(store: Path, place: Place, bases: Collection[int]) -> list[str]:
    """The names of what was there of the segments that begin so."""
    found = [one for one in objects_of(store, [place[0]]) if one.partition == place[1] and one.base_offset in bases]
    for one in found:
        one.path.unlink(missing_ok=True)
    return [one.path.name for one in found]
