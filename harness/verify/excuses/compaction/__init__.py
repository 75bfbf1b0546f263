"""Records that compaction may remove, on each replica at its own time: superseded and aborted ones, expired tombstones.

For each key the visible record with the highest offset stays. A record of unknown outcome replaces what is below it if
it was written; a record of an aborted transaction replaces nothing. A tombstone (null value) deletes its key. It may
itself be removed after delete.retention.ms, and never before the values that it deletes: these would be visible again.
Each replica compacts its own copy, so every copy that was read is judged by these rules. Records that a cleaner cannot
have reached are not excused (see `not_yet_compacted`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.contract.contract import DELETE_RETENTION, MIN_COMPACTION_LAG
from harness.model.excuse import COMPACTION, Evidence, EvidenceKind
from harness.model.finding import Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.verify.checks.lost import Lost
from harness.verify.checks.replica_divergence import Differs
from harness.verify.checks.vanished import Vanished
from harness.verify.engine.case import Case
from harness.verify.engine.kept import kept
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import PassedOver
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, Values, frame, is_committed
from harness.verify.excuse import Excuse
from harness.verify.excuses.compaction.not_yet_compacted import LEADERS, not_cleaned
from harness.verify.excuses.config_history import compacted_until, config_history

_KINDS: Final = (
    Kind.LOST,
    Kind.VANISHED,
    Kind.TORN_TRANSACTION,
    Kind.SKIPPED_READ,
    Kind.REPLICA_DIVERGENCE,
)
# Kinds about any record that somebody received, aborted or not.
_OF_ABORTED: Final = (Kind.VANISHED, Kind.REPLICA_DIVERGENCE)
# Kinds that compare a copy with the log at the end.
_GONE: Final = (Kind.LOST, Kind.VANISHED, Kind.REPLICA_DIVERGENCE)
# Only missing records: another record at the same offset, or the same one in a later leader's batch, is not the work of
# a cleaner.
_LACKING: Final = (Differs.MISSING, Differs.EXTRA)
_TOPICS: Final[Columns] = {
    "topic": "string",
    "until_ns": "int64",
    # Records sent by then may have been compacted away, and tombstones removed.
    "compactable_ns": "int64",
    "tombstone_expiry_ns": "int64",
}
_COPIES: Final[Columns] = {"reader": "string", "of_reader": "int32"}
_KEY: Final = [*PLACE, "key_hash"]
_TOMBSTONE: Final = "null"


def _compacted_away(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `excused_by` where compaction may have removed the record."""
    topics = [(n, *row) for n, case in enumerate(given.cases) for row in _topics(case)]
    if not topics:
        return rows
    compacted = F.broadcast(frame(given.spark, _TOPICS, topics))
    joined = _of_copies(rows, given).join(compacted, [BUNDLE, "topic"], "left")
    for known, on in (
        (_newest(given, compacted), _KEY),
        (_tombstones(given, compacted), [*RECORD, *PLACE[1:]]),
        (_still_there(given, compacted), [*_KEY, "copy"]),
        (_unknown(given, compacted), _KEY),
        (_aborted(given, compacted), [*RECORD, *PLACE[1:]]),
    ):
        joined = joined.join(known, on, "left")
    by_unknown_tombstone = F.coalesce(F.col("returned_ns") <= F.col("unknown_tombstone_ns"), F.lit(False))
    what = F.concat(F.lit("compaction of "), F.col("topic"))
    why = (
        F.when(_superseded() & ~_nothing_newer(), F.concat(what, F.lit(": a later record has the same key")))
        .when(_expired_tombstone(), F.concat(what, F.lit(": it is a tombstone, and delete.retention.ms has passed")))
        .when(
            by_unknown_tombstone & ~_nothing_newer(),
            F.concat(what, F.lit(": a tombstone of unknown outcome may have deleted the key and been removed")),
        )
        .when(
            F.col("is_aborted") & _is_old() & F.col("kind").isin([kind.value for kind in _OF_ABORTED]),
            F.concat(what, F.lit(": nothing of its transaction was committed")),
        )
    )
    divergence = F.col("kind") == Kind.REPLICA_DIVERGENCE.value
    possible = F.col("kind").isin([kind.value for kind in _KINDS]) & (~divergence | F.col("reason").isin(*_LACKING))
    # Nor is a record that a reader passed before the next one of its key was sent, see `skipped_read.by_ledger`.
    possible &= ~F.col("reason").eqNullSafe(Vanished.WRITTEN_AGAIN) & ~F.col("reason").eqNullSafe(PassedOver.ONE)
    joined = kept(joined.withColumn("why", F.when(possible & F.col("excused_by").isNull(), why)))
    perhaps = joined.where("why IS NOT NULL")
    taken = not_cleaned(perhaps, given, compacted).withColumn("excused_by", F.when(~F.col("uncleaned"), F.col("why")))
    lost = F.col("excused_by").isNotNull() & (F.col("kind") == Kind.LOST.value)
    taken = taken.withColumn("reason", F.when(lost, F.lit(Lost.COMPACTED)).otherwise(F.col("reason")))
    return joined.where("why IS NULL").select(*rows.columns).unionByName(taken.select(*rows.columns))


