"""What every check is given: the tables of all bundles, joined with what a transaction and a place are known to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.model.contract.contract import APPEND_TIME
from harness.model.outcome import JAVA_CLIENTS, Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.verify.engine.case import COMMITTED, Case, places_of
from harness.verify.engine.tables import BUNDLE, PLACE, Frames, frame
from harness.verify.excuses.topics_deleted import with_deletions

_PLACES: Final[Columns] = {
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "log_start": "int64",
    "log_end": "int64?",
    "as_of_ns": "int64?",
    "committed": "int64?",
    "committed_reached": "bool",
    "uncommitted": "int64?",
    "uncommitted_reached": "bool",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Frames of all bundles, `bundle` first.

    ledger: with `txn` (outcome of the transaction; null = none), `deleted_ns` (see `deleted`), `promised` (acked,
    committed if transactional, and its topic not deleted), `due_from_ns` and `due_to_ns` (between which lies the time
    that the record bears). streams: one row a stream: producer, acks, idempotent, client,
    place, end_seq; of the ledger its rows and sent_seq, the sequence after the last one. places: a topic-partition
    after healing each.
    """

    spark: SparkSession
    cases: Sequence[Case]
    ledger: DataFrame
    streams: DataFrame
    observations: DataFrame
    transactions: DataFrame
    offset_commits: DataFrame
    processed: DataFrame
    deliveries: DataFrame
    batches: DataFrame
    places: DataFrame
    admin_ops: DataFrame
    admin_views: DataFrame
    lookups: DataFrame
    epoch_ends: DataFrame
    probes: DataFrame
    tier_metadata: DataFrame
    tier_objects: DataFrame
    tier_replicas: DataFrame

    @property
    def complete(self) -> Column:
        """Whether a row's run came to its end."""
        return ~F.col(BUNDLE).isin([n for n, case in enumerate(self.cases) if not case.complete])

    @property
    def drained(self) -> Column:
        """Observations that say what is there. Of a run that died half way, everything that anybody read."""
        return (F.col("kind") == "drain") | ~self.complete

    def places_frame(self, columns: Columns, rows: list[tuple[object, ...]]) -> DataFrame:
        """A small frame of facts by place."""
        return frame(self.spark, {"topic": "string", "topic_id": "string", "partition": "int32", **columns}, rows)


def prepare(spark: SparkSession, cases: Sequence[Case], frames: Frames) -> Prepared:
    """Joins the tables with each other; nothing is computed yet."""
    transactions = frames["transactions"]
    streams = _streams(frames["reservations"], frames["ledger"]).localCheckpoint()
    ledger = with_deletions(_ledger(frames["ledger"], transactions), spark, cases)
    return Prepared(
        spark=spark,
        cases=cases,
        ledger=_timed(ledger, streams, spark, cases),
        streams=streams,
        observations=_observations(frames["observations"]),
        transactions=transactions,
        offset_commits=frames["offset_commits"],
        processed=frames["processed"],
        deliveries=frames["deliveries"],
        batches=frames["batches"],
        places=frame(spark, _PLACES, [row for n, case in enumerate(cases) for row in _place_rows(n, case)]),
        admin_ops=frames["admin_ops"],
        admin_views=frames["admin_views"],
        lookups=frames["lookups"],
        epoch_ends=frames["epoch_ends"],
        probes=frames["probes"],
        tier_metadata=frames["tier_metadata"],
        tier_objects=frames["tier_objects"],
        tier_replicas=frames["tier_replicas"],
    )


def is_committed() -> Column:
    """Observed by a reader that is given committed records only."""
    return F.col("isolation") == COMMITTED


def is_own_client() -> Column:
    """Of a stream: whether the release's own client wrote it."""
    return F.coalesce(F.col("client").startswith(JAVA_CLIENTS), F.lit(False))


def at_place(rows: DataFrame, places: DataFrame) -> DataFrame:
    """Rows with what is known of their topic-partition; null where nothing is."""
    return rows.join(F.broadcast(places), PLACE, "left")


def _observations(read: DataFrame) -> DataFrame:
    """What a read from anywhere was given must be there as what a live reader was given: it counts as one."""
    probed = F.when(F.col("kind") == "probe", F.lit("live")).otherwise(F.col("kind"))
    return read.withColumn("kind", probed)


