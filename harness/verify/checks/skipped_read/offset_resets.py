"""Records that an application skipped because it starts at the end when its group has no offset
(auto.offset.reset=latest).

It may skip them if it never had an offset, or if the contract permits that its offset was lost: then records from its
last commit up to where it started are skipped. An offset that disappears without permission excuses nothing, and
records below it had been received by the group. In a partition that was added to a topic that the group reads, it
skips what was written before a member learned of the partition (KAFKA-12261).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import functions as F

from harness.model.documents.cluster import GroupReset
from harness.model.documents.steps import GroupDeleted
from harness.model.excuse import Evidence, EvidenceKind
from harness.model.finding import Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.verify.checks.commit_regressed.offset_loss import may_be_gone, skipped_by_reset
from harness.verify.engine.added_partitions import added
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, UNBOUNDED, frame
from harness.verify.excuse import Excuse
from harness.verify.excuses.clauses import Clause, clauses

_RESETS: Final[Columns] = {
    "reset": "int64",
    "group": "string",
    "topic": "string",
    "partition": "int32",
    "at_ns": "int64",
}


@dataclass(frozen=True, slots=True)
class _Commits:
    """Commits of a group at a place that were acknowledged before a reset: offset, request and acknowledgement of
    the last one, and acknowledgement of the first one."""

    offset: int
    called_ns: int
    done_ns: int
    first_ns: int


def _by_tables(given: Prepared) -> list[Clause]:
    """Clauses for the records that existed when a member started at the end, and no others."""
    resets = [
        (n, reader, row, why)
        for n, case in enumerate(given.cases)
        for reader, row, why in skipped_by_reset(case)
        if reader.reset == "latest" and row.began is not None
    ]
    if not resets:
        return []
    commits = _committed(given, [(n, row) for n, _, row, _ in resets])
    found: list[Clause] = []
    for nth, (n, reader, row, why) in enumerate(resets):
        last = commits.get(nth)
        if row.committed is None and last is not None and not _may_be_gone(given.cases[n], row, last):
            continue
        # In an added partition everything below existed, however late its acknowledgement was reported.
        new = row.committed is None and (row.topic, row.partition) in added(given.cases[n])
        known = f"the partition was added while {row.group} read the topic" if new else why
        for name in (reader.reader, f"group {row.group}"):
            found += clauses(
                n,
                [Kind.SKIPPED_READ],
                f"skipped by the application: auto.offset.reset=latest of {reader.reader}, and {known}",
                evidence=Evidence(kind=EvidenceKind.SNAPSHOT, what="group_resets", at_ns=row.at_ns),
                topic=row.topic,
                partition=row.partition,
                reader=name,
                offsets=(max(row.committed or 0, last.offset if last else 0), row.began),
                acked_ns=(0, UNBOUNDED if new else row.at_ns),
            )
    return found


def _may_be_gone(case: Case, row: GroupReset, last: _Commits) -> bool:
    deleted = any(
        event.group == row.group
        and event.outcome != Outcome.REFUSED.value
        and event.asked_ns <= row.at_ns
        and event.at_ns >= last.called_ns
        for event, step in case.events(GroupDeleted)
        if step.name in case.contract.group_deletions
    )
    return deleted or may_be_gone(case, row.group, reported_ns=row.at_ns, done_ns=last.done_ns, first_ns=last.first_ns)


def _committed(given: Prepared, resets: list[tuple[int, GroupReset]]) -> dict[int, _Commits]:
    """By the number of the reset; nothing when there was no commit."""
    rows = [(n, nth, row.group, row.topic, row.partition, row.at_ns) for nth, (n, row) in enumerate(resets)]
    asked = F.broadcast(frame(given.spark, _RESETS, rows))
    ends = given.transactions.select(BUNDLE, "txn_id", F.col("outcome").alias("ended"), "ended_ns")
    commits = given.offset_commits.join(asked, [BUNDLE, "group", "topic", "partition"])
    commits = commits.join(ends, [BUNDLE, "txn_id"], "left").withColumn(
        "done_ns", F.coalesce("ended_ns", "returned_ns")
    )
    counts = F.col("txn_id").isNull() | (F.col("ended") == TxnOutcome.COMMITTED.value)
    acked = commits.where((F.col("outcome") == Outcome.ACKED.value) & counts & (F.col("done_ns") <= F.col("at_ns")))
    last = F.max(F.struct(F.coalesce("ended_ns", "called_ns").alias("order_ns"), "offset", "called_ns", "done_ns"))
    by_reset = acked.groupBy("reset").agg(last.alias("last"), F.min("done_ns").alias("first_ns")).collect()
    return {
        row["reset"]: _Commits(row["last"]["offset"], row["last"]["called_ns"], row["last"]["done_ns"], row["first_ns"])
        for row in by_reset
    }


EXCUSES: Final = (
    Excuse(
        name="offset_reset",
        permits="A group without a committed offset starts at the end, by its auto.offset.reset=latest.",
        kinds=(Kind.SKIPPED_READ,),
        by_tables=_by_tables,
    ),
)
