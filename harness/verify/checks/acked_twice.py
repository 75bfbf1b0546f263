"""conflicting: two different records were acknowledged with acks=all at one offset.

Below the high watermark an offset always holds the same record. So the record that is not there was truncated after its
acknowledgement, or an acknowledgement named a wrong offset. What permits a truncation, such as an unclean election,
excuses this, too: the earlier of the two was acknowledged before it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import LIBRDKAFKA, Outcome
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.prepared import at_place, is_client, is_own_client
from harness.verify.engine.rows import AckedTwice, found
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD
from harness.verify.promise import Check

_AT: Final = [*PLACE, "offset"]
_SENT: Final = [*RECORD, *PLACE[1:]]  # a record in the partition that it was sent to
_ACK: Final = [*_SENT, "offset", "returned_ns"]
# After a topic was deleted, one of the same name may have acknowledged the record, at an offset of its own.
_ACKED: Final = (
    f"outcome = '{Outcome.ACKED}' AND offset IS NOT NULL AND (deleted_ns IS NULL OR returned_ns < deleted_ns)"
)


def acked_twice(drill: Drill) -> DataFrame:
    """Acknowledged records that the drain does not return, at an offset with another acknowledged record: one that the
    drain returns there, or one that was acknowledged later."""
    streams = drill.given.streams.where("acks = 'all'")
    strong = F.broadcast(
        streams.select(BUNDLE, "stream", is_own_client().alias("own"), is_client(LIBRDKAFKA).alias("librdkafka"))
    )
    several = _of_several(drill)
    known = several.join(strong, [BUNDLE, "stream"])
    missing = known.where("here").drop("here").join(drill.read.select(*_SENT), _SENT, "left_anti")
    others = known.drop("here").distinct()
    others = others.join(_shown(drill, several), [*_SENT, "offset"], "left")
    renamed = {name: f"other_{name}" for name in ("stream", "seq", "returned_ns", "own", "librdkafka")}
    pairs = missing.join(others.withColumnsRenamed(renamed), _AT)
    different = (F.col("stream") != F.col("other_stream")) | (F.col("seq") != F.col("other_seq"))
    order = ("returned_ns", "stream", "seq")
    later = F.struct(*(F.col(f"other_{name}").alias(name) for name in order)) > F.struct(*order)
    pairs = pairs.where(different & (F.col("shown").isNotNull() | later))
    proven = F.col("own") & (F.col("shown").isNotNull() | F.col("other_own"))
    of_librdkafka = F.col("librdkafka") | (F.col("shown").isNull() & F.col("other_librdkafka"))
    rows = pairs.groupBy(*_SENT, "offset").agg(
        F.max(proven).alias("proven"),
        F.max(of_librdkafka).alias("of_librdkafka"),
        (F.count("*") + 1).alias("acked"),
    )
    reason = (
        F.when(F.col("proven"), F.lit(AckedTwice.PROVEN))
        .when(F.col("of_librdkafka"), F.lit(AckedTwice.LIBRDKAFKA))
        .otherwise(F.lit(AckedTwice.UNKNOWN))
    )
    return found(rows, Kind.CONFLICTING, reason, other="acked")


def _of_several(drill: Drill) -> DataFrame:
    """The records at offsets at which several were acknowledged. `here`: from a bucket with a difference, so it may be
    missing. The others are from the whole ledger, which has the records of these buckets, too.

    Retention deletes whole buckets, and nearly all of their records have an offset of their own. So the offsets of
    several records are found first, by one number for each.
    """
    sent = drill.sent.where(_ACKED).where(drill.given.complete).select(*_ACK)
    # The ledger is searched for a record that the drain returns; but not below the log start, where it returns nothing.
    in_log = at_place(sent, drill.given.places).where("log_start IS NULL OR offset >= log_start")
    in_log = kept(in_log.join(drill.read.select(*_SENT), _SENT, "left_anti").select(*_AT))
    elsewhere = narrowed(drill.given.ledger, in_log, "partition", "offset").where(_ACKED).select(*_ACK)
    elsewhere = elsewhere.join(in_log.distinct(), _AT, "left_semi")
    near = sent.withColumn("here", F.lit(True)).unionByName(elsewhere.withColumn("here", F.lit(False)))
    near = near.withColumns({"at": F.xxhash64(*_AT), "record": F.xxhash64("stream", "seq")})
    at = near.groupBy("at").agg(F.min("record").alias("least"), F.max("record").alias("most"))
    several = F.broadcast(kept(at.where("least <> most").select("at")))
    return kept(near.join(several, "at", "left_semi").drop("at", "record"))


def _shown(drill: Drill, acked: DataFrame) -> DataFrame:
    """Those of these records that the drain returns at their offset."""
    given = drill.given
    keys = [*_SENT, "offset"]
    read = narrowed(given.observations, acked, "stream", "offset").where(given.drained)
    read = read.select(*keys).join(acked.select(*keys), keys, "left_semi")
    return read.distinct().withColumn("shown", F.lit(True))


CHECK: Final = Check(
    promise="No two records are acknowledged at one offset.",
    seen={
        (Kind.CONFLICTING, AckedTwice.PROVEN): lambda run: (
            f"the record is missing, and another record was acknowledged at its offset, too; acknowledgements named "
            f"the offset for up to {run.other_last} records"
        ),
    },
    no_findings=frozenset({AckedTwice.LIBRDKAFKA, AckedTwice.UNKNOWN}),
    beside=frozenset(AckedTwice),  # a contradiction within the ledger is named beside the loss that it causes
    queries={"acked_twice": acked_twice},
    nothing_without={"acked_twice": "drill.sent"},
    planted=(
        "acked_twice_and_deleted",
        "acked_twice_and_lost",
        "near_conflicting_acked_twice_to_another_client",
        "near_conflicting_acked_once",
    ),
)
