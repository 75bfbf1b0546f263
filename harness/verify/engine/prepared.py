"""The tables of all bundles as every check gets them: joined with the outcomes of transactions and the state of
places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.model.contract.contract import APPEND_TIME
from harness.model.outcome import JAVA_CLIENTS, Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.verify.engine.case import COMMITTED, UNCOMMITTED, Case, other_drains, places_of
from harness.verify.engine.fingerprints import ledger_buckets, ledger_groups
from harness.verify.engine.kept import kept
from harness.verify.engine.numbered import LANE, READER, WHO, place_number, reader_number
from harness.verify.engine.tables import (
    BUNDLE,
    OTHER_DRAIN,
    PLACE,
    RECORDED,
    Frames,
    Values,
    frame,
    is_committed,
    is_drain,
)
from harness.verify.engine.windows import windows_of
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
_READERS: Final[Columns] = dict.fromkeys(READER, "string")
_OTHERS: Final[Columns] = {
    "reader": "string",
    "isolation": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "is_other": "bool",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Frames of all bundles, with the column `bundle` first.

    ledger: with `txn` (outcome of the transaction; null = none), `deleted_ns` (see `with_deletions`), `promised`
    (acknowledged, committed if transactional, and the topic not deleted), `due_from_ns` and `due_to_ns` (the limits of
    the record's timestamp). streams: one row for each stream: producer, acks, idempotent, transactional, client,
    tries_recorded, place, end_seq; from the ledger its rows and sent_seq, the sequence number after the last one.
    groups, sent: `fingerprints.ledger_groups`, `ledger_buckets`.
    windows: `windows.windows_of`. places: one row for each topic-partition after healing. numbered_places,
    numbered_readers: those that documents and small tables name, with their numbers (`numbered.named`).
    """

    spark: SparkSession
    cases: Sequence[Case]
    ledger: DataFrame
    groups: DataFrame
    sent: DataFrame
    streams: DataFrame
    windows: DataFrame
    observations: DataFrame
    transactions: DataFrame
    offset_commits: DataFrame
    processed: DataFrame
    deliveries: DataFrame
    batches: DataFrame
    failed_sends: DataFrame
    failed_calls: DataFrame
    places: DataFrame
    numbered_places: DataFrame
    numbered_readers: DataFrame
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
        """Whether the run of a row finished."""
        unfinished = [n for n, case in enumerate(self.cases) if not case.complete]
        return ~F.col(BUNDLE).isin(unfinished) if unfinished else F.lit(True)

    @property
    def drained(self) -> Column:
        """Observations that show the contents of the log. For a run that did not finish: everything that any reader
        received."""
        return is_drain() | ~self.complete

    @property
    def drained_uncommitted(self) -> set[int]:
        """Bundles of runs with a drain with read_uncommitted."""
        return {
            n
            for n, case in enumerate(self.cases)
            if any(read.kind == "drain" and read.isolation == UNCOMMITTED for read in case.reads)
        }

    @property
    def widest_read(self) -> Column:
        """Those of the observations in `drained` that show the most: of two drains the one with read_uncommitted."""
        wanted = F.when(F.col(BUNDLE).isin(self.drained_uncommitted), ~is_committed()).otherwise(F.lit(True))
        return self.drained & (wanted | ~self.complete)


