"""The segments in the remote tier (KIP-405). The leader deletes them, from the oldest one on, the newest one too.

It counts the whole log for retention by size; here only copies count, which is less. A partition in which segments were
deleted in the quiet time is not judged: the leader may have many to delete. It deletes only segments with its own
leader epochs, and those below its log start that have no later epoch than its first one.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.verify.checks.not_deleted.due import due_in_tier
from harness.verify.checks.not_deleted.segments import Segment
from harness.verify.checks.tier.state import FINISHED, Lineage, Partition, Tier, agreed, last_look, lineage_of
from harness.verify.checks.tier.state import Segment as Copied
from harness.verify.engine.case import NO_BROKER, Case, Place
from harness.verify.engine.tables import UNBOUNDED


def segments_in_tier(case: Case, tier: Tier) -> list[Segment]:
    """The whole copies of the partitions with something due, up to the first one that was finished in the quiet time.
    None if a metadata record cannot be read: it may report that they were deleted."""
    due, found = case.once(due_in_tier), list[Segment]()
    for state in case.last_partitions if due and not tier.unreadable else ():
        place = (state.topic, state.topic_id, state.partition)
        if state.topic not in due or place not in tier.partitions:
            continue
        partition, by_ms = tier.partitions[place], due[state.topic].by_ms
        lineage = _lineage(partition, state.leader)
        deleted = due[state.topic].deleted.get(state.partition, 0)
        if all(one.deleting_ms is None or one.deleting_ms < by_ms for one in partition.segments.values()):
            copies = [one for one in partition.segments.values() if _is_managed(one, lineage, deleted)]
            late = min((_base(one) for one in copies if (one.finished_ms or 0) > by_ms), default=UNBOUNDED)
            found += _once(place, [one for one in copies if _base(one) < late])
    return found


def _lineage(partition: Partition, leader: int | None) -> Lineage:
    rows = [row for row in last_look(partition.replicas) if row.broker == leader]
    return lineage_of(rows[0].epochs) if rows else ()


def copied_until(tier: Tier, place: Place, leader: int | None, by_ms: int) -> int:
    """The offset up to which the leader had copied everything by then; 0 without copies, or if they cannot be read."""
    if tier.unreadable or place not in tier.partitions:
        return 0
    partition = tier.partitions[place]
    lineage = _lineage(partition, leader)
    copies = [one for one in partition.segments.values() if _is_of(one, lineage)]
    late = min((_base(one) for one in copies if not one.copied_by(by_ms * 10**6)), default=UNBOUNDED)
    return min(late, max((_last(one) + 1 for one in copies), default=0))


def _is_managed(one: Copied, lineage: Lineage, deleted: int) -> bool:
    """Whether the leader decides about it: it has the leader's lineage, or is below a log start that it moved."""
    passed = _last(one) < deleted and bool(lineage) and all(epoch <= lineage[0][0] for epoch, _ in one.epochs)
    return _is_of(one, lineage) or (one.state == FINISHED and passed)


def _is_of(one: Copied, lineage: Lineage) -> bool:
    """Whether it is still there and has the lineage of the leader, so that retention decides about it."""
    alike = sum(high - low for low, high in agreed(one, lineage))
    return one.state == FINISHED and alike == _last(one) + 1 - _base(one)


def _base(one: Copied) -> int:
    return one.base_offset or 0


def _last(one: Copied) -> int:
    return one.end_offset or 0


def _once(place: Place, copies: list[Copied]) -> Iterator[Segment]:
    """In the order of their offsets. Of a second copy of the same offsets, no byte counts."""
    end = -1
    for one in sorted(copies, key=lambda copy: (_base(copy), _last(copy))):
        newest_ms = -1 if one.max_timestamp_ms is None else one.max_timestamp_ms
        size_bytes = (one.size_bytes or 0) if _base(one) > end else 0
        yield Segment(place, NO_BROKER, _base(one), _last(one), newest_ms, size_bytes)
        end = max(end, _last(one))
