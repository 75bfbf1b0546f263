"""Folds the metadata logs of all nodes into the history of the cluster.

committed.py says which records are committed, and replay.py replays them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence

from harness.model.clock import NS_PER_MS
from harness.model.history.changes import (
    HIDDEN,
    Problem,
    ProblemKind,
    Written,
)
from harness.model.history.committed import Division, divide
from harness.model.history.history import History
from harness.model.history.log import Entry, NodeLog, Record, Unreadable
from harness.model.history.replay import OTHERS, VOTERS, Replay, is_secret, voter_ids
from harness.model.history.snapshots import compare_snapshots


def fold(
    logs: Sequence[NodeLog],
    voters: Collection[int] | None = None,
    high_watermark: int | None = None,
    snapshots_since_ms: int | None = None,
) -> History:
    """The history that the logs of all nodes show.

    voters: the controllers; None = as the newest record of voters in the logs says (KIP-853). A quorum with static
    voters writes no such record, but its leaders name the voters. ValueError if no log names any.
    high_watermark: the last one that the quorum reported, if it is known.
    snapshots_since_ms: snapshots with a later last record are compared with the log; None = no snapshot is.
    """
    known = set(voters) if voters is not None else voters_of(logs)
    if not known:
        raise ValueError("no log names the voters of the quorum: give them as an argument")
    division = divide(logs, known, high_watermark)
    builder = Replay()
    start = _replay(division, builder)
    compared, differences = (
        ([], [])
        if snapshots_since_ms is None
        else compare_snapshots(logs, division.batches, Replay, snapshots_since_ms)
    )
    return History(
        nodes=sorted(log.node for log in logs),
        voters=sorted(known),
        start=start,
        end=division.end,
        high_watermark=high_watermark,
        changes=builder.changes,
        written=list(_written(division)),
        dropped=builder.dropped,
        problems=[*_problems(logs, known, division, high_watermark), *builder.problems],
        snapshots=compared,
        differences=differences,
        producer_ids=builder.producer_ids,
    )


def voters_of(logs: Iterable[NodeLog]) -> set[int]:
    """The voters that the newest record about them names, in any log or snapshot; empty if there is none."""
    newest: tuple[tuple[int, int], set[int]] = ((-1, -1), set())
    for log in logs:
        placed = [((e.epoch, e.offset), e) for batch in log.batches for e in batch.entries]
        placed += [((s.epoch, s.end_offset - 1), e) for s in log.usable_snapshots() for e in s.entries]
        for place, entry in placed:
            # A leader of a dynamic quorum writes its record with the voters of that moment.
            if place > newest[0] and isinstance(entry, Record) and entry.kind in (VOTERS, "LeaderChangeMessage"):
                newest = (place, set(voter_ids(entry)))
    return newest[1]


def _replay(division: Division, builder: Replay) -> int:
    """Replays everything that is committed. Returns the first offset from which on the log has no gap.

    Where the log has a gap, the oldest snapshot behind the gap from which the log goes on replaces the state.
    """
    batches, snapshots = deque(division.batches), deque(division.snapshots)
    at = start = 0
    while snapshots and snapshots[0].end_offset == 0:
        builder.load_formatted(snapshots.popleft())
    while batches or snapshots:
        if snapshots and snapshots[0].end_offset <= at:
            snapshots.popleft()
        elif batches and batches[0].base_offset < at:
            batches.popleft()  # a snapshot covers it
        elif batches and batches[0].base_offset == at:
            batch = batches.popleft()
            builder.replay(batch.entries)
            at = batch.last_offset + 1
        elif snapshots:
            ahead = snapshots.popleft()
            if at:
                builder.problem(ProblemKind.MISSING_RECORDS, at, f"{at} to {ahead.end_offset - 1}, from a snapshot")
            builder.load(ahead)
            at = start = ahead.end_offset
        else:
            gap = f"{at} to {batches[0].base_offset - 1}, and no snapshot covers them"
            builder.problem(ProblemKind.MISSING_RECORDS, at, gap)
            builder.end_transaction(aborted=False)
            at = start = batches[0].base_offset
    builder.end_transaction(aborted=False)
    return start


def _problems(
    logs: Sequence[NodeLog], voters: Collection[int], division: Division, high_watermark: int | None
) -> Iterator[Problem]:
    for log in logs:
        if log.torn is not None:
            torn = log.torn
            detail = f"{torn.size_bytes} bytes at byte {torn.position} of {torn.file}: {torn.reason}"
            yield Problem(kind=ProblemKind.TORN_END, node=log.node, offset=log.end, detail=detail)
        for snapshot in log.snapshots:
            if snapshot.problem is not None:
                detail = f"snapshot {snapshot.end_offset}-{snapshot.epoch}: {snapshot.problem}"
                yield Problem(kind=ProblemKind.BAD_SNAPSHOT, node=log.node, offset=snapshot.end_offset, detail=detail)
    for voter in sorted(set(voters) - {log.node for log in logs}):
        yield Problem(kind=ProblemKind.MISSING_VOTER, node=voter, offset=0, detail="its log was not given")
    if high_watermark is not None and division.end < high_watermark:
        detail = f"the high watermark was {high_watermark}"
        yield Problem(kind=ProblemKind.MISSING_END, node=None, offset=division.end, detail=detail)
    for conflict in division.conflicts:
        first, second = conflict.nodes
        detail = f"differs from node {first} in epoch {conflict.epoch}"
        yield Problem(kind=ProblemKind.CONFLICT, node=second, offset=conflict.offset, detail=detail)


def _written(division: Division) -> Iterator[Written]:
    for node, batches in sorted(division.uncommitted.items()):
        for batch in batches:
            for entry in batch.entries:
                yield _written_entry(node, entry)


def _written_entry(node: int, entry: Entry) -> Written:
    time_ns = entry.time_ms * NS_PER_MS
    if isinstance(entry, Unreadable):
        return Written(node=node, offset=entry.offset, epoch=entry.epoch, time_ns=time_ns, kind="", fields={})
    fields = {} if entry.kind in OTHERS else entry.fields
    if entry.kind == "ConfigRecord" and is_secret(entry.text("Name")):
        fields = {**fields, "Value": HIDDEN}
    return Written(node=node, offset=entry.offset, epoch=entry.epoch, time_ns=time_ns, kind=entry.kind, fields=fields)
