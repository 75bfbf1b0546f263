"""torn_transaction: a part of a transaction is visible and the rest is not."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.finding import Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.kept import kept
from harness.verify.engine.prepared import at_place
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.tables import BUNDLE, RECORD
from harness.verify.promise import Check, Introduced, span


class Torn(Reason):
    """The outcome of a transaction that is visible in part."""

    COMMITTED = TxnOutcome.COMMITTED.value, "It was committed."
    UNKNOWN = TxnOutcome.UNKNOWN.value, "Its end was not answered."


def torn_transaction(drill: Drill) -> DataFrame:
    """Acknowledged records that read_committed does not return, of committed or unknown transactions of which it
    returns other records. Records below the log start, and records that the drain did not reach, are left out.

    Buckets without a difference return everything that was promised in them, so invisible records are all in the drill,
    and so is every record of an unknown transaction; only visible records of a committed transaction may be outside.
    """
    given = drill.given
    whole = [TxnOutcome.COMMITTED.value, TxnOutcome.UNKNOWN.value]
    rows = drill.sent.where(F.col("txn").isin(whole) & given.complete)
    rows = at_place(rows.join(drill.shown.select(*RECORD, "rc"), RECORD, "left"), given.places)
    visible = F.coalesce("rc", F.lit(False))
    passed = F.coalesce(F.col("committed") > F.col("offset"), F.col("committed_reached"), F.lit(False))
    there = F.coalesce(F.col("offset") >= F.col("log_start"), F.col("log_start") == 0, F.lit(False))
    rows = rows.withColumn("visible", visible).withColumn(
        "invisible", ~visible & passed & there & (F.col("outcome") == Outcome.ACKED.value)
    )
    in_drill = rows.groupBy(BUNDLE, "txn_id").agg(
        F.count_if("visible").alias("visible_n"), F.count_if("invisible").alias("invisible_n")
    )
    suspect = kept(in_drill.where("invisible_n > 0"))
    sizes = (
        given.ledger.join(suspect, [BUNDLE, "txn_id"], "left_semi")
        .groupBy(BUNDLE, "txn_id")
        .agg(F.count_if(F.col("outcome") == Outcome.ACKED.value).alias("acked_n"))
    )
    outside = rows.groupBy(BUNDLE, "txn_id").agg(
        F.count_if(F.col("outcome") == Outcome.ACKED.value).alias("acked_in_drill")
    )
    torn = (
        suspect.join(sizes, [BUNDLE, "txn_id"])
        .join(outside, [BUNDLE, "txn_id"])
        .where("visible_n > 0 OR acked_n > acked_in_drill")
        .select(BUNDLE, "txn_id")
    )
    missing = rows.where("invisible").join(torn, [BUNDLE, "txn_id"], "left_semi")
    return found(missing, Kind.TORN_TRANSACTION, F.col("txn"), other="txn_id")


CHECK: Final = Check(
    promise="A transaction is all or nothing.",
    kinds={
        Kind.TORN_TRANSACTION: Introduced(
            promise="a transaction is all or nothing, across its partitions and its offsets (KIP-98)"
        )
    },
    seen={
        (Kind.TORN_TRANSACTION, Torn.COMMITTED): lambda run: (
            f"read_committed returns other records of committed {span(run, 'transaction')}, and not this record"
        ),
        (Kind.TORN_TRANSACTION, Torn.UNKNOWN): lambda run: (
            f"read_committed returns other records of {span(run, 'transaction')}, whose outcome is unknown, and "
            "not this record"
        ),
    },
    queries={"torn_transaction": torn_transaction},
    nothing_without={"torn_transaction": "drill.sent"},
    planted=(
        "torn_transaction_on_one_partition",
        "torn_transaction_for_read_committed",
        "torn_transaction_of_unknown_end",
        "near_torn_transaction_of_unknown_end_and_absent",
        "near_torn_transaction_aborted_and_called_unknown",
        "near_torn_transaction_unknown_send_within",
    ),
)
