"""Committed offsets that may be lost or reset: if the log that stores them was replaced, as the contract permits.

A group's commits are records of one partition of __consumer_offsets, so they share the fate of that partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.contract.contract import OFFSETS_RETENTION
from harness.model.contract.internal_topics import OFFSETS, state_partition
from harness.model.documents.cluster import GroupReset
from harness.model.documents.contract import OffsetsContract, ReaderContract
from harness.model.documents.steps import GroupAway, LogStartSeen
from harness.model.excuse import Evidence
from harness.model.finding import Kind
from harness.model.schemas import Columns
from harness.verify.checks.commit_regressed.reasons import Reported
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import LEADER_UNKNOWN
from harness.verify.engine.tables import BUNDLE, frame
from harness.verify.excuse import Excuse, of_event, reference
from harness.verify.excuses.config_history import in_force
from harness.verify.excuses.unclean_elections import internal_elections

# The ISR in a sample may be older than the one that its leader uses. That in the history is exact.
_SAMPLED_NS: Final = 2 * 10**9
_MINUTE_NS: Final = 60 * 10**9
_UNCLEAN: Final = "unclean.leader.election.enable"
# Reasons of an older offset, or none. No election produces an offset that was never committed.
_BACK: Final = (Reported.BEHIND, Reported.GONE, Reported.DELETED)
_CLAUSES: Final[Columns] = {
    "reader": "string",
    "reasons": "string",
    "from_ns": "int64",  # reported at that time or later
    "sure_ns": "int64",  # the missing commit was done before
    "until_ns": "int64",  # or before this, when a deposed coordinator may have acknowledged it
    "kept_ns": "int64",  # commits done before this are not excused
    "why": "string",
    "evidence": "string",
    "what": "string",
    "step": "string?",
    "at_ns": "int64?",
}


def _offsets_lost(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `excused_by` set for group offsets that the contract of __consumer_offsets permits to be lost.

    With the kind LEADER_UNKNOWN if it is unknown whether the new coordinator acknowledged the missing commit.
    """
    clauses = [(n, *clause) for n, case in enumerate(given.cases) for clause in _clauses(case)]
    if not clauses:
        return rows
    table = frame(given.spark, _CLAUSES, clauses).groupBy(BUNDLE, "reader")
    clause = F.struct(*(name for name in _CLAUSES if name != "reader"))
    of_group = table.agg(F.collect_list(clause).alias("clauses"))
    joined = rows.join(F.broadcast(of_group), [BUNDLE, "reader"], "left")
    holding = F.filter(
        "clauses",
        lambda c: (
            F.array_contains(F.split(c["reasons"], ","), F.col("reason"))
            & (F.col("reported_ns") >= c["from_ns"])
            & (F.col("done_ns") <= c["until_ns"])
            & (F.col("replaced_ns") > c["kept_ns"])
        ),
    )
    ours = (F.col("kind") == Kind.COMMIT_REGRESSED.value) & (F.size(holding) > 0)
    least = F.array_min(F.transform(holding, _permission))
    permission = F.when(F.coalesce(ours, F.lit(False)), least)
    why = permission["why"]
    in_doubt = why.isNotNull() & F.col("excused_by").isNull()
    in_doubt &= ~F.exists(holding, lambda clause: F.col("done_ns") <= clause["sure_ns"])
    kind = F.when(in_doubt, F.lit(LEADER_UNKNOWN)).otherwise(F.col("kind"))
    named = {"excused_by": F.coalesce("excused_by", why), "kind": kind, "evidence": permission["evidence"]}
    return joined.withColumns(named).drop("clauses")


def _permission(clause: Column) -> Column:
    evidence = reference(clause["evidence"], clause["what"], clause["step"], clause["at_ns"])
    return F.struct(clause["why"].alias("why"), evidence.alias("evidence"))


class _Span(NamedTuple):
    """When a group may report an older offset, or none: one row of `_CLAUSES`, without the bundle."""

    group: str
    reasons: str  # of findings, with a comma between them
    from_ns: int
    sure_ns: int
    late_ns: int
    kept_ns: int
    why: str
    evidence: str
    what: str
    step: str | None
    at_ns: int | None


def _clauses(case: Case) -> Iterator[_Span]:
    if case.contract.offsets is not None:
        yield from _of_elections(case, case.contract.offsets)
        yield from _of_expiry(case, case.contract.offsets)


