"""What every in-sync replica's disk of a compacted topic must hold, whatever its cleaner has removed.

Each replica compacts its own copy. A cleaner keeps the base offset, the last offset, the epoch and the producer of each
batch of which it keeps something, and writes the batch anew if it removes records of it or dates a tombstone in it. It
keeps the newest value of each key, and does not touch the last segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.schemas import Columns
from harness.verify.engine.case import Case
from harness.verify.engine.kept import kept
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, Values, frame
from harness.verify.excuses.client_faults import within
from harness.verify.excuses.compaction.must_stay import must_stay
from harness.verify.excuses.config_history import compacted_until
from harness.verify.excuses.retention import may_delete

_COPY: Final = [*PLACE, "broker"]
_COPIES: Final[Columns] = {
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "broker": "int32",
    "start": "int64",  # the highest one of all replicas
    "end": "int64",  # the high watermark, or the end of this replica's log if that is lower
    "moving": "bool",  # retention may have raised the start since
}
# Headers that a cleaner does not change.
KEPT: Final = ("last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")


def compacted_copies(given: Prepared) -> DataFrame | None:
    """The in-sync copies of compacted topics of which the disks were read; None if there are none."""
    rows = [row for n, case in enumerate(given.cases) for row in _copies(n, case)]
    if not rows:
        return None
    read = given.batches.select(BUNDLE, "broker").distinct()  # disks that were not read prove nothing
    return kept(frame(given.spark, _COPIES, rows).join(F.broadcast(read), [BUNDLE, "broker"], "left_semi"))


def on_disks(given: Prepared, copies: DataFrame) -> DataFrame:
    """Their batches at or above the log start and below the high watermark."""
    columns = (*_COPY, "base_offset", "count", "crc_ok", "control", *KEPT)
    batches = given.batches.select(*columns).join(F.broadcast(copies), _COPY)
    return kept(batches.where("last_offset >= start AND base_offset < end"))


def form(columns: Iterable[str]) -> Column:
    """Columns of a batch as one value, which is the same only if all of them are. Null counts as an empty text."""
    return F.struct(*[F.coalesce(F.col(c).cast("string"), F.lit("")) for c in columns])


def different(on_disk: DataFrame) -> DataFrame:
    """Base offsets at which the headers of copies differ, with `last_offset` and `brokers`."""
    # The sort of a marker is in its record, which may have been removed.
    control = F.when(F.col("count") > 0, F.coalesce("control", F.lit("")))
    by_offset = on_disk.where("base_offset >= start AND last_offset < end").groupBy(*PLACE, "base_offset")
    return by_offset.agg(
        F.greatest(F.count_distinct(form(KEPT)), F.count_distinct(control)).alias("forms"),
        F.max("last_offset").alias("last_offset"),
        F.array_join(F.array_sort(F.collect_set(F.col("broker").cast("string"))), ", ").alias("brokers"),
    ).where("forms > 1")


def lacking(given: Prepared, on_disk: DataFrame, copies: DataFrame) -> DataFrame:
    """Records that must stay and that a disk lacks, with `offset` and `broker`: no batch has them, or their batch has
    fewer records than must stay in it; then the first of these."""
    staying = must_stay(given)
    assert staying is not None  # because there are copies of compacted topics
    wanted = staying.select(*PLACE, "offset").join(F.broadcast(copies.where("NOT moving")), PLACE)
    wanted = kept(wanted.where("offset >= start AND offset < end").select(*_COPY, "offset"))
    batches = on_disk.where("control IS NULL").select(*_COPY, "base_offset", "last_offset", "count")
    by_place = within(batches, wanted.select(*PLACE, "offset").distinct())
    held = by_place.groupBy(*_COPY, "base_offset", "count").agg(
        F.collect_set("offset").alias("offsets"), F.min("offset").alias("first")
    )
    there = held.withColumn("offset", F.explode("offsets")).select(*_COPY, "offset")
    nowhere = wanted.join(there, [*_COPY, "offset"], "left_anti")
    fewer = held.where(F.size("offsets") > F.col("count")).select(*_COPY, F.col("first").alias("offset"))
    return nowhere.unionByName(fewer)


def _copies(number: int, case: Case) -> Iterator[Values]:
    last = case.last_snapshot
    for p in last.partitions if last and case.complete else ():
        if p.high_watermark is None or compacted_until(case, p.topic) is None or not p.logs:
            continue
        start = max(log.log_start for log in p.logs)
        moving = may_delete(case, p.topic)
        for log in p.logs:
            if log.broker in p.isr:
                yield number, *p.place, log.broker, start, min(p.high_watermark, log.log_end), moving
