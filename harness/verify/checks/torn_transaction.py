"""torn_transaction: a part of a transaction is visible and the rest is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.model.contract.internal_topics import TRANSACTIONS
from harness.model.finding import Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.case import Case
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.prepared import Prepared, at_place
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, Values, frame
from harness.verify.excuses.config_history import compacted_until
from harness.verify.excuses.unclean_elections import may_have_forgotten, permitted_elections
from harness.verify.promise import Check, Introduced, span

_LEADERS: Final[Columns] = {"topic": "string", "topic_id": "string", "partition": "int32", "broker": "int32"}


class Torn(Reason):
    """The outcome of a transaction that is visible in part, or what is wrong with its end."""

    COMMITTED = TxnOutcome.COMMITTED.value, "It was committed."
    UNKNOWN = TxnOutcome.UNKNOWN.value, "Its end was not answered."
    UNMARKED = "unmarked", "Its producer's next one begins on this partition, and no marker ended it there before."


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


def unmarked_transaction(given: Prepared) -> DataFrame | None:
    """First records of transactions that no marker ended on this partition before the next one of the same producer.

    A coordinator refuses the next transaction until each partition of the last one has its marker (KIP-98). One that
    lacks it ends with the next one, and shares its outcome there.
    """
    leaders = [row for n, case in enumerate(given.cases) for row in _leaders(n, case)]
    if not leaders:
        return None
    copies = F.broadcast(frame(given.spark, _LEADERS, leaders))
    on_disk = given.batches.where("transactional").join(copies, [*PLACE, "broker"], "left_semi")
    on_disk = on_disk.select(*PLACE, "producer_id", "control", F.col("base_offset").alias("offset"))
    acked = given.ledger.where((F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull())
    record = F.struct("offset", "stream", "seq")
    begun = acked.where("txn_id IS NOT NULL").groupBy(*PLACE, "txn_id").agg(F.min(record).alias("first"))
    begins = on_disk.where("control IS NULL").join(begun.select("*", "first.*"), [*PLACE, "offset"])
    ends = on_disk.where("control IN ('commit', 'abort')")
    in_log = Window.partitionBy(*PLACE, "producer_id").orderBy("offset")
    events = begins.unionByName(ends, allowMissingColumns=True).withColumn("next", F.lead("first").over(in_log))
    unmarked = kept(events.where("first IS NOT NULL AND next IS NOT NULL"))
    # A client may have reported a wrong offset: only records count that a reader received there.
    read = narrowed(given.observations, unmarked, "topic", "partition")
    read = kept(read.select(*PLACE, record.alias("first")).distinct())
    for name in ("first", "next"):
        unmarked = unmarked.join(read.withColumnRenamed("first", name), [*PLACE, name], "left_semi")
    return found(unmarked, Kind.TORN_TRANSACTION, Torn.UNMARKED, other="txn_id")


def _leaders(number: int, case: Case) -> Iterator[Values]:
    """The leaders' copies that have every marker: no cleaner removed any, no unclean election that the contract
    permits, and their coordinators have forgotten no transaction."""
    elected = {(one.change.topic, one.change.partition) for one in permitted_elections(case)}
    for p in case.last_partitions if case.complete and not may_have_forgotten(case, TRANSACTIONS) else ():
        if p.leader is not None and compacted_until(case, p.topic) is None and (p.topic, p.partition) not in elected:
            yield number, *p.place, p.leader


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
        (Kind.TORN_TRANSACTION, Torn.UNMARKED): lambda run: (
            f"the log of the leader has the next transaction of the same producer behind {span(run, 'transaction')}, "
            "and no marker in between"
        ),
    },
    queries={"torn_transaction": torn_transaction, "unmarked_transaction": unmarked_transaction},
    nothing_without={"torn_transaction": "drill.sent", "unmarked_transaction": "transactions"},
    planted=(
        "torn_transaction_on_one_partition",
        "torn_transaction_for_read_committed",
        "torn_transaction_of_unknown_end",
        "near_torn_transaction_of_unknown_end_and_absent",
        "near_torn_transaction_aborted_and_called_unknown",
        "near_torn_transaction_unknown_send_within",
        "torn_transaction_without_a_marker",
        "near_torn_transaction_without_the_last_marker",
    ),
)