def _of_elections(case: Case, offsets: OffsetsContract) -> Iterator[_Span]:
    for change in internal_elections(case, OFFSETS):
        partition, epoch = change.partition, change.leader_epoch
        if not (offsets.unclean_election or in_force(case, OFFSETS, _UNCLEAN, "true", change.at_ns)):
            continue
        kept_ns = change.in_sync_ns - (_SAMPLED_NS if case.history is None else 0)
        alone = f" with min.insync.replicas={offsets.min_insync_replicas}"
        why = (
            f"unclean election of {OFFSETS}/{partition} in epoch {epoch}, which the contract permits{alone}: "
            "it may lose what its groups committed before it"
        )
        times = (change.since_ns, change.sure_ns, change.late_ns, kept_ns)
        for group in groups_reported(case):
            if state_partition(group, offsets.partitions) == partition:
                yield _Span(group, ",".join(_BACK), *times, why, *_row(change.evidence))


def _of_expiry(case: Case, offsets: OffsetsContract) -> Iterator[_Span]:
    """Groups without members for longer than offsets.retention.minutes (KIP-211). All offsets of an empty group
    expire together; those of a group with members stay, however old they are."""
    for event, step in case.events(GroupAway):
        due_ns = event.from_ns + offsets.retention_minutes * _MINUTE_NS
        if event.to_ns >= due_ns:
            why = (
                f"{OFFSETS_RETENTION}={offsets.retention_minutes}: group {event.group} had no members for "
                f"{(event.to_ns - event.left_ns) / 1e9:.0f} s, so its committed offsets expired (KIP-211)"
            )
            evidence = of_event(event, step, event.to_ns)
            yield _Span(event.group, Reported.GONE, due_ns, event.left_ns, event.left_ns, 0, why, *_row(evidence))


def _row(evidence: Evidence) -> tuple[str, str, str | None, int | None]:
    return evidence.kind.value, evidence.what, evidence.step, evidence.at_ns


def may_be_gone(case: Case, group: str, *, reported_ns: int, done_ns: int, first_ns: int) -> bool:
    """Whether a group may have had no offset. done_ns: of its last commit; first_ns: of its first."""
    return any(
        span.group == group
        and Reported.GONE in span.reasons.split(",")
        and reported_ns >= span.from_ns
        and done_ns <= span.sure_ns
        and first_ns > span.kept_ns
        for span in _clauses(case)
    )


def skipped_by_reset(case: Case) -> Iterator[tuple[ReaderContract, GroupReset, str]]:
    """(reader, its row of `group_resets`, why) of each reader that used auto.offset.reset where it could not
    continue."""
    readers = case.contract.readers
    for row in case.cluster.group_resets or ():
        reader = readers.get(row.reader)
        if reader is None or not reader.reset:
            continue
        if row.committed is None:
            yield reader, row, "the group had no committed offset"
        elif row.committed < (start := _log_start(case, row)):
            yield reader, row, f"its offset {row.committed} was below the log start {start} at that time"


def stopped(case: Case) -> dict[str, int]:
    """By "topic/partition": how many readers refused to start anywhere but at their committed offset."""
    return dict(Counter(f"{topic}/{partition}" for _, topic, partition in refusals(case)))


def refusals(case: Case) -> list[tuple[ReaderContract, str, int]]:
    """(reader, topic, partition) of each reader that refused as configured (auto.offset.reset=error)."""
    return [
        (reader, row.topic, row.partition)
        for reader, row, _ in skipped_by_reset(case)
        if row.began is None and reader.reset == "error"
    ]


def _log_start(case: Case, row: GroupReset) -> int:
    """The highest log start that steps saw by the time of the reset."""
    place = row.topic, row.partition
    seen = [event for event, _ in case.events(LogStartSeen) if (event.topic, event.partition) == place]
    return max((event.log_start for event in seen if event.at_ns <= row.at_ns), default=0)


def groups_reported(case: Case) -> list[str]:
    """Groups that the contract or any coordinator names."""
    contract = case.contract
    declared = {r.group for r in contract.readers.values()} | {p.group for p in contract.processors.values()}
    reported = {row.group for snapshot in case.cluster.snapshots for row in snapshot.groups}
    return sorted(declared | reported | {row.group for row in case.cluster.group_answers or ()})


EXCUSES: Final = (
    Excuse(
        name="offset_loss",
        permits="The contract of __consumer_offsets permits that committed offsets were lost or expired.",
        kinds=(Kind.COMMIT_REGRESSED,),
        rows=_offsets_lost,
    ),
)
