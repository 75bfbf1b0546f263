"""tier_lag: closed segments that a leader does not copy to the remote tier."""

from __future__ import annotations

from typing import Final

from harness.model.documents.run import TierLag
from harness.model.doubt_names import DoubtName
from harness.model.finding import Finding, Kind
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise


def _after_the_load(known: Known) -> Addition:
    """Nothing without a tier, or for a run that ended before the wait was over. With a node down, a leader need not
    copy."""
    case, waited = known.case, known.case.run.tier_at_rest
    if waited is None or not case.in_vain(waited):
        return Addition()
    behind = waited.behind if case.nodes_were_up else ()
    return Addition(
        findings=[_finding(case, lag) for lag in behind],
        doubts=[Doubt(DoubtName.TIER_UNFILLED, waited.last_seen)],
    )


def _finding(case: Case, lag: TierLag) -> Finding:
    missing = lag.closed_end - lag.tiered_end
    return Finding(
        kind=Kind.TIER_LAG,
        topic=lag.topic,
        topic_id=lag.topic_id,
        partition=lag.partition,
        offset_first=lag.tiered_end,
        offset_last=lag.closed_end - 1,
        count=missing,
        detail=(
            f"after the load broker {lag.leader} led the partition and copied nothing for {lag.still_s:g} s, although "
            f"its closed segments have {missing} offsets that are not in the remote tier"
        ),
        contract=promise(Kind.TIER_LAG, lag.topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="After healing, leaders copy every closed segment of a tiered topic to the remote tier.",
    kinds={
        Kind.TIER_LAG: Introduced(
            promise="a leader copies closed segments below the last stable offset to the remote tier (KIP-405)"
        )
    },
    adds=_after_the_load,
    order=Order(findings=14, doubts=58),
    planted=("tier_lag", "near_tier_lag_with_progress", "near_tier_lag_with_a_node_down"),
)
