"""group_unsettled: a consumer group that its coordinator does not bring to rest, of which two members had one
partition at once, or from which it excluded a static member although no other client had its group.instance.id.

A coordinator that accepts another member with the group.instance.id of a static one excludes the former for good
(KIP-345). It must not forget which member it has accepted last (KAFKA-10284).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.contract.internal_topics import OFFSETS
from harness.model.documents.cluster import MemberRefused, OwnedTwice
from harness.model.documents.run import GroupLook
from harness.model.documents.steps import HeldFrame
from harness.model.doubt_names import DoubtName
from harness.model.facts import FactKind
from harness.model.finding import GROUP, Finding, Kind
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.steps import step_at
from harness.verify.engine.timelines import spans_of
from harness.verify.excuses.unclean_elections import may_have_forgotten
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

_JOINS: Final = ("JoinGroup", "ConsumerGroupHeartbeat")
_DELIVERED_LATE: Final = (FactKind.FROZEN, FactKind.LINKS_CUT, FactKind.LINKS_SLOW, FactKind.ANSWERS_LOST)
# A request that was sent again over another connection arrives no later than this after the links are whole.
_LATE_NS: Final = 60 * 10**9
# Several heartbeats of a member. Those of librdkafka may not name a partition that it has only just been assigned.
_REPORTED_NS: Final = 4 * 10**9


def _groups(known: Known) -> Addition:
    rest = _after_healing(known.case)
    refused = [*_excluded(known.case)]
    doubts = [*_gave_up(known.case), *rest.doubts]
    return Addition(findings=[*_owned_twice(known.case), *refused, *rest.findings], doubts=doubts)


def _owned_twice(case: Case) -> Iterator[Finding]:
    """One finding for each group, about the first partition that a member still had when another one got it.

    Not where the former member had only just got it: its client may have reported that it has nothing yet."""
    by_group: dict[str, list[OwnedTwice]] = {}
    for row in case.cluster.owned_twice:
        if row.held_ns is not None and row.from_ns >= row.held_ns + _REPORTED_NS:
            by_group.setdefault(row.group, []).append(row)
    for group, (first, *_) in by_group.items():
        yield Finding(
            kind=Kind.GROUP_UNSETTLED,
            reader=f"{GROUP} {group}",
            count=len(by_group[group]),
            first_ns=first.from_ns,
            last_ns=first.until_ns,
            step=step_at(case.steps, first.from_ns),
            detail=(
                f"member {first.next_member} of group {group} got {first.topic}/{first.partition} "
                f"{(first.until_ns - first.from_ns) / 10**9:.2f} s before member {first.member} gave it up, which was "
                "asked to and had not lost it"
            ),
            contract=promise(Kind.GROUP_UNSETTLED, None, None, case.contract),
        )


def _excluded(case: Case) -> Iterator[Finding]:
    """One finding for each static member that was excluded although no step started another client in its place. A
    coordinator may have lost which client it accepted last, or receive a request of an earlier one late."""
    forgotten = may_have_forgotten(case, OFFSETS)
    for row in case.cluster.members_refused or ():
        if row.static and not (forgotten or _joined_late(case, row) or _replaced(case, row)):
            yield Finding(
                kind=Kind.GROUP_UNSETTLED,
                reader=f"{GROUP} {row.group}",
                count=1,
                first_ns=row.since_ns,
                last_ns=row.at_ns,
                step=step_at(case.steps, row.at_ns),
                detail=(
                    f"static member {row.member} of group {row.group} was excluded, and no other client had its "
                    f"group.instance.id since it was started {(row.at_ns - row.since_ns) / 10**9:.1f} s before; "
                    f"its client said: {row.error}"
                ),
                contract=promise(Kind.GROUP_UNSETTLED, None, None, case.contract),
            )


def _gave_up(case: Case) -> Iterator[Doubt]:
    """One doubt for each member without a group.instance.id of which the client gave up: no rule names the cause."""
    for row in case.cluster.members_refused or ():
        if not row.static:
            text = f"the client of member {row.member} of group {row.group} gave up for good: {row.error}"
            yield Doubt(DoubtName.UNATTRIBUTED, text)


def _joined_late(case: Case, row: MemberRefused) -> bool:
    """Whether a coordinator may have received an earlier request to join after that of the present client."""
    held = (event for event, _ in case.events(HeldFrame) if event.api in _JOINS)
    if any(event.group in (None, row.group) for event in held):
        return True
    late = spans_of(case, None, lambda fact: fact.kind in _DELIVERED_LATE)
    return any(span.touches(row.since_ns - _LATE_NS, row.at_ns) for span in late)


def _replaced(case: Case, row: MemberRefused) -> bool:
    """Whether a step may have started or stopped the member, or others of its group, after its client began."""
    facts = (fact for step in case.steps for fact in step.facts if fact.from_ns >= row.since_ns)
    return any(fact.client in (row.member, row.group) for fact in facts)


def _after_healing(case: Case) -> Addition:
    """Nothing without a wait, or for a run that ended before the wait was over."""
    waited = case.run.groups_at_rest
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
    promise="Each partition of a group has one member at a time, and after healing every group comes to rest.",
    kinds={
        Kind.GROUP_UNSETTLED: Introduced(
            promise="a group whose members all run becomes stable and assigns each partition to one of them (KIP-848)"
        )
    },
    adds=_groups,
    order=Order(findings=12, doubts=57),
    planted=(
        "group_unsettled",
        "near_group_unsettled_for_a_while",
        "near_group_unsettled_with_a_node_down",
        "doubt_group_unsettled_for_its_members",
        "group_unsettled_assigned_twice",
        "group_unsettled_owned_twice",
        "near_group_unsettled_owned_twice_at_first",
        "group_unsettled_without_a_static_member",
        "group_unsettled_while_commits_are_held",
        "near_group_unsettled_without_a_member_that_steps_replaced",
        "near_group_unsettled_while_a_broker_was_frozen",
        "near_group_unsettled_while_joins_are_held",
        "near_group_unsettled_assigned_twice_by_a_member",
    ),
)
