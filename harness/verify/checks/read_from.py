"""Reads that started at an arbitrary offset: they must return the first record at that offset or after it.

Compared with the drain of the same isolation. Gaps between records that a read returned, and other records than in the
drain, are found by other checks, which treat these reads as live readers with a session each.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.verify.checks.offset_lookup import Named
from harness.verify.engine.fingerprints import OFFSET_BITS, offset_bucket
from harness.verify.engine.kept import kept
from harness.verify.engine.prepared import Prepared, at_place
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.tables import BUNDLE, PLACE, is_committed, is_drain, is_live
from harness.verify.promise import Check, span

_READ: Final = [BUNDLE, "reader", "session", "isolation", *PLACE[1:]]


class ReadFrom(Reason):
    """The defect of a read that started at an offset."""

    PASSED = "from", "It did not return a record at its start or after it."
    DENIED = "denied", "The leader called its start out of range, and the log has it."
    SERVED = "served", "It returned a record below the log start."


def read_from(given: Prepared) -> DataFrame:
    """Records that these reads passed over or were denied, and records that they returned although these are deleted
    or older than requested."""
    probes = F.broadcast(given.probes.withColumnRenamed("offset", "asked"))
    readers = F.broadcast(given.probes.select(BUNDLE, "reader").distinct())
    seen = given.observations.where(is_live()).join(readers, [BUNDLE, "reader"], "left_semi")
    seen = kept(seen.select(*_READ, "offset", "stream", "seq", "timestamp_ms"))
    firsts = seen.groupBy(*_READ).agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    reads = kept(probes.join(firsts, _READ, "left").where(given.complete))
    passed = _passed(given, reads)
    return passed.unionByName(_denied(given, reads)).unionByName(_wrongly_returned(seen, probes))


def _passed(given: Prepared, reads: DataFrame) -> DataFrame:
    """Records that exist below the first returned record, or below the reported end. Records that were deleted
    before the read ended are left out."""
    start = F.greatest(F.col("asked"), F.coalesce("log_start_after", F.lit(0)))
    ended = F.when(F.col("reported") == "end", F.col("end_offset"))
    before = reads.select(*_READ, "asked", start.alias("low"), F.coalesce("first", ended).alias("below"))
    behind = reads.where("first IS NOT NULL").select(
        *_READ, "asked", F.greatest(start, F.col("last") + 1).alias("low"), ended.alias("below")
    )
    spans = before.unionByName(behind).where("low < below")
    buckets = F.sequence(F.shiftright("low", OFFSET_BITS), F.shiftright(F.col("below") - 1, OFFSET_BITS))
    spans = kept(spans.withColumn("bucket", F.explode(buckets)))
    keys = [BUNDLE, "isolation", *PLACE[1:], "bucket"]
    there = given.observations.where(is_drain()).withColumn("bucket", offset_bucket())
    there = there.select(*keys, "offset", "stream", "seq").join(F.broadcast(spans), keys)
    rows = there.where("offset >= low AND offset < below")
    return found(rows, Kind.SKIPPED_READ, ReadFrom.PASSED, other="asked")


def _denied(given: Prepared, reads: DataFrame) -> DataFrame:
    """Offsets above the log start and below the drain's position that a leader called out of range: the offset after
    the last returned record."""
    rows = at_place(
        reads.where("reported = 'out_of_range' AND asked >= log_start_after"), given.places.drop("log_start")
    )
    position = F.when(is_committed(), F.col("committed")).otherwise(F.col("uncommitted"))
    rows = rows.withColumn("denied", F.coalesce(F.col("last") + 1, F.col("asked"))).where(F.col("denied") < position)
    return found(
        rows, Kind.SKIPPED_READ, ReadFrom.DENIED, offset="denied", stream=None, seq=None, other="log_start_after"
    )


def _wrongly_returned(seen: DataFrame, probes: DataFrame) -> DataFrame:
    """Records below the log start as it was before the read, and records older than the time for which the leader
    named their offset."""
    rows = seen.join(probes, _READ)
    deleted = rows.where("offset < log_start")
    early = rows.where("why = 'time' AND offset = asked AND timestamp_ms < time_ms")
    return found(deleted, Kind.LOG_START, ReadFrom.SERVED, stream=None, seq=None, other="log_start").unionByName(
        found(early, Kind.OFFSET_LOOKUP, Named.EARLY, reader=F.lit("leader"), other="time_ms")
    )


CHECK: Final = Check(
    promise="A read that starts at any offset of the log returns the records from there on.",
    seen={
        (Kind.SKIPPED_READ, ReadFrom.PASSED): lambda run: (
            f"a read that started at {span(run, 'offset')} did not return the record"
        ),
        (Kind.SKIPPED_READ, ReadFrom.DENIED): lambda run: (
            f"the leader answered that the record is out of range, and the log starts at {span(run, 'offset')}"
        ),
        (Kind.LOG_START, ReadFrom.SERVED): lambda run: (
            f"a reader received the record, although the log started at {span(run, 'offset')}"
        ),
    },
    queries={"read_from": read_from},
    nothing_without={"read_from": "probes"},
    planted=(
        "skipped_read_from_an_offset",
        "skipped_read_by_a_member_that_continues",
        "skipped_read_of_an_offset_that_is_denied",
        "skipped_read_before_a_false_end",
        "near_skipped_read_of_what_is_deleted_meanwhile",
        "near_skipped_read_that_timed_out",
        "conflicting_for_a_read_from_an_offset",
        "log_start_below_which_records_are_served",
        "near_log_start_returned_for_a_read_below_it",
    ),
)
