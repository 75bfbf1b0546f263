"""corrupt: the payload, or the timestamp, is not what was sent."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import Outcome
from harness.verify.clocks import without_wrong_clocks
from harness.verify.drill import Drill
from harness.verify.fingerprints import ill_timed
from harness.verify.prepared import Prepared
from harness.verify.rows import found
from harness.verify.tables import BUNDLE, PLACE, RECORD, frame


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


def ill_timed_records(drill: Drill) -> DataFrame:
    """Acknowledged records whose timestamp lies outside of the time from the send to its answer.

    The client's time is that of the call (CreateTime), or so long before as its producer dates records back; the log's
    own (LogAppendTime, KIP-32) lies before the answer: where run.json says so, since others may have times of their own
    choice. What a step did to a broker's clock is the step's.
    """
    ours = [n for n, case in enumerate(drill.given.cases) if case.run.get("timestamps") == "send"]
    sent = drill.sent.where((F.col("outcome") == Outcome.ACKED.value) & F.col(BUNDLE).isin(ours))
    rows = drill.read.where("intact").join(
        sent.select(*RECORD, "called_ns", "returned_ns", "due_from_ns", "due_to_ns"), RECORD
    )
    wrong = ill_timed("oldest_ms") | ill_timed("newest_ms")
    rows = without_wrong_clocks(rows.where(wrong), drill.given)
    return found(rows, Kind.CORRUPT, "timestamp", other="oldest_ms")


def mistyped(given: Prepared) -> DataFrame:
    """Batches on disk whose timestamps are of another type than the topic's `message.timestamp.type` (KIP-32)."""
    columns = {"topic": "string", "declared": "string"}
    topics = [
        (n, name, topic.timestamp_type)
        for n, case in enumerate(given.cases)
        for name, topic in case.contract.topics.items()
    ]
    declared = F.broadcast(frame(given.spark, columns, topics))
    rows = given.batches.where("control IS NULL").join(declared, [BUNDLE, "topic"])
    rows = rows.where("timestamp_type != declared").groupBy(*PLACE, "base_offset").agg(F.min("broker").alias("broker"))
    reader = F.concat(F.lit("broker "), F.col("broker").cast("string"))
    return found(rows, Kind.CORRUPT, "timestamp_type", offset="base_offset", reader=reader)
