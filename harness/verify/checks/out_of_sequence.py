"""out_of_sequence: the log of a replica has a batch of an idempotent producer that a leader must refuse.

A leader takes a batch of a producer that it knows only if it follows directly on the last one: its first sequence
number is the next one, or 0 in a higher producer epoch (KIP-98, KIP-360). So within one log no sequence number is
missing between two batches of one epoch, and no batch has a lower epoch than one before it. A missing batch was
overtaken, or lost; a lower epoch is that of a client that was fenced.

Logs of which a cleaner may have removed batches are left out, and those of a run in which records on a disk were
damaged, and two batches with offsets between them that the disk lacks. A producer that did not write for
producer.id.expiration.ms may begin anywhere (KIP-854).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.clock import CLOCKS_MS
from harness.model.facts import FactKind
from harness.model.finding import Kind
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.steps import facts_in
from harness.verify.engine.tables import BUNDLE, PLACE, frame
from harness.verify.excuses.config_history import compacted_until
from harness.verify.promise import Check, Introduced, span

_HARM: Final = (FactKind.DATA_LOST, FactKind.DISK_DAMAGED)
_BATCH: Final = ("producer_id", "producer_epoch", "base_sequence")
_SEQUENCES: Final = 2**31  # after the highest number comes 0


class Follows(Reason):
    """How a batch does not follow on the one before it, whose offset is `other`."""

    GAP = "sequence_gap", "Sequence numbers are missing between two batches of one producer epoch."
    BEGIN = "sequence_begin", "A new producer epoch begins with another sequence number than 0."
    OLDER = "older_producer", "The batch has a lower producer epoch than one before it."


def out_of_sequence(given: Prepared) -> DataFrame:
    """The first offset of each such batch, once for all replicas."""
    topics = [
        (n, name, case.contract.producer_expiration_ms)
        for n, case in enumerate(given.cases)
        for name in case.contract.topics
        if compacted_until(case, name) is None and not any(facts_in(case.steps, *_HARM))
    ]
    judged = F.broadcast(frame(given.spark, {"topic": "string", "expiration_ms": "int64"}, topics))
    log = Window.partitionBy(*PLACE, "broker").orderBy("base_offset")
    hole = F.coalesce(F.col("base_offset") != F.lag("last_offset").over(log) + 1, F.lit(True))
    batches = given.batches.where("broker >= 0").join(judged, [BUNDLE, "topic"]).withColumn("hole", hole.cast("int"))
    sent = batches.withColumn("holes", F.sum("hole").over(log)).where("producer_id >= 0")
    # A batch that is there twice is judged as duplicated.
    again = Window.partitionBy(*PLACE, "broker", *_BATCH).orderBy("base_offset")
    sent = sent.withColumn("nth", F.row_number().over(again))
    sent = sent.where("control IS NOT NULL OR (base_sequence >= 0 AND nth = 1)")
    before = Window.partitionBy(*PLACE, "broker", "holes", "producer_id").orderBy("base_offset")
    data = F.col("control").isNull()
    end = F.when(data, (F.col("base_sequence") + F.col("count")) % _SEQUENCES)
    earlier = before.rowsBetween(Window.unboundedPreceding, -1)
    rows = sent.withColumns(
        {
            "highest": F.max("producer_epoch").over(earlier),
            "next": F.last(end, ignorenulls=True).over(earlier),
            "next_of": F.last(F.when(data, F.col("producer_epoch")), ignorenulls=True).over(earlier),
            "last": F.last(F.when(data, F.col("base_offset")), ignorenulls=True).over(earlier),
            "last_ms": F.max("max_timestamp_ms").over(earlier),
            "older": F.lag("base_offset").over(before),
        }
    )
    reason = (
        F.when(F.col("producer_epoch") < F.col("highest"), F.lit(Follows.OLDER))
        .when(data & (F.col("producer_epoch") > F.col("highest")) & (F.col("base_sequence") != 0), F.lit(Follows.BEGIN))
        .when(
            data & (F.col("producer_epoch") == F.col("next_of")) & (F.col("base_sequence") != F.col("next")),
            F.lit(Follows.GAP),
        )
    )
    expired = F.col("max_timestamp_ms") - F.col("last_ms") >= F.col("expiration_ms") - CLOCKS_MS
    wrong = rows.withColumn("reason", reason).where("reason IS NOT NULL").where(~expired)
    other = F.when(F.col("reason") == Follows.OLDER, F.col("older")).otherwise(F.coalesce("last", "older"))
    wrong = wrong.withColumn("other", other)
    once = wrong.groupBy(*PLACE, F.col("base_offset").alias("offset")).agg(
        F.min("reason").alias("reason"), F.min("other").alias("other")
    )
    return found(once, Kind.OUT_OF_SEQUENCE, F.col("reason"), reader=F.lit("leader"))


CHECK: Final = Check(
    promise="The batches of an idempotent producer follow directly on each other in every log.",
    kinds={
        Kind.OUT_OF_SEQUENCE: Introduced(
            promise="a leader refuses a batch that does not follow directly on the last one of its producer (KIP-98)"
        )
    },
    seen={
        (Kind.OUT_OF_SEQUENCE, Follows.GAP): lambda run: (
            f"sequence numbers are missing between the batch of this record and the one before it of the producer, at "
            f"{span(run, 'offset')}"
        ),
        (Kind.OUT_OF_SEQUENCE, Follows.BEGIN): lambda run: (
            f"the batch of this record is the first of its producer epoch, and does not begin with sequence number 0; "
            f"the batch before it is at {span(run, 'offset')}"
        ),
        (Kind.OUT_OF_SEQUENCE, Follows.OLDER): lambda run: (
            f"the batch of this record has a lower producer epoch than the one before it, at {span(run, 'offset')}"
        ),
    },
    queries={"out_of_sequence": out_of_sequence},
    nothing_without={"out_of_sequence": "batches"},
    planted=(
        "out_of_sequence_with_a_gap",
        "out_of_sequence_at_the_begin_of_an_epoch",
        "out_of_sequence_in_an_older_epoch",
        "near_out_of_sequence_in_the_next_epoch",
        "near_out_of_sequence_after_expiry",
    ),
)
