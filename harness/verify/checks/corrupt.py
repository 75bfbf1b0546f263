"""corrupt: the payload is not what was sent."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.verify.prepared import Prepared
from harness.verify.rows import found
from harness.verify.tables import PLACE


def corrupt(given: Prepared) -> DataFrame:
    """Whatever any reader was given that does not certify itself, named by what was acknowledged at that offset."""
    damaged = (
        given.observations.where(~F.col("intact"))
        .groupBy(*PLACE, "offset")
        .agg(
            F.array_join(F.slice(F.array_sort(F.collect_set("reader")), 1, 3), ", ").alias("reader"),
            F.max(F.when(F.col("stream") >= 0, F.struct("stream", "seq"))).alias("decoded"),
        )
    )
    acked = given.ledger.where((F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull())
    acked = acked.join(damaged, [*PLACE, "offset"], "left_semi")
    sent = acked.groupBy(*PLACE, "offset").agg(F.max(F.struct("stream", "seq")).alias("acked"))
    rows = damaged.join(sent, [*PLACE, "offset"], "left").withColumn("who", F.coalesce("acked", "decoded"))
    return found(rows, Kind.CORRUPT, "payload", stream=F.col("who.stream"), seq=F.col("who.seq"))
