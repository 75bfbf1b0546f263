"""DeleteRecords: a client deletes the oldest records of a partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Action, Done, PartitionsExpr
from harness.faults.steps.step_context import StepContext
from harness.model.clock import now_ns
from harness.model.contract.contract import DELETE_RECORDS
from harness.model.documents.steps import RecordsDeleted
from harness.model.facts import FactKind
from harness.model.scenario.rules import cleanup_policy
from harness.model.scenario.scenario import Range, Scenario


@dataclass(frozen=True, kw_only=True)
class DeleteRecords(Action):
    """DeleteRecords (KIP-107). An event records the offset before which each partition's records are deleted."""

    do: ClassVar[str] = DELETE_RECORDS
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"share": (0.25, 0.9)}
    facts: ClassVar[Declares] = (Declared(FactKind.RECORDS_DELETED),)
    summary: ClassVar[str] = "Deletes the oldest `share` of the records of each partition (KIP-107)."
    on: PartitionsExpr = ()
    share: Annotated[float, Range(0.001, 1)] = 0.5

    @classmethod
    def drawn_in(cls, scenario: Scenario, chosen: Mapping[str, object]) -> Mapping[str, tuple[object, ...]]:
        """Brokers refuse it for a topic that is only compacted."""
        kept = [
            t.name for t in scenario.topics if t.name in scenario.fed and cleanup_policy(t, scenario.shape) != "compact"
        ]
        return {**super().drawn_in(scenario, chosen), "on": tuple((f"{name}/*",) for name in kept)}

    def perform(self, context: StepContext) -> Done:
        places = context.places(self.on)
        offsets = context.admin.replica_offsets(sorted({t for t, _ in places}))
        before = {}
        for (topic, partition), state in context.states(places).items():
            start, end = offsets[topic, partition, state.leader]
            before[topic, partition] = start + int((end - start) * self.share)
        context.admin.delete_records(before)
        for (topic, partition), offset in before.items():
            deleted = RecordsDeleted(topic=topic, partition=partition, before_offset=offset, at_ns=now_ns())
            context.record_event(deleted)
        return Done(resolved={f"{t}/{p}": offset for (t, p), offset in before.items()})
