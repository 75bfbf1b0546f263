"""Ranges of contiguous offsets with the same defect: only these come to the driver, not the records."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from msgspec import convert
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from harness.model.excuse import Excused
from harness.verify.engine.tables import BUNDLE

# Findings of a bundle and kind in a verdict; the others are only counted. findings.parquet has every record.
RUNS_MAX: Final = 200
_FATE: Final = ["kind", "reason", "topic", "topic_id", "partition", "reader", "producer", "excused_by", "explained_by"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRange:
    """One row of `runs_of`."""

    bundle: int
    kind: str
    reason: str
    topic: str
    topic_id: str
    partition: int
    reader: str | None
    producer: str | None
    excused_by: str | None
    explained_by: str | None
    offset_first: int | None
    offset_last: int | None
    stream_min: int | None
    stream_max: int | None
    seq_first: int | None
    seq_last: int | None
    count: int
    first_ns: int | None
    last_ns: int | None
    returned_first_ns: int | None
    other_first: int | None
    other_last: int | None
    all_records: int
    fate_records: int
    excuse: Excused | None


_COLUMNS: Final = [field.name for field in fields(RecordRange)]


def runs_of(rows: DataFrame) -> DataFrame:
    """One row for each range of contiguous offsets with the same defect; without offsets, of contiguous sequence
    numbers of one stream.

    At most RUNS_MAX for each bundle and kind, condemning ones first, and the first of each fate: kind, reason, place,
    reader, producer, excuse and explanation. `count` is of records. `all_records` counts everything with the
    same bundle, kind, excused_by and explained_by; `fate_records`, on the first of each fate and else 0, everything
    with the same fate.
    """
    fate = [BUNDLE, *_FATE]
    at = rows.withColumn("at", F.coalesce("offset", "seq")).withColumn(
        "lane", F.when(F.col("offset").isNull(), F.col("stream"))
    )
    # A record may be in a range more than once (two readers received it): the dense rank counts places, not rows.
    rank = F.dense_rank().over(Window.partitionBy(*fate, "lane").orderBy("at"))
    islands = at.withColumn("island", F.col("at") - rank)
    runs = islands.groupBy(*fate, "lane", "island").agg(
        F.min("offset").alias("offset_first"),
        F.max("offset").alias("offset_last"),
        F.min("stream").alias("stream_min"),
        F.max("stream").alias("stream_max"),
        F.min("seq").alias("seq_first"),
        F.max("seq").alias("seq_last"),
        # Two readers may report one record, and several records may have been acknowledged at one offset.
        F.count_distinct(*(F.coalesce(column, F.lit(-1)) for column in ("at", "stream", "seq"))).alias("count"),
        F.min("called_ns").alias("first_ns"),
        F.max("called_ns").alias("last_ns"),
        F.min("returned_ns").alias("returned_first_ns"),
        F.min("other").alias("other_first"),
        F.max("other").alias("other_last"),
        F.min("excuse").alias("excuse"),  # several events may permit it with the same sentence
    )
    whole, same = Window.partitionBy(BUNDLE, "kind", "excused_by", "explained_by"), Window.partitionBy(*fate)
    order: list[Column | str] = [
        F.coalesce("excused_by", "explained_by").asc_nulls_first(),
        "topic",
        "partition",
        "offset_first",
    ]
    return (
        runs.withColumn("all_records", F.sum("count").over(whole))
        .withColumn("nth", F.row_number().over(Window.partitionBy(BUNDLE, "kind").orderBy([*order, "seq_first"])))
        .withColumn("first", F.col("nth") == F.min("nth").over(same))
        .withColumn("fate_records", F.when(F.col("first"), F.sum("count").over(same)).otherwise(F.lit(0)))
        .where((F.col("nth") <= RUNS_MAX) | F.col("first"))
        .drop("first")
    )


def collected(runs: DataFrame) -> list[RecordRange]:
    """The ranges on the driver, in the order of the verdict."""
    order = [BUNDLE, "kind", "nth"]
    return [_range(row) for row in runs.orderBy(*order).select(*_COLUMNS).collect()]


def _range(row: Row) -> RecordRange:
    excuse = None if row["excuse"] is None else convert(row["excuse"].asDict(recursive=True), Excused)
    return RecordRange(**{**row.asDict(), "excuse": excuse})
