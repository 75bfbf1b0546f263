"""Topics that an operator deleted: their records are no longer promised, and must not be in a later topic of the
same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.model.documents.steps import TopicDeleted
from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.verify.engine.case import Case
from harness.verify.engine.tables import BUNDLE, frame

_DELETED: Final[Columns] = {"topic": "string", "topic_id": "string", "deleted_ns": "int64"}
_TOPIC: Final = [BUNDLE, "topic", "topic_id"]


def deleted(case: Case) -> dict[tuple[str, str], int]:
    """(topic, topic id) -> when the deletion was requested, for topics that a declared step deleted."""
    permitted = set(case.contract.deletions)
    events = [event for event, step in case.events(TopicDeleted) if step.name in permitted]
    return {(event.topic, event.topic_id): event.at_ns for event in events}


def with_deletions(rows: DataFrame, spark: SparkSession, cases: Sequence[Case]) -> DataFrame:
    """Rows of the ledger with `deleted_ns` (null = the topic exists); records of deleted topics are not promised.

    Clients address topics by name. A send that was not answered when the deletion was requested may have reached the
    old topic or the new one: it may be in the new one, and need not be.
    """
    gone = [(n, topic, id_, at_ns) for n, case in enumerate(cases) for (topic, id_), at_ns in deleted(case).items()]
    if not gone:
        return rows.withColumn("deleted_ns", F.lit(None).cast("bigint"))
    joined = rows.join(F.broadcast(frame(spark, _DELETED, gone)), _TOPIC, "left")
    return joined.withColumn("promised", F.col("promised") & F.col("deleted_ns").isNull())


def in_progress(sent: DataFrame) -> DataFrame:
    """Sends without an answer when the deletion of their topic was requested."""
    answered = (F.col("outcome") == Outcome.ACKED.value) & (F.col("returned_ns") < F.col("deleted_ns"))
    return sent.where(F.col("deleted_ns").isNotNull() & ~answered & (F.col("outcome") != Outcome.REFUSED.value))