def _of_copies(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with the `copy` to examine: the follower's, if it differs from the leader's, else the leader's. `extra`: the
    record is only in this follower's copy.
    """
    reads = {
        (n, read.reader): read.replica
        for n, case in enumerate(given.cases)
        for read in case.reads
        if read.kind == "replica"
    }
    copies = F.broadcast(frame(given.spark, _COPIES, [(*who, replica) for who, replica in reads.items()]))
    missing, extra = (
        (F.col("kind") == Kind.REPLICA_DIVERGENCE.value) & (F.col("reason") == reason) & F.col("of_reader").isNotNull()
        for reason in _LACKING
    )
    joined = rows.join(copies, [BUNDLE, "reader"], "left")
    copy = F.when(missing | extra, F.col("of_reader")).otherwise(F.lit(LEADERS))
    return joined.withColumns({"copy": copy, "extra": F.coalesce(extra, F.lit(False))}).drop("of_reader")


def _nothing_newer() -> Column:
    """For a record that only a follower has: whether the follower has nothing newer of the key, which cannot have
    been removed before it."""
    return F.col("extra") & ~F.coalesce(F.col("last") > F.col("offset"), F.lit(False))


def _superseded() -> Column:
    newest = F.col("newest.offset")
    # Without an offset: it was acknowledged before the newest record was sent.
    earlier = F.coalesce(F.col("offset") < newest, F.col("returned_ns") <= F.col("newest.called_ns"))
    acked = F.col("outcome") == Outcome.ACKED.value
    return F.coalesce(earlier & (F.col("offset").isNotNull() | acked) & _is_old(), F.lit(False))


def _is_old() -> Column:
    """Whether min.compaction.lag.ms has passed."""
    return F.col("called_ns") <= F.col("compactable_ns")


def _expired_tombstone() -> Column:
    """A tombstone after its time has passed, with no deleted values that are still visible."""
    older = F.coalesce(F.col("first.offset") < F.col("offset"), F.col("first.called_ns") < F.col("called_ns"))
    back = F.col("kind").isin([kind.value for kind in _GONE]) & ~F.col("extra") & F.coalesce(older, F.lit(False))
    old = F.col("called_ns") <= F.least("tombstone_expiry_ns", "until_ns")
    return F.coalesce(F.col("is_tombstone") & old & ~back, F.lit(False))


def _topics(case: Case) -> Iterator[Values]:
    last = case.last_snapshot
    seen_ns = last.at_ns if last else (case.run.ended_ns or case.run.started_ns or 0)
    for name, contract in case.contract.topics.items():
        until_ns = compacted_until(case, name)
        if until_ns is not None:
            lag_ms = _least(case, name, MIN_COMPACTION_LAG, contract.compaction_lag_ms)
            tombstone_ms = _least(case, name, DELETE_RETENTION, contract.delete_retention_ms)
            # Kafka accepts delays beyond the epoch (2**63 - 1 ms = never).
            yield name, until_ns, max(0, seen_ns - lag_ms * 10**6), max(0, seen_ns - tombstone_ms * 10**6)


def _least(case: Case, topic: str, key: str, declared: int) -> int:
    return min(declared if period.value is None else int(period.value) for period in config_history(case, topic, key))


def _newest(given: Prepared, compacted: DataFrame) -> DataFrame:
    """By place and key: where the last record was, as promised or as read_committed returns it, which may have an
    unknown outcome or no acknowledged offset. Records sent after compaction was over replaced nothing."""
    keyed = _keyed(given, compacted).where("called_ns <= until_ns")
    keyed = keyed.select(*RECORD, *PLACE[1:], "key_hash", "called_ns", "offset", "promised")
    both = keyed.where("promised AND offset IS NOT NULL").unionByName(_shown(keyed, given, compacted))
    # Only numbers are aggregated: to keep whole rows Spark would sort all records instead of hashing their keys.
    newest = F.struct(F.max("offset").alias("offset"), F.max_by("called_ns", "offset").alias("called_ns"))
    return both.groupBy(*PLACE, "key_hash").agg(newest.alias("newest"))


def _tombstones(given: Prepared, compacted: DataFrame) -> DataFrame:
    keyed = _keyed(given, compacted).where(F.col("value").eqNullSafe(_TOMBSTONE))
    return keyed.select(*RECORD, *PLACE[1:], F.lit(True).alias("is_tombstone"))


def _still_there(given: Prepared, compacted: DataFrame) -> DataFrame:
    """By key and copy: the first value that is still there, and the offset of the last record."""
    value = ~F.col("value").eqNullSafe(_TOMBSTONE)
    there = _on_copies(_keyed(given, compacted), given, compacted).withColumn("at", F.when(value, F.col("offset")))
    first = F.struct(F.min("at").alias("offset"), F.min_by("called_ns", "at").alias("called_ns"))
    return there.groupBy(*_KEY, "copy").agg(first.alias("first"), F.max("offset").alias("last"))


def _unknown(given: Prepared, compacted: DataFrame) -> DataFrame:
    """By place and key: the last tombstone of unknown outcome that may have been written, deleted its key, and been
    removed before the reads."""
    perhaps = (F.col("outcome") == Outcome.UNKNOWN.value) & F.col("value").eqNullSafe(_TOMBSTONE)
    aborted = F.col("txn").eqNullSafe(TxnOutcome.ABORTED.value)
    in_doubt = F.col("txn").eqNullSafe(TxnOutcome.UNKNOWN.value) & F.col("value").eqNullSafe(_TOMBSTONE)
    rows = _keyed(given, compacted).where((perhaps & ~aborted) | in_doubt)
    rows = rows.where(F.col("called_ns") <= F.least("tombstone_expiry_ns", "until_ns"))
    return rows.groupBy(*PLACE, "key_hash").agg(F.max("called_ns").alias("unknown_tombstone_ns"))


def _aborted(given: Prepared, compacted: DataFrame) -> DataFrame:
    """Records of aborted transactions, which a cleaner removes once it has seen the marker (KIP-98), also if nothing
    has their key later. Also those of transactions of unknown outcome of which no reader of committed records ever
    received one."""
    keyed = _keyed(given, compacted).where("called_ns <= until_ns").select(*RECORD, *PLACE[1:], "txn_id", "txn")
    unknown = keyed.where(F.col("txn").eqNullSafe(TxnOutcome.UNKNOWN.value))
    received = given.observations.where(is_committed()).join(compacted, [BUNDLE, "topic"], "left_semi")
    committed = unknown.join(received, RECORD, "left_semi").select(BUNDLE, "txn_id").distinct()
    aborted = keyed.where(F.col("txn").eqNullSafe(TxnOutcome.ABORTED.value))
    both = aborted.unionByName(unknown.join(committed, [BUNDLE, "txn_id"], "left_anti"))
    return both.select(*RECORD, *PLACE[1:], F.lit(True).alias("is_aborted"))


def _keyed(given: Prepared, compacted: DataFrame) -> DataFrame:
    return given.ledger.where("key_hash IS NOT NULL").join(compacted, [BUNDLE, "topic"])


def _shown(keyed: DataFrame, given: Prepared, compacted: DataFrame) -> DataFrame:
    """Those of these sends that the read_committed drain returns, with their offsets there."""
    return _on_copies(keyed, given, compacted).where(F.col("copy") == LEADERS).drop("copy")


def _on_copies(keyed: DataFrame, given: Prepared, compacted: DataFrame) -> DataFrame:
    """Those of these sends that read_committed returns from each copy, with their offsets there."""
    read = given.observations.where(F.col("kind").isin("drain", "replica") & is_committed() & F.col("intact"))
    copy = F.when(F.col("kind") == "drain", F.lit(LEADERS)).otherwise(F.col("replica"))
    shown = read.join(compacted, [BUNDLE, "topic"], "left_semi").select(
        *RECORD, *PLACE[1:], "offset", copy.alias("copy")
    )
    return keyed.drop("offset").join(shown, [*RECORD, *PLACE[1:]])


EXCUSES: Final = (
    Excuse(
        name=COMPACTION,
        permits=(
            "Compaction may remove a record that a later one with its key replaced, an expired tombstone, and a record "
            "of an aborted transaction."
        ),
        kinds=_KINDS,
        rows=_compacted_away,
        evidence=Evidence(kind=EvidenceKind.RECORDS, what="ledger"),
    ),
)
