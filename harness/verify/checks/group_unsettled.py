"""group_unsettled: a consumer group that its coordinator does not bring to rest."""

from __future__ import annotations

from typing import Final

from harness.model.documents.run import GroupLook
from harness.model.doubt_names import DoubtName
from harness.model.finding import GROUP, Finding, Kind
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise


def _after_healing(known: Known) -> Addition:
    """Nothing without a wait, or for a run that ended before the wait was over."""
    case, waited = known.case, known.case.run.groups_at_rest
    if waited is None:
        return Addition()
    twice = [_twice(case, look) for look in waited.assigned_twice if look.by_coordinator]
    if not case.in_vain(waited):
        return Addition(findings=twice)
    if not case.nodes_were_up:
        text = f"it is unknown whether every group came to rest, because a node was not running: {waited.last_seen}"
        return Addition(findings=twice, doubts=[Doubt(DoubtName.UNATTRIBUTED, text)])
    waited_s, named = waited.waited_s or 0, {look.group for look in waited.assigned_twice if look.by_coordinator}
    unsettled = [look for look in waited.unsettled if not look.assigned and look.group not in named]
    return Addition(
        findings=[*twice, *(_finding(case, look, waited_s) for look in unsettled)],
        doubts=[_doubt(look, waited_s) for look in waited.unsettled if look.assigned],
    )


def _twice(case: Case, look: GroupLook) -> Finding:
    """One answer of a coordinator that computes the assignment: it gives away no partition that a member still has."""
    return Finding(
        kind=Kind.GROUP_UNSETTLED,
        reader=f"{GROUP} {look.group}",
        count=look.assigned_twice,
        detail=(
            f"the coordinator of group {look.group}, which was {look.state}, reported {look.assigned_twice} partitions "
            "as assigned to several members at once, and it assigns them itself"
        ),
        contract=promise(Kind.GROUP_UNSETTLED, None, None, case.contract),
    )


def _finding(case: Case, look: GroupLook, waited_s: float) -> Finding:
    parts = {
        "no member": look.unassigned,
        "several members": look.assigned_twice,
        "members that do not run": look.of_nobody,
    }
    wrong = ", ".join(f"{count} partitions have {whom}" for whom, count in parts.items() if count)
    return Finding(
        kind=Kind.GROUP_UNSETTLED,
        reader=f"{GROUP} {look.group}",
        count=max(1, sum(parts.values())),
        detail=(
            f"{waited_s:g} s after healing group {look.group} is {look.state or 'not reported by any coordinator'}"
            f"{': ' if wrong else ''}{wrong}"
        ),
        contract=promise(Kind.GROUP_UNSETTLED, None, None, case.contract),
    )


def _doubt(look: GroupLook, waited_s: float) -> Doubt:
    return Doubt(
        DoubtName.UNATTRIBUTED,
        f"{waited_s:g} s after healing the coordinator has assigned every partition of group {look.group}, while its "
        f"members report another assignment of {look.differing} partitions, and {look.unknown_members} of them are "
        "unknown to it; the evidence does not show whether the release or the client caused it",
    )


CHECK: Final = Check(
    promise="After healing, every consumer group comes to rest, and each partition has one member that runs.",
    kinds={
        Kind.GROUP_UNSETTLED: Introduced(
            promise="a group whose members all run becomes stable and assigns each partition to one of them (KIP-848)"
        )
    },
    adds=_after_healing,
    order=Order(findings=12, doubts=57),
    planted=(
        "group_unsettled",
        "near_group_unsettled_for_a_while",
        "near_group_unsettled_with_a_node_down",
        "doubt_group_unsettled_for_its_members",
        "group_unsettled_assigned_twice",
        "near_group_unsettled_assigned_twice_by_a_member",
    ),
)
