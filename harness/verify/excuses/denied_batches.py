"""The cause of a producer's new epoch, for clients that report their failed tries: a broker's answer, or the client.

A client that got no answer may send a batch again under a new epoch, in which no broker can recognise it. It may also
do so because a broker refused a sequence number or a producer. Such an answer is wrong if the log had the refused
batch, or the one before it, when the broker gave it (KIP-98): then the release caused the copies, and not the client.

A refused batch may also be in the log because an older request for it arrived late. So the answer is proven wrong only
if the same broker had appended the batch before: an acknowledgement at a higher offset came before the request was
made, or the broker had reported a failure after its append. A refused batch in the log without that proof is a doubt.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from harness.model.history.changes import NO_LEADER
from harness.model.outcome import Outcome
from harness.model.schemas import Columns
from harness.verify.engine.case import Case
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, frame

CAUSE: Final = "cause"
RELEASE: Final = "release"
UNCLEAR: Final = "unclear"
CLIENT: Final = "client"
IDENTITY: Final = ["producer_id", "producer_epoch"]
_GAP: Final = "OUT_OF_ORDER_SEQUENCE_NUMBER"
# Answers by which a broker refuses a sequence number or a producer.
_DENIALS: Final = (_GAP, "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING")
# Answers of a broker that has appended the batch.
_APPENDED: Final = ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT")
_COLUMNS: Final[Columns] = {"producer_id": "int64", "producer_epoch": "int32", CAUSE: "string"}
_OF_BATCH: Final = ("base_sequence", "count", "base_offset", "last_offset", "leader_epoch", "transactional")
_BATCH: Final = [*PLACE, *IDENTITY, "denied"]  # `denied`: the base sequence of a refused batch
_DENIED: Final = [*_BATCH, "sent_ns", "denied_by", "is_gap"]


def causes(given: Prepared) -> DataFrame:
    """By producer id and epoch of the batches with failed tries: what caused the client to raise the epoch."""
    failed = given.failed_sends.where("producer_id >= 0")
    denied = kept(_denied(failed))
    standing = kept(_standing(denied, given.batches))
    proofs = _appended_by(_acked_above(standing, given.ledger), failed)
    decided: dict[tuple[int, int, int], str] = {}
    for row in proofs.collect():
        leads = _leader(given.cases[row[BUNDLE]], row) == row["denied_by"]
        # A snapshot, from which a broker restores its state of producers, has only the last batch of each.
        proven = row["is_last"] and (row["appended"] or (row["acked_above"] and leads))
        proven = proven and not row["transactional"]  # a client that another one replaced is refused, as it must be
        key = (row[BUNDLE], row["producer_id"], row["producer_epoch"])
        decided[key] = RELEASE if proven or decided.get(key) == RELEASE else UNCLEAR
    answers = F.broadcast(frame(given.spark, _COLUMNS, [(*key, cause) for key, cause in sorted(decided.items())]))
    every = failed.select(BUNDLE, *IDENTITY).distinct().join(answers, [BUNDLE, *IDENTITY], "left")
    return every.withColumn(CAUSE, F.coalesce(CAUSE, F.lit(CLIENT)))


def _denied(failed: DataFrame) -> DataFrame:
    """The batches that brokers refused, with their last request and its broker."""
    return (
        failed.where(F.col("error").isin(*_DENIALS))
        .groupBy(*PLACE, *IDENTITY, F.col("base_sequence").alias("denied"))
        .agg(
            F.max("sent_ns").alias("sent_ns"),
            F.max_by("broker", "sent_ns").alias("denied_by"),
            F.max(F.col("error") == _GAP).alias("is_gap"),
        )
    )


def _standing(denied: DataFrame, batches: DataFrame) -> DataFrame:
    """Refused batches that are in the log, or that follow one that is there, with the sequence, the last offset and the
    leader epoch of that one. `is_last`: no later one has its producer epoch."""
    headers = narrowed(batches.where("control IS NULL"), denied, "producer_id")
    headers = headers.select(*PLACE, *IDENTITY, *_OF_BATCH)
    there = headers.distinct().join(F.broadcast(denied), [*PLACE, *IDENTITY])
    last = F.max("base_offset").over(Window.partitionBy(*_BATCH))
    there = there.withColumns(
        {"is_last": F.col("base_offset") == last, "same": F.col("base_sequence") == F.col("denied")}
    )
    before = F.col("is_gap") & (F.col("base_sequence") + F.col("count") == F.col("denied"))
    return there.where((F.col("base_sequence") == F.col("denied")) | before).drop("count", "base_offset")


def _acked_above(standing: DataFrame, ledger: DataFrame) -> DataFrame:
    """With `acked_above`: whether a record above the batch was acknowledged before the refused request was made."""
    acked = narrowed(ledger.where(F.col("outcome") == Outcome.ACKED.value), standing, "topic", "partition")
    acked = acked.select(*PLACE, "offset", "returned_ns").join(F.broadcast(standing), PLACE)
    before = acked.where((F.col("offset") > F.col("last_offset")) & (F.col("returned_ns") < F.col("sent_ns")))
    proven = before.select(*_BATCH, "last_offset").distinct().withColumn("acked_above", F.lit(True))
    joined = standing.join(proven, [*_BATCH, "last_offset"], "left")
    return joined.withColumn("acked_above", F.coalesce("acked_above", F.lit(False)))


def _appended_by(standing: DataFrame, failed: DataFrame) -> DataFrame:
    """With `appended`: whether the broker of the refused request had answered before that it had appended the batch."""
    appended = failed.where(F.col("error").isin(*_APPENDED)).select(
        *PLACE, *IDENTITY, "base_sequence", F.col("broker").alias("denied_by"), F.col("sent_ns").alias("appended_ns")
    )
    keys = [*PLACE, *IDENTITY, "base_sequence", "denied_by"]
    first = narrowed(appended, standing, "producer_id").groupBy(*keys).agg(F.min("appended_ns").alias("appended_ns"))
    earlier = F.col("appended_ns") <= F.col("sent_ns")
    return standing.join(first, keys, "left").withColumn("appended", F.coalesce(earlier, F.lit(False)))


def _leader(case: Case, batch: Row) -> int | None:
    """The leader that appended a batch, by its leader epoch; None = unknown."""
    if case.history is not None:
        for state in case.history.partition(batch["topic_id"], batch["partition"]):
            if state.leader_epoch == batch["leader_epoch"] and state.leader != NO_LEADER:
                return state.leader
    last = [row for row in case.last_partitions if (row.topic, row.partition) == (batch["topic"], batch["partition"])]
    return next((row.leader for row in last if row.leader_epoch == batch["leader_epoch"]), None)
