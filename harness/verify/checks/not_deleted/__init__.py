"""not_deleted: a replica, or the remote tier, keeps segments that retention should have deleted long before, or that
are below a log start that DeleteRecords moved; or a broker keeps a replica that a reassignment took away, or
the tier a deleted topic (`strays.py`).

A replica that has stopped to delete has all records, so no reader notices it, and its disk fills up. Kafka looks for
deletable segments every log.retention.check.interval.ms, from the oldest one on, and never deletes the newest one.
Leaders look into the remote tier every remote.log.manager.task.interval.ms. Only segments count that were due before a
quiet time at the end of the run, in which no step disturbed anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from harness.model.finding import Finding, Kind
from harness.verify.addition import Addition, Order
from harness.verify.checks.not_deleted.due import Limits, due_in_tier, due_on_disks
from harness.verify.checks.not_deleted.in_tier import copied_until, segments_in_tier
from harness.verify.checks.not_deleted.on_disks import ON_DISKS, of_replicas
from harness.verify.checks.not_deleted.segments import Segment, overdue
from harness.verify.checks.not_deleted.strays import abandoned, strays
from harness.verify.checks.tier.state import TIERS, Tier
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.tables import UNBOUNDED
from harness.verify.promise import Check, Introduced, Settings
from harness.verify.sentences import promise


def _everywhere(known: Known) -> Addition:
    case, tier = known.case, known.of(TIERS)
    found = [*_on_disks(case, known.of(ON_DISKS), tier), *_in_tier(case, tier)]
    found += [*strays(case), *abandoned(case, tier)]
    return Addition(findings=found)


def _on_disks(case: Case, segments: Sequence[Segment], tier: Tier) -> Iterator[Finding]:
    due = case.once(due_on_disks)
    states = {(p.topic, p.topic_id, p.partition): p for p in case.last_partitions}
    for of_one in _logs(of_replicas(states, segments)):
        place, broker = of_one[0].place, of_one[0].broker
        limits, state = due[place[0]], states[place]
        start = next(log.log_start for log in state.logs if log.broker == broker)
        deleted = limits.deleted.get(place[2], 0)
        tiered = case.contract.topics[place[0]].tiered
        until = copied_until(tier, place, state.leader, limits.by_ms) if tiered else UNBOUNDED
        # A replica that does not know of the deletion is a finding of log_start.
        yield from _late(case, of_one, limits, deleted if start >= deleted else 0, until)


def _in_tier(case: Case, tier: Tier) -> Iterator[Finding]:
    due = case.once(due_in_tier)
    for of_one in _logs(segments_in_tier(case, tier)):
        topic, _, partition = of_one[0].place
        yield from _late(case, of_one, due[topic], due[topic].deleted.get(partition, 0), UNBOUNDED)


def _logs(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    for _, of_one in groupby(sorted(segments), key=lambda one: (one.place, one.broker)):
        yield list(of_one)


def _late(case: Case, of_one: Sequence[Segment], limits: Limits, deleted: int, until: int) -> Iterator[Finding]:
    if late := list(overdue(of_one, limits, deleted=deleted, until=until)):
        yield _finding(case, limits, late, len(of_one))


def _finding(case: Case, limits: Limits, late: Sequence[Segment], of: int) -> Finding:
    first, last = late[0], late[-1]
    topic, topic_id, partition = first.place
    ended_ms = (case.last_snapshot.at_ns if case.last_snapshot else 0) // 10**6
    return Finding(
        kind=Kind.NOT_DELETED,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        reader=first.held_by,
        offset_first=first.base,
        offset_last=last.last,
        count=last.last - first.base + 1,
        detail=(
            f"{first.held_by} still has {len(late)} of {of} segments that were due for deletion more than "
            f"{(ended_ms - limits.by_ms) // 1000} s before, and nothing disturbed it since"
        ),
        contract=promise(Kind.NOT_DELETED, topic, None, case.contract),
    )


def _by_settings(settings: Settings) -> str:
    said = "each replica, and the remote tier, deletes the segments that retention has ended for"
    return settings.with_retention(said)


CHECK: Final = Check(
    promise="Every replica, and the remote tier, deletes what neither retention nor the log start keeps any longer.",
    kinds={Kind.NOT_DELETED: Introduced(promise=_by_settings)},
    on_driver=(ON_DISKS,),
    adds=_everywhere,
    order=Order(findings=14),
    planted=(
        "not_deleted",
        "not_deleted_by_size",
        "not_deleted_in_the_tier",
        "near_not_deleted_and_not_the_oldest",
        "near_not_deleted_and_not_due",
        "near_not_deleted_with_a_late_step",
        "near_not_deleted_in_the_tier_and_not_due",
        "not_deleted_after_a_reassignment",
        "near_not_deleted_just_after_a_reassignment",
        "not_deleted_with_its_topic",
        "near_not_deleted_with_its_topic_and_a_late_step",
    ),
)