def _ledger(ledger: DataFrame, transactions: DataFrame) -> DataFrame:
    ended = transactions.select(BUNDLE, "txn_id", F.col("outcome").alias("_ended"))
    # A transaction whose row was lost in a crash ended nobody knows how.
    unknown = F.when(F.col("txn_id").isNotNull(), F.lit(TxnOutcome.UNKNOWN.value))
    promised = (F.col("outcome") == Outcome.ACKED.value) & (
        F.col("txn_id").isNull() | F.col("txn").eqNullSafe(TxnOutcome.COMMITTED.value)
    )
    joined = ledger.join(ended, [BUNDLE, "txn_id"], "left")
    return joined.withColumn("txn", F.coalesce("_ended", unknown)).withColumn("promised", promised).drop("_ended")


def _timed(rows: DataFrame, streams: DataFrame, spark: SparkSession, cases: Sequence[Case]) -> DataFrame:
    """From the call to the answer; of producers that date their records back, so long before, unless the topic bears
    the log's own times."""
    back = [
        (n, name, producer.backdated_ms)
        for n, case in enumerate(cases)
        for name, producer in case.contract.producers.items()
        if producer.backdated_ms
    ]
    by_ns = F.lit(0)
    if back:
        dated = F.broadcast(frame(spark, {"producer": "string", "back_ms": "int64"}, back))
        dated = streams.join(dated, [BUNDLE, "producer"]).join(_own_times(spark, cases), [BUNDLE, "topic"], "left_anti")
        dated = dated.select(BUNDLE, "stream", "back_ms")
        rows = rows.join(F.broadcast(dated), [BUNDLE, "stream"], "left")
        by_ns = F.coalesce("back_ms", F.lit(0)) * 10**6
    rows = rows.withColumns({"due_from_ns": F.col("called_ns") - by_ns, "due_to_ns": F.col("returned_ns") - by_ns})
    return rows.drop("back_ms")


def _own_times(spark: SparkSession, cases: Sequence[Case]) -> DataFrame:
    """Topics whose records bear the time at which their leader got them."""
    rows = [
        (n, name)
        for n, case in enumerate(cases)
        for name, topic in case.contract.topics.items()
        if topic.timestamp_type == APPEND_TIME
    ]
    return F.broadcast(frame(spark, {"topic": "string"}, rows))


def _streams(reservations: DataFrame, ledger: DataFrame) -> DataFrame:
    """A stream is what was reserved for it. By hand, reservations may be lacking: then what the ledger says."""
    reserved = (
        reservations.where(F.col("stream").isNotNull())  # a torn last line
        .groupBy(BUNDLE, "stream")
        .agg(
            F.max("producer").alias("producer"),
            *[F.max(c).alias(c) for c in ("topic", "topic_id", "partition")],
            F.max("end_seq").alias("end_seq"),
            F.max("acks").alias("acks"),  # "0" < "1" < "all"
            F.max("idempotent").alias("idempotent"),
            F.max("client").alias("client"),
        )
    )
    sent = ledger.groupBy(BUNDLE, "stream").agg(
        *[F.max(c).alias(f"_{c}") for c in ("topic", "topic_id", "partition")],
        (F.max("seq") + 1).alias("_end_seq"),
        F.count("*").alias("rows"),
    )
    both = reserved.join(sent, [BUNDLE, "stream"], "full_outer")
    return both.select(
        BUNDLE,
        "stream",
        "producer",
        "acks",
        "idempotent",
        "client",
        F.coalesce("rows", F.lit(0)).alias("rows"),
        F.coalesce("_end_seq", F.lit(0)).alias("sent_seq"),
        *[F.coalesce(c, f"_{c}").alias(c) for c in ("topic", "topic_id", "partition")],
        F.greatest(F.coalesce("end_seq", F.lit(0)), F.coalesce("_end_seq", F.lit(0))).alias("end_seq"),
    )


def _place_rows(number: int, case: Case) -> list[tuple[object, ...]]:
    return [
        (
            number,
            *facts.place,
            facts.log_start,
            facts.log_end,
            facts.as_of_ns,
            facts.committed,
            facts.committed_reached,
            facts.uncommitted,
            facts.uncommitted_reached,
        )
        for facts in places_of(case)
    ]
