"""Rows of the buckets in which ledger and drain differ: what was sent, and what the drain returned."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.verify.engine.fingerprints import STREAM_BUCKET, seq_bucket, stream_buckets
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import PLACE, RECORD, is_committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """Rows of the buckets of streams in which ledger and drain differ.

    sent: rows of the ledger. read: observations of the drain, one row for each record, place and offset; `rc` and `ru`
    say which isolation returned it there. shown: the same by record alone.
    """

    given: Prepared
    sent: DataFrame
    read: DataFrame
    shown: DataFrame


def drill(given: Prepared, drained: DataFrame) -> Drill:
    """Finds the buckets that differ, immediately, and keeps their rows for all checks. drained:
    `fingerprints.drained_buckets`."""
    buckets = kept(stream_buckets(given, drained))
    sent = kept(_among(given.ledger, buckets))
    read = _among(given.observations.where(given.drained), buckets)
    read = kept(
        read.groupBy(*RECORD, *PLACE[1:], "offset").agg(
            F.max(is_committed()).alias("rc"),
            F.max(~is_committed()).alias("ru"),
            F.min("intact").alias("intact"),
            F.min("reader").alias("reader"),
            F.min("timestamp_ms").alias("oldest_ms"),
            F.max("timestamp_ms").alias("newest_ms"),
        )
    )
    shown = kept(read.groupBy(*RECORD).agg(F.max("rc").alias("rc"), F.max("ru").alias("ru")))
    return Drill(given=given, sent=sent, read=read, shown=shown)


def _among(rows: DataFrame, buckets: DataFrame) -> DataFrame:
    rows = narrowed(rows, buckets, "stream").withColumn("bucket", seq_bucket())
    return rows.join(F.broadcast(buckets), STREAM_BUCKET, "left_semi").drop("bucket")
