"""displaced: another offset than acknowledged. Only a note: librdkafka was seen to do this on correct brokers."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.outcome import Outcome
from harness.verify.drill import Drill
from harness.verify.rows import DISPLACED, found
from harness.verify.tables import PLACE, RECORD


def displaced(drill: Drill) -> DataFrame:
    """Acknowledged records that stand in their partition, and at no offset that the broker told."""
    told = drill.sent.where((F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull())
    told = told.select(*RECORD, *PLACE[1:], F.col("offset").alias("told"))
    seen = drill.read.groupBy(*RECORD, *PLACE[1:]).agg(
        F.collect_set("offset").alias("at"), F.min("offset").alias("offset")
    )
    rows = seen.join(told, [*RECORD, *PLACE[1:]]).where(~F.array_contains("at", F.col("told")))
    return found(rows, DISPLACED, other="told")
