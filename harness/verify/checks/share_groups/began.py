"""Records from before a share group began: with share.auto.offset.reset=latest, Kafka's default, it begins at the log
end of that moment.

Where that was shows the lowest offset with an acknowledged answer. Until an answer is acknowledged, the group has no
state there, and begins again when the partition gets a new leader. From the first acknowledged answer on the state is
kept, and everything at that offset or above was written after the group began.

A partition that is added to a topic that the group knows is another matter: the group begins at its first record,
whatever share.auto.offset.reset is (KAFKA-20742).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import functions as F

from harness.model.documents.steps import GroupDeleted
from harness.model.excuse import Evidence, EvidenceKind
from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.verify.engine.added_partitions import added
from harness.verify.engine.case import Case, Place
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, frame
from harness.verify.excuse import Excuse
from harness.verify.excuses.clauses import Clause, clauses

LATEST: Final = "latest"
_GROUPS: Final[Columns] = {"group": "string", "reset": "string"}
_ADDED: Final[Columns] = {"group": "string", "topic": "string", "partition": "int32", "added_ns": "int64"}


def from_the_first(given: Prepared) -> set[tuple[int, str, Place]]:
    """(bundle, group, place) of partitions that were added to a topic when a group with share.auto.offset.reset=latest
    had state there: an answer of it was acknowledged before the step began."""
    rows = [
        (n, share.group, *place, at_ns)
        for n, case in enumerate(given.cases)
        for share in case.contract.shares.values()
        if share.reset == LATEST and not _deleted(case, share.group)
        for place, at_ns in added(case).items()
        if place[0] in share.topics
    ]
    if not rows:
        return set()
    acked = given.deliveries.where(F.col("outcome") == Outcome.ACKED.value)
    known = acked.groupBy(BUNDLE, "group", "topic", "topic_id").agg(F.min("returned_ns").alias("known_ns"))
    new = F.broadcast(frame(given.spark, _ADDED, rows)).withColumnRenamed("partition", "new")
    found = known.join(new, [BUNDLE, "group", "topic"]).where("known_ns < added_ns")
    return {
        (row[BUNDLE], row["group"], (row["topic"], row["topic_id"], row["new"]))
        for row in found.select(BUNDLE, "group", "topic", "topic_id", "new").collect()
    }


def _deleted(case: Case, group: str) -> bool:
    return any(event.group == group for event, _ in case.events(GroupDeleted))


def _by_tables(given: Prepared) -> list[Clause]:
    """One clause for each partition of which such a group answered a record."""
    late = [
        (n, share.group, share.reset)
        for n, case in enumerate(given.cases)
        for share in case.contract.shares.values()
        if share.reset == LATEST
    ]
    if not late:
        return []
    answered = given.deliveries.where(F.col("outcome") == Outcome.ACKED.value)
    answered = answered.join(F.broadcast(frame(given.spark, _GROUPS, late)), [BUNDLE, "group"])
    first = answered.groupBy("group", "reset", *PLACE).agg(F.min("offset").alias("first"))
    whole = from_the_first(given)
    return [
        clause
        for row in first.collect()
        if (row[BUNDLE], row["group"], (row["topic"], row["topic_id"], row["partition"])) not in whole
        for clause in clauses(
            row[BUNDLE],
            [Kind.SKIPPED_READ],
            f"written before share group {row['group']} began there: share.auto.offset.reset={row['reset']}",
            evidence=Evidence(kind=EvidenceKind.RECORDS, what="deliveries"),
            topic=row["topic"],
            topic_id=row["topic_id"],
            partition=row["partition"],
            reader=row["group"],
            offsets=(0, row["first"]),
        )
    ]


EXCUSES: Final = (
    Excuse(
        name="share_began",
        permits=("A share group with share.auto.offset.reset=latest receives nothing from before it began on a topic."),
        kinds=(Kind.SKIPPED_READ,),
        by_tables=_by_tables,
    ),
)