def prepare(spark: SparkSession, cases: Sequence[Case], frames: Frames) -> Prepared:
    """Joins the tables with each other, and computes what is few rows: streams, and one aggregate over the ledger."""
    transactions = frames["transactions"]
    reserved = kept(_reserved(frames["reservations"]))
    ledger = with_deletions(_ledger(frames["ledger"], transactions), spark, cases)
    ledger = _timed(ledger, reserved, spark, cases)
    windows = windows_of(spark, cases)
    places = frame(spark, _PLACES, [row for n, case in enumerate(cases) for row in _place_rows(n, case)])
    numbered_places = _numbered_places(places, reserved)
    groups = ledger_groups(ledger, windows)
    sent = ledger_buckets(groups, numbered_places, ledger)
    return Prepared(
        spark=spark,
        cases=cases,
        ledger=ledger,
        groups=groups,
        sent=sent,
        streams=kept(_streams(reserved, sent)),
        windows=windows,
        observations=_observations(frames["observations"], spark, cases),
        transactions=transactions,
        offset_commits=frames["offset_commits"],
        processed=frames["processed"],
        deliveries=frames["deliveries"],
        batches=frames["batches"],
        failed_sends=frames["failed_sends"],
        failed_calls=frames["failed_calls"],
        places=places,
        numbered_places=numbered_places,
        numbered_readers=_numbered_readers(spark, cases, frames["probes"]),
        admin_ops=frames["admin_ops"],
        admin_views=frames["admin_views"],
        lookups=frames["lookups"],
        epoch_ends=frames["epoch_ends"],
        probes=frames["probes"],
        tier_metadata=frames["tier_metadata"],
        tier_objects=frames["tier_objects"],
        tier_replicas=frames["tier_replicas"],
    )


def is_client(name: str) -> Column:
    """Whether the client of this name, of any version, wrote a stream; False if it is unknown what wrote it."""
    return F.coalesce(F.substring_index("client", " ", 1) == name, F.lit(False))


def is_own_client() -> Column:
    """Whether the release's own client wrote a stream."""
    return is_client(JAVA_CLIENTS)


def at_place(rows: DataFrame, places: DataFrame) -> DataFrame:
    """Rows with the facts of their topic-partition; null where nothing is known."""
    return rows.join(F.broadcast(places), PLACE, "left")


