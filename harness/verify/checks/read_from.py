"""Reads that began anywhere: the first record that is there, at the offset asked for or after it, is the first given.

What is there is what the drain of the same isolation was given. What a read was given between two records, and what
else it was given than the drain, other checks say: there it counts as a live reader, each with a session of its own.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.engine.fingerprints import OFFSET_BITS, offset_bucket
from harness.verify.engine.prepared import Prepared, at_place, is_committed
from harness.verify.engine.rows import found
from harness.verify.engine.tables import BUNDLE, PLACE

DENIED: Final = "denied"  # how it shows that a leader calls an offset out of range
_READ: Final = [BUNDLE, "reader", "session", "isolation", *PLACE[1:]]


def read_from(given: Prepared) -> DataFrame:
    """What these reads passed over, were denied, and were given that is deleted or older than what was asked for."""
    probes = F.broadcast(given.probes.withColumnRenamed("offset", "asked"))
    readers = F.broadcast(given.probes.select(BUNDLE, "reader").distinct())
    seen = given.observations.where("kind = 'live'").join(readers, [BUNDLE, "reader"], "left_semi")
    seen = seen.select(*_READ, "offset", "stream", "seq", "timestamp_ms").localCheckpoint()
    firsts = seen.groupBy(*_READ).agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    reads = probes.join(firsts, _READ, "left").where(given.complete).localCheckpoint()
    passed = _passed(given, reads)
    return passed.unionByName(_denied(given, reads)).unionByName(_given_wrongly(seen, probes))


def _passed(given: Prepared, reads: DataFrame) -> DataFrame:
    """Below the first record that was given, or below the end that was told, and there. What deletion has taken until
    afterwards is not demanded."""
    start = F.greatest(F.col("asked"), F.coalesce("log_start_after", F.lit(0)))
    ended = F.when(F.col("reported") == "end", F.col("end_offset"))
    before = reads.select(*_READ, "asked", start.alias("low"), F.coalesce("first", ended).alias("below"))
    behind = reads.where("first IS NOT NULL").select(
        *_READ, "asked", F.greatest(start, F.col("last") + 1).alias("low"), ended.alias("below")
    )
    spans = before.unionByName(behind).where("low < below")
    buckets = F.sequence(F.shiftright("low", OFFSET_BITS), F.shiftright(F.col("below") - 1, OFFSET_BITS))
    spans = spans.withColumn("bucket", F.explode(buckets)).localCheckpoint()
    keys = [BUNDLE, "isolation", *PLACE[1:], "bucket"]
    there = given.observations.where("kind = 'drain'").withColumn("bucket", offset_bucket())
    there = there.select(*keys, "offset", "stream", "seq").join(F.broadcast(spans), keys)
    rows = there.where("offset >= low AND offset < below")
    return found(rows, Kind.SKIPPED_READ, "from", other="asked")


def _denied(given: Prepared, reads: DataFrame) -> DataFrame:
    """An offset of the log, above its start and below what the drain came to, that a leader calls out of range: the one
    behind what it gave."""
    rows = at_place(
        reads.where("reported = 'out_of_range' AND asked >= log_start_after"), given.places.drop("log_start")
    )
    position = F.when(is_committed(), F.col("committed")).otherwise(F.col("uncommitted"))
    rows = rows.withColumn("denied", F.coalesce(F.col("last") + 1, F.col("asked"))).where(F.col("denied") < position)
    return found(rows, Kind.SKIPPED_READ, DENIED, offset="denied", stream=None, seq=None, other="log_start_after")


def _given_wrongly(seen: DataFrame, probes: DataFrame) -> DataFrame:
    """Records below the log's start as it was before, and of before a time that the leader named their offset for."""
    rows = seen.join(probes, _READ)
    deleted = rows.where("offset < log_start")
    early = rows.where("why = 'time' AND offset = asked AND timestamp_ms < time_ms")
    return found(deleted, Kind.LOG_START, "served", stream=None, seq=None, other="log_start").unionByName(
        found(early, Kind.OFFSET_LOOKUP, "early", reader=F.lit("leader"), other="time_ms")
    )
