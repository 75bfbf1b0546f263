"""cleaner_lag: closed segments that a cleaner does not compact, as after one that pauses a partition for ever."""

from __future__ import annotations

from typing import Final

from harness.model.documents.run import CleanerLag
from harness.model.doubt_names import DoubtName
from harness.model.facts import FactKind
from harness.model.finding import Finding, Kind
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

# A cleaner passes over a partition for good of which it cannot read or write the log.
_UNCLEANABLE: Final = frozenset(
    {FactKind.DISK_DAMAGED, FactKind.DISK_FAILED, FactKind.DISK_FILLED, FactKind.DATA_LOST, FactKind.CLOCK_CHANGED}
)


def _after_the_load(known: Known) -> Addition:
    """Nothing for a run that ended before the wait was over, or where disks that faults had harmed explain all of it.
    With a node down, its replicas need not be compacted."""
    case, waited = known.case, known.case.run.cleaners_at_rest
    if waited is None or not case.in_vain(waited):
        return Addition()
    stalled = [lag for lag in waited.behind if not _is_harmed(case, lag)]
    if waited.behind and not stalled:
        return Addition()
    findings = [_finding(case, lag) for lag in stalled] if case.nodes_were_up else []
    return Addition(findings=findings, doubts=[Doubt(DoubtName.UNCOMPACTED, waited.last_seen)])


def _is_harmed(case: Case, lag: CleanerLag) -> bool:
    facts = (fact for step in case.steps for fact in step.facts if fact.kind in _UNCLEANABLE)
    return any(fact.concerns(lag.broker) for fact in facts)


def _finding(case: Case, lag: CleanerLag) -> Finding:
    return Finding(
        kind=Kind.CLEANER_LAG,
        topic=lag.topic,
        topic_id=lag.topic_id,
        partition=lag.partition,
        reader=f"broker-{lag.broker}",
        detail=(
            f"after the load the cleaner of broker {lag.broker} compacted nothing of the partition for "
            f"{lag.still_s:g} s, although its closed segments end at {lag.closed_end} and it has compacted those "
            f"below {lag.cleaned_end} only"
        ),
        contract=promise(Kind.CLEANER_LAG, lag.topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="After the load, every replica of a compacted topic compacts the closed segments that are due.",
    kinds={
        Kind.CLEANER_LAG: Introduced(
            promise="a replica compacts closed segments once their share of its log is above min.cleanable.dirty.ratio"
        )
    },
    adds=_after_the_load,
    order=Order(findings=14, doubts=58),
    planted=("cleaner_lag", "near_cleaner_lag_with_progress", "near_cleaner_lag_with_a_node_down"),
)
