"""displaced: another offset than acknowledged.

A finding where the release's own client was told. Of librdkafka only a note: it was seen to do this on correct brokers.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.prepared import is_own_client
from harness.verify.engine.rows import DISPLACED, found
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD


def displaced(drill: Drill) -> DataFrame:
    """Acknowledged records that stand in their partition, and at no offset that the broker told.

    With less than acks=all the copy that was told may go by permission, and an earlier one of a send that was tried
    twice stay: no more than a note.
    """
    told = drill.sent.where((F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull())
    told = told.select(*RECORD, *PLACE[1:], F.col("offset").alias("told"))
    seen = drill.read.groupBy(*RECORD, *PLACE[1:]).agg(
        F.collect_set("offset").alias("at"), F.min("offset").alias("offset")
    )
    rows = seen.join(told, [*RECORD, *PLACE[1:]]).where(~F.array_contains("at", F.col("told")))
    own = drill.given.streams.where(is_own_client() & (F.col("acks") == "all")).select(BUNDLE, "stream")
    rows = rows.join(F.broadcast(own.withColumn("own", F.lit(True))), [BUNDLE, "stream"], "left")
    kind = F.when(F.col("own"), F.lit(Kind.DISPLACED.value)).otherwise(F.lit(DISPLACED))
    return found(rows, kind, other="told")
