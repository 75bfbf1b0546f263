"""Which records of the metadata log are committed, decided from the logs of all nodes.

A leader that was deposed keeps records that never took effect, and even the log of the last leader may end in some. A
record is committed if one of these holds:

- It lies below a high watermark that the quorum reported.
- A majority of the voters has it at the same offset and epoch, and every voter with a log that ends in a later epoch
  has it too. The second half is needed: a voter with a later epoch may still win an election and overwrite records
  of an earlier epoch that a majority has (section 5.4.2 of the Raft paper).
- A snapshot contains it, because nodes make snapshots of committed records only.

The rule is exact if the logs of all voters are given. A voter without a log counts as one that has nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.model.history.log import LogBatch, NodeLog, Snapshot


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two nodes with different committed records at one offset, although the epoch is the same."""

    offset: int
    epoch: int
    nodes: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Division:
    """The division of all logs: the committed batches in the order of their offsets, and the others by node.

    Batches may begin after offset 0 and may have gaps, where no node has kept the records.
    """

    end: int  # the first offset that is not known to be committed
    batches: tuple[LogBatch, ...]
    snapshots: tuple[Snapshot, ...]  # usable ones, one for each end offset
    uncommitted: Mapping[int, tuple[LogBatch, ...]]
    conflicts: tuple[Conflict, ...]


def divide(logs: Sequence[NodeLog], voters: Collection[int], high_watermark: int | None = None) -> Division:
    """Divides the records of all nodes into committed ones and others."""
    snapshots = _snapshots(logs, voters)
    reference, end = _reference(logs, voters, high_watermark)
    end = max([end, *snapshots])
    # By the log matching property, two logs that have one batch in common have all earlier ones in common.
    certain = {(s.end_offset - 1, s.epoch) for s in snapshots.values()}
    certain |= {_last(batch) for batch in reference if batch.last_offset < end}
    committed: dict[int, LogBatch] = {}
    owner: dict[int, int] = {}
    uncommitted: dict[int, tuple[LogBatch, ...]] = {}
    conflicts: list[Conflict] = []
    for log in sorted(logs, key=lambda log: (log.node not in voters, log.node)):
        kept = max((at for at, batch in enumerate(log.batches, 1) if _last(batch) in certain), default=0)
        for batch in log.batches[:kept]:
            known = committed.setdefault(batch.base_offset, batch)
            if known.identity != batch.identity:
                first = owner[batch.base_offset]
                conflicts.append(Conflict(batch.base_offset, batch.epoch, (first, log.node)))
            owner.setdefault(batch.base_offset, log.node)
        if kept < len(log.batches):
            uncommitted[log.node] = log.batches[kept:]
    batches = tuple(committed[offset] for offset in sorted(committed))
    return Division(end, batches, tuple(snapshots[e] for e in sorted(snapshots)), uncommitted, tuple(conflicts))


def _last(batch: LogBatch) -> tuple[int, int]:
    return batch.last_offset, batch.epoch


def _snapshots(logs: Iterable[NodeLog], voters: Collection[int]) -> dict[int, Snapshot]:
    """Usable snapshots by end offset. Those of voters come first, because the others copy them."""
    found: dict[int, Snapshot] = {}
    for log in sorted(logs, key=lambda log: (log.node not in voters, log.node)):
        for snapshot in log.usable_snapshots():
            found.setdefault(snapshot.end_offset, snapshot)
    return found


def _reference(
    logs: Sequence[NodeLog], voters: Collection[int], high_watermark: int | None
) -> tuple[tuple[LogBatch, ...], int]:
    """The log that has every committed record, and the end of the records that are committed by rule 1 or 2.

    It is the voters' most recent log, as an election would choose it. Below a reported high watermark the log of a
    broker serves too, if no voter has kept the records.
    """
    of_voters = [log for log in logs if log.node in voters]
    best = max(of_voters, key=_recency, default=NodeLog(-1))
    end = _majority_end(best, of_voters, len(set(voters)) // 2 + 1)
    if high_watermark is None or high_watermark <= end:
        return best.batches, end
    if best.end < high_watermark:
        reaching = [log for log in logs if log.end >= high_watermark]
        best = max(reaching, key=_recency, default=max(logs, key=_recency, default=best))
    return best.batches, min(high_watermark, best.end)


def _recency(log: NodeLog) -> tuple[int, int, int]:
    return log.last_epoch, log.end, -log.start


def _majority_end(best: NodeLog, voters: Sequence[NodeLog], majority: int) -> int:
    """The end of the longest part of `best` that is committed by rule 2."""
    having: list[set[tuple[int, int, int]]] = [{batch.identity for batch in log.batches} for log in voters]
    for batch in reversed(best.batches):
        holders = [
            batch.identity in batches or _in_snapshot(batch, log) for log, batches in zip(voters, having, strict=True)
        ]
        later = [held for log, held in zip(voters, holders, strict=True) if log.last_epoch > batch.epoch]
        if sum(holders) >= majority and all(later):
            return batch.last_offset + 1
    return 0


def _in_snapshot(batch: LogBatch, log: NodeLog) -> bool:
    return any(batch.last_offset < snapshot.end_offset for snapshot in log.usable_snapshots())