def maybe_transactional(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows of streams that may have transactions: also those without a reservation, of which nothing is known."""
    may = given.streams.where(F.coalesce("transactional", F.lit(True))).select(BUNDLE, "stream")
    return rows.join(F.broadcast(may), [BUNDLE, "stream"], "left_semi")


def _observations(read: DataFrame, spark: SparkSession, cases: Sequence[Case]) -> DataFrame:
    """Reads from arbitrary offsets count as live readers, because the log must contain what they received. Of several
    drains of a place only one is the drain."""
    others = [(n, r.reader, r.isolation, *r.place, True) for n, case in enumerate(cases) for r in other_drains(case)]
    if others:  # otherwise each row would cost more, and Spark could not skip the files of other readers
        known = F.broadcast(frame(spark, _OTHERS, others))
        read = read.join(known, [BUNDLE, *list(_OTHERS)[:-1]], "left")
        is_other = (F.col("kind") == "drain") & F.coalesce("is_other", F.lit(False))
        read = read.withColumn("kind", F.when(is_other, F.lit(OTHER_DRAIN)).otherwise(F.col("kind"))).drop("is_other")
    probed = F.when(F.col("kind") == "probe", F.lit("live")).otherwise(F.col("kind"))
    return read.withColumns({"kind": probed, RECORDED: F.col("kind")})


def _ledger(ledger: DataFrame, transactions: DataFrame) -> DataFrame:
    ended = transactions.select(BUNDLE, "txn_id", F.col("outcome").alias("_ended"))
    # A transaction has an unknown outcome if its row was lost in a crash.
    unknown = F.when(F.col("txn_id").isNotNull(), F.lit(TxnOutcome.UNKNOWN.value))
    promised = (F.col("outcome") == Outcome.ACKED.value) & (
        F.col("txn_id").isNull() | F.col("txn").eqNullSafe(TxnOutcome.COMMITTED.value)
    )
    joined = ledger.join(ended, [BUNDLE, "txn_id"], "left")
    return joined.withColumn("txn", F.coalesce("_ended", unknown)).withColumn("promised", promised).drop("_ended")


def _timed(rows: DataFrame, reserved: DataFrame, spark: SparkSession, cases: Sequence[Case]) -> DataFrame:
    """The ledger with the limits of each timestamp: call and acknowledgement, minus the producer's backdating unless
    the topic uses LogAppendTime."""
    back = [
        (n, name, producer.backdated_ms)
        for n, case in enumerate(cases)
        for name, producer in case.contract.producers.items()
        if producer.backdated_ms
    ]
    by_ns = F.lit(0)
    if back:
        dated = F.broadcast(frame(spark, {"producer": "string", "back_ms": "int64"}, back))
        dated = reserved.join(dated, [BUNDLE, "producer"]).join(
            _own_times(spark, cases), [BUNDLE, "topic"], "left_anti"
        )
        dated = dated.select(BUNDLE, "stream", "back_ms")
        rows = rows.join(F.broadcast(dated), [BUNDLE, "stream"], "left")
        by_ns = F.coalesce("back_ms", F.lit(0)) * 10**6
    rows = rows.withColumns({"due_from_ns": F.col("called_ns") - by_ns, "due_to_ns": F.col("returned_ns") - by_ns})
    return rows.drop("back_ms")


def _own_times(spark: SparkSession, cases: Sequence[Case]) -> DataFrame:
    """Topics with LogAppendTime."""
    rows = [
        (n, name)
        for n, case in enumerate(cases)
        for name, topic in case.contract.topics.items()
        if topic.timestamp_type == APPEND_TIME
    ]
    return F.broadcast(frame(spark, {"topic": "string"}, rows))


def _reserved(reservations: DataFrame) -> DataFrame:
    """One row for each reserved stream."""
    return (
        reservations.where(F.col("stream").isNotNull())  # the last line may be incomplete
        .groupBy(BUNDLE, "stream")
        .agg(
            F.max("producer").alias("producer"),
            *[F.max(c).alias(c) for c in ("topic", "topic_id", "partition")],
            F.max("end_seq").alias("end_seq"),
            F.max("acks").alias("acks"),  # "0" < "1" < "all"
            F.max("idempotent").alias("idempotent"),
            F.max("transactional").alias("transactional"),
            F.max("client").alias("client"),
            F.coalesce(F.max("tries_recorded"), F.lit(False)).alias("tries_recorded"),
        )
    )


def _streams(reserved: DataFrame, sent: DataFrame) -> DataFrame:
    """One row for each stream, from its reservations. Evidence by other clients may lack them: then from the ledger.
    sent: `fingerprints.ledger_buckets`."""
    sent = sent.groupBy(BUNDLE, "stream").agg(
        *[F.max(c).alias(f"_{c}") for c in PLACE[1:]],
        (F.max("last_seq") + 1).alias("_end_seq"),
        F.sum("attempted").alias("rows"),
    )
    both = reserved.join(sent, [BUNDLE, "stream"], "full_outer")
    return both.select(
        BUNDLE,
        "stream",
        "producer",
        "acks",
        "idempotent",
        "transactional",
        "client",
        F.coalesce("tries_recorded", F.lit(False)).alias("tries_recorded"),
        F.coalesce("rows", F.lit(0)).alias("rows"),
        F.coalesce("_end_seq", F.lit(0)).alias("sent_seq"),
        *[F.coalesce(c, f"_{c}").alias(c) for c in ("topic", "topic_id", "partition")],
        F.greatest(F.coalesce("end_seq", F.lit(0)), F.coalesce("_end_seq", F.lit(0))).alias("end_seq"),
    )


def _numbered_places(places: DataFrame, reserved: DataFrame) -> DataFrame:
    known = places.select(*PLACE).unionByName(reserved.select(*PLACE)).distinct()
    return kept(known.withColumn(LANE, place_number()))


def _numbered_readers(spark: SparkSession, cases: Sequence[Case], probes: DataFrame) -> DataFrame:
    rows = [
        (n, *reader)
        for n, case in enumerate(cases)
        for reader in [
            *((read.kind, read.reader, read.isolation) for read in case.reads),
            *((OTHER_DRAIN, read.reader, read.isolation) for read in other_drains(case)),
            *(("live", of.name, level) for of in case.scenario.readers or () for level in (COMMITTED, UNCOMMITTED)),
        ]
    ]
    probed = probes.select(BUNDLE, F.lit("live").alias("kind"), "reader", "isolation")
    known = frame(spark, _READERS, dict.fromkeys(rows)).unionByName(probed).distinct()
    return kept(known.withColumn(WHO, reader_number()))


def _place_rows(number: int, case: Case) -> list[Values]:
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
