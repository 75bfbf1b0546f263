"""The answers of leaders to a consumer that asks for the end of the log, after the load has ended.

By then every replica is in sync, and the logs of all of them end at the same offset: that is the high watermark, which
a leader names to consumers that read everything. To those that read what is committed it names the last stable offset,
which may be below it. Both looks after the load must show the same: a marker may arrive between two requests of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.model.documents.cluster import PartitionState
from harness.model.finding import Finding, Kind
from harness.verify.engine.case import FINAL_PHASES, Case
from harness.verify.sentences import promise


def wrong_ends(case: Case) -> Iterator[Finding]:
    """A finding for each partition of which a leader named another end than that of its log, at both looks."""
    by_phase = {snapshot.phase: snapshot for snapshot in case.cluster.snapshots}
    looks = [_wrong(by_phase[phase].partitions) for phase in FINAL_PHASES if phase in by_phase]
    if len(looks) < len(FINAL_PHASES):
        return
    for row in looks[0].values():
        if all(row.place in look for look in looks):
            yield _finding(case, row)


def _wrong(partitions: tuple[PartitionState, ...]) -> Mapping[tuple[str, str, int], PartitionState]:
    return {row.place: row for row in partitions if (end := _end(row)) is not None and not _named(row, end)}


def _end(row: PartitionState) -> int | None:
    """The end of all logs of a partition; None where a replica is not in sync, or the logs differ or are unknown."""
    ends = {log.log_end for log in row.logs}
    whole = set(row.isr) == set(row.replicas) == {log.broker for log in row.logs}
    return ends.pop() if whole and len(ends) == 1 else None


def _named(row: PartitionState, end: int) -> bool:
    high, stable = row.high_watermark, row.last_stable_offset
    return high in (None, end) and (stable is None or stable <= end)


def _finding(case: Case, row: PartitionState) -> Finding:
    end, high, stable = _end(row) or 0, row.high_watermark, row.last_stable_offset
    first, last = sorted((end, stable if high in (None, end) and stable is not None else high or 0))
    return Finding(
        kind=Kind.OFFSET_LOOKUP,
        topic=row.topic,
        topic_id=row.topic_id,
        partition=row.partition,
        offset_first=first,
        offset_last=last - 1,
        count=last - first,
        detail=(
            f"the log of each replica ends at {end}; the leader answered consumers that it ends at {high}, and at "
            f"{stable} for those that read only committed records"
        ),
        contract=promise(Kind.OFFSET_LOOKUP, None, None, case.contract),
    )
