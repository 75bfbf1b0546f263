"""Reassignments that ended although some of their replicas were not in sync.

The controllers end a reassignment, and give up the replicas that it removes, when the added ones are in the ISR. If it
removes more than it adds, those that stay are to be in it, too (maybeCompleteReassignment in
PartitionReassignmentReplicas; before 4.0 in any case). One that is cancelled gives up the added replicas instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.finding import Finding, Kind
from harness.model.history.changes import PartitionChange
from harness.model.history.history import History
from harness.verify.engine.case import Case
from harness.verify.engine.steps import step_at
from harness.verify.sentences import promise


def ended_out_of_sync(case: Case, history: History) -> Iterator[Finding]:
    """One finding for each such end."""
    states: dict[tuple[str, int], PartitionChange] = {}
    for row in history.of(PartitionChange):
        before = states.get((row.topic_id, row.partition))
        states[row.topic_id, row.partition] = row
        if before is not None and not row.from_snapshot and _ends(before, row):
            needed = row.replicas if len(before.adding) < len(before.removing) else before.adding
            if missing := sorted({*needed} - {*row.isr}):
                yield _finding(case, before, row, missing)


def _ends(before: PartitionChange, after: PartitionChange) -> bool:
    """Whether a reassignment is over and was not cancelled."""
    over = bool(before.adding or before.removing) and not (after.adding or after.removing)
    return over and {*after.replicas} == {*before.replicas} - {*before.removing}


def _finding(case: Case, before: PartitionChange, after: PartitionChange, missing: list[int]) -> Finding:
    return Finding(
        kind=Kind.NOT_IN_SYNC,
        topic=after.topic,
        topic_id=after.topic_id,
        partition=after.partition,
        first_ns=after.time_ns,
        last_ns=after.time_ns,
        step=step_at(case.steps, after.time_ns),
        reader=", ".join(f"broker {broker}" for broker in missing),
        detail=(
            f"a reassignment to the replicas {sorted(after.replicas)}, which added {sorted(before.adding)} and gave up "
            f"{sorted(before.removing)}, ended at offset {after.offset} of the metadata log with the ISR "
            f"{sorted(after.isr)}"
        ),
        contract=promise(Kind.NOT_IN_SYNC, after.topic, None, case.contract),
    )
