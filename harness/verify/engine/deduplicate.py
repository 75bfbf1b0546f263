"""One finding for each defect: rows of all checks are joined with their sends, excused, explained and deduplicated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import TxnOutcome
from harness.verify.checks.aborted_read import AbortedRead
from harness.verify.engine.kept import narrowed
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import NOT_FINDINGS, Reason, word_of
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD
from harness.verify.excuse import REFERENCE
from harness.verify.promise import declared

_READERS_NAMED: Final = 3
# The columns that rows of checks get before they are deduplicated.
_LATER: Final = {
    "outcome": "string",
    "txn": "string",
    "txn_id": "bigint",
    "key_hash": "bigint",
    "called_ns": "bigint",
    "returned_ns": "bigint",
    "producer": "string",
    "excused_by": "string",
    "excuse": REFERENCE,
    "explained_by": "string",
}


def with_sends(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows, a kept result, with producer, outcome, transaction and times of the send, if there was one."""
    wanted = rows.where("stream IS NOT NULL").select(*RECORD).distinct()
    sends = (
        narrowed(given.ledger, rows, "stream", "seq")
        .join(wanted, RECORD, "left_semi")
        .select(*RECORD, "outcome", "txn", "txn_id", "key_hash", "called_ns", "returned_ns")
    )
    producers = given.streams.select(BUNDLE, "stream", "producer")
    return rows.join(sends, RECORD, "left").join(F.broadcast(producers), [BUNDLE, "stream"], "left")


def reclassify_aborted(rows: DataFrame) -> DataFrame:
    """Records that a read_committed reader received and the drain does not return: aborted_read, if their
    transaction was aborted."""
    of_committed = {key: value for check in declared().values() for key, value in check.of_committed.items()}
    other = _words(of_committed.items())[F.col("reason")]
    aborted = other.isNotNull() & F.coalesce(F.col("txn") == TxnOutcome.ABORTED.value, F.lit(False))
    return rows.withColumns(
        {
            "kind": F.when(aborted, F.lit(Kind.ABORTED_READ.value)).otherwise(F.col("kind")),
            "reason": F.when(aborted, F.lit(AbortedRead.READER)).otherwise(F.coalesce(other, "reason")),
        }
    )


def unpermitted(rows: DataFrame) -> DataFrame:
    """Rows of checks in the form of `with_sends` and the excuses, with nothing known beside them. Without rows that
    would become doubts or notes."""
    doubtful = [reason.value for check in declared().values() for reason in check.no_findings]
    nothing = {name: F.lit(None).cast(kind) for name, kind in _LATER.items()}
    return rows.where(F.col("kind").isin(*NOT_FINDINGS) | ~word_of().isin(*doubtful)).withColumns(nothing)


def deduplicate(rows: DataFrame) -> DataFrame:
    """Drops findings that a more specific finding on the same record or offset makes redundant.

    A finding that condemns is dropped only for another that condemns: an excused loss hides nothing.
    """
    checks = declared().values()
    ranks = {k.value: how.rank for check in checks for k, how in check.kinds.items() if how.rank is not None}
    table = F.create_map([F.lit(x) for pair in ranks.items() for x in pair])
    finer = _words(pair for check in checks for pair in check.finer.items())
    beside = [reason.value for check in checks for reason in check.beside]
    condemns = F.col("excused_by").isNull() & F.col("explained_by").isNull()
    rank = table[F.col("kind")] + F.coalesce(finer[F.col("reason")], F.lit(0))
    ranked = rows.withColumn("rank", rank).withColumn("condemns", condemns)
    reported = ranked
    for scope, known in ((RECORD, F.col("stream") >= 0), ([*PLACE, "offset"], F.col("offset").isNotNull())):
        window = Window.partitionBy(*scope)
        top = F.min("rank").over(window)
        top_condemning = F.min(F.when(F.col("condemns"), F.col("rank"))).over(window)
        repeats = F.when(F.col("condemns"), top_condemning < F.col("rank")).otherwise(top < F.col("rank"))
        reported = reported.withColumn(f"repeats_{len(scope)}", F.coalesce(known & repeats, F.lit(False)))
    counted = F.col("kind").isin(*NOT_FINDINGS) | F.col("reason").isin(*beside)
    return reported.where(counted | ~(F.col("repeats_3") | F.col("repeats_5"))).drop(
        "rank", "condemns", "repeats_3", "repeats_5"
    )


def _words(pairs: Iterable[tuple[Reason, Reason | int]]) -> Column:
    """A map from reasons."""
    plain = [(reason.value, value.value if isinstance(value, Reason) else value) for reason, value in pairs]
    return F.create_map([F.lit(one) for pair in plain for one in pair])


def once_for_all_readers(rows: DataFrame) -> DataFrame:
    """One row for each record and defect, with the names of all its readers."""
    same = [c for c in rows.columns if c not in ("reader", "other", "excuse")]
    readers = F.array_sort(F.collect_set("reader"))
    more = F.size(readers) - _READERS_NAMED
    named = F.array_join(F.slice(readers, 1, _READERS_NAMED), ", ")
    named = F.when(more > 0, F.concat(named, F.lit(" and "), more.cast("string"), F.lit(" more"))).otherwise(named)
    merged = rows.groupBy(*same).agg(
        named.alias("reader"), F.min("other").alias("other"), F.min("excuse").alias("excuse")
    )
    return merged.withColumn("reader", F.when(F.col("reader") != "", F.col("reader")))
