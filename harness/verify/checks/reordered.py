"""reordered: a later sequence number of one stream is at a lower offset."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.fingerprints import STREAM_BUCKET, seq_bucket
from harness.verify.engine.kept import is_empty, kept, narrowed
from harness.verify.engine.numbered import LANE, named, place_number
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Only, found
from harness.verify.engine.tables import BUNDLE, PLACE
from harness.verify.promise import Check, Introduced, Settings, by_idempotence, span

_LANE: Final = [BUNDLE, "stream", "lane"]  # a stream on one partition; `lane` is `place_number`


def reordered(given: Prepared, drained: DataFrame) -> DataFrame | None:
    """Records that are below an earlier record of their stream on the same partition. drained:
    `fingerprints.drained_buckets`.

    The first of several copies counts: a later copy is a duplicate, not a reordering. Where offsets have the same
    distance from sequence numbers throughout a bucket, its records are in order; only the records of other buckets,
    and of buckets that begin below the end of an earlier one, are sorted.
    """
    buckets = drained.where("at_min IS NOT NULL")
    mixed = (F.col("lane_min") != F.col("lane_max")) | (F.col("shift_min") != F.col("shift_max"))
    even = buckets.where(~mixed).select(
        *STREAM_BUCKET, F.col("lane_min").alias("lane"), F.col("at_min").alias("low"), F.col("at_max").alias("high")
    )
    firsts = kept(_firsts(given, buckets.where(mixed)))
    uneven = firsts.groupBy(*STREAM_BUCKET, "lane").agg(F.min("offset").alias("low"), F.max("offset").alias("high"))
    in_order = Window.partitionBy(*_LANE).orderBy("bucket").rowsBetween(Window.unboundedPreceding, -1)
    ranges = even.withColumn("even", F.lit(True)).unionByName(uneven.withColumn("even", F.lit(False)))
    ranges = ranges.withColumn("reached", F.max("high").over(in_order))
    suspect = kept(ranges.where("NOT even OR low < reached").select(*STREAM_BUCKET, "lane", "even", "reached"))
    if is_empty(suspect):
        return None
    rows = firsts.unionByName(_firsts(given, suspect.where("even"))).join(suspect, [*STREAM_BUCKET, "lane"])
    before = Window.partitionBy(*_LANE, "bucket").orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    highest = F.greatest(F.max("offset").over(before), "reached")
    below = kept(rows.withColumn("highest", highest).where("offset < highest"))
    below = below.withColumnRenamed("lane", LANE)
    of_places = named(below, LANE, PLACE[1:], given.numbered_places, given.observations)
    return found(of_places, Kind.REORDERED, other="highest")


def _compared(given: Prepared) -> DataFrame:
    rows = given.observations.where(given.widest_read & F.col("intact") & (F.col("stream") >= 0))
    return rows.withColumn("lane", place_number())


def _firsts(given: Prepared, buckets: DataFrame) -> DataFrame:
    """The first copy of each record in these buckets."""
    wanted = kept(buckets.select(*STREAM_BUCKET))
    rows = narrowed(_compared(given), wanted, "stream").withColumn("bucket", seq_bucket())
    rows = rows.join(F.broadcast(wanted), STREAM_BUCKET, "left_semi")
    return rows.groupBy(*STREAM_BUCKET, "lane", "seq").agg(F.min("offset").alias("offset"))


def _in_order(settings: Settings) -> str:
    return f"{by_idempotence(settings)} keeps the order of sends on a partition (KIP-98)"


CHECK: Final = Check(
    promise="The records of a producer are in the order of its sends.",
    kinds={Kind.REORDERED: Introduced(promise=_in_order)},
    seen={
        (Kind.REORDERED, Only.ONE): lambda run: (
            f"the record is below an earlier record of its stream, which is at {span(run, 'offset')}"
        ),
    },
    queries={"reordered": reordered},
    planted=(
        "reordered_for_all_readers",
        "reordered_in_the_drains",
        "near_reordered_two_streams",
    ),
)
