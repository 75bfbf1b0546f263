"""Duplicates because brokers forget, by configuration, the sequence numbers of a producer that did not write for too
long (KIP-854).

A broker accepts any next sequence number from a producer with expired state (KIP-360), so a record that was
written, not acknowledged and sent again after that time is there twice. The time counts from the producer's last batch
on the partition, which batch headers show.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.clock import CLOCKS_MS
from harness.model.excuse import Evidence, EvidenceKind
from harness.model.finding import Kind
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, frame
from harness.verify.excuse import Excuse
from harness.verify.excuses.client_faults import within


def _written_after_expiry(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `excused_by` set for second copies that may have been appended after their producer's state had
    expired.

    The copy was appended before its send was acknowledged, and the timestamp of the producer's previous batch was at
    least producer.id.expiration.ms older. Without batch headers nothing is excused.
    """
    twice = rows.where((F.col("kind") == Kind.DUPLICATED.value) & F.col("returned_ns").isNotNull())
    wanted = twice.select(*PLACE, "offset").distinct()
    # One row for each batch, from any replica; if they disagree, the youngest timestamp excuses least.
    headers = given.batches.where("control IS NULL AND producer_id >= 0 AND last_offset - base_offset < 1000000")
    headers = headers.groupBy(*PLACE, "base_offset", "last_offset", "producer_id").agg(
        F.max("max_timestamp_ms").alias("max_timestamp_ms")
    )
    before = Window.partitionBy(*PLACE, "producer_id").orderBy("base_offset")
    headers = headers.withColumn("last_ms", F.lag("max_timestamp_ms").over(before))
    last = within(headers, wanted).groupBy(*PLACE, "offset").agg(F.max("last_ms").alias("last_ms"))
    limits = [(n, case.contract.producer_expiration_ms) for n, case in enumerate(given.cases)]
    limit = F.broadcast(frame(given.spark, {"expiration_ms": "int64"}, limits))
    joined = rows.join(last, [*PLACE, "offset"], "left").join(limit, BUNDLE, "left")
    old_ms = F.expr("returned_ns DIV 1000000") - F.col("last_ms")
    expired = (F.col("kind") == Kind.DUPLICATED.value) & (old_ms >= F.col("expiration_ms") - CLOCKS_MS)
    why = F.concat(
        F.lit("producer.id.expiration.ms="),
        F.col("expiration_ms").cast("string"),
        F.lit(": the state of producer "),
        F.col("producer"),
        F.lit(" had expired when it sent this record again, which had not been acknowledged"),
    )
    excused = F.coalesce("excused_by", F.when(F.coalesce(expired, F.lit(False)), why))
    return joined.withColumn("excused_by", excused).drop("last_ms", "expiration_ms")


EXCUSES: Final = (
    Excuse(
        name="producer_expiry",
        permits="The broker's state of a producer had expired (producer.id.expiration.ms) when it sent a record again.",
        kinds=(Kind.DUPLICATED,),
        rows=_written_after_expiry,
        evidence=Evidence(kind=EvidenceKind.RECORDS, what="batches"),
    ),
)
