"""Records from before a share group began: with share.auto.offset.reset=latest, Kafka's default, it begins at the log
end of that moment.

Where that was shows the lowest offset with an acknowledged answer. Until an answer is acknowledged, the group has no
state there, and begins again when the partition gets a new leader. From the first acknowledged answer on the state is
kept, and everything at that offset or above was written after the group began.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import functions as F

from harness.model.excuse import Evidence, EvidenceKind
from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, frame
from harness.verify.excuse import Excuse
from harness.verify.excuses.clauses import Clause, clauses

LATEST: Final = "latest"
_GROUPS: Final[Columns] = {"group": "string", "reset": "string"}


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
    return [
        clause
        for row in first.collect()
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
        permits="A share group with share.auto.offset.reset=latest receives nothing from before it began.",
        kinds=(Kind.SKIPPED_READ,),
        by_tables=_by_tables,
    ),
)
