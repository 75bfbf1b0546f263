"""What applications made of what they were given: one record of each, and offsets that say so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.model.contract.contract import SENTINEL
from harness.model.finding import Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.verify.engine.case import Case, place_of
from harness.verify.engine.prepared import Prepared, at_place, is_committed, is_own_client
from harness.verify.engine.rows import UNPROCESSED, found, union
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, frame

_BY: Final = [BUNDLE, "processor"]
_INPUT: Final = [*_BY, "topic", "topic_id", "partition", "offset"]
_TOLD: Final[Columns] = {
    "processor": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "reported": "int64",  # the group's offset after healing; 0 = it has none
    "carried": "bool",  # offsets are to be in the transaction of what was made
}


def processed(given: Prepared) -> DataFrame:
    """Records of topics that a processor reads, as read_committed shows them after healing, against the records that it
    made of them and that are visible.

    Two of these, under whatever sequences: duplicated. None, and the group's offset is behind it: skipped_read, or
    torn_transaction where a transaction took offsets along. Where such a record was promised and is gone, the finding
    is that one's. One, and the group's offset is before it, of a processor that commits both together: torn. What the
    group has not come to is no finding, and leaves the run in doubt.
    """
    rows = [row for n, case in enumerate(given.cases) if case.complete for row in _reported(n, case)]
    reported = F.broadcast(frame(given.spark, _TOLD, rows))
    shown = given.observations.where((F.col("kind") == "drain") & is_committed())
    # Who wrote the last record of each partition before the drain did so when the load was over.
    load = given.streams.where(~F.col("producer").eqNullSafe(SENTINEL)).select(BUNDLE, "stream")
    inputs = shown.join(reported, PLACE).join(F.broadcast(load), [BUNDLE, "stream"], "left_semi")
    inputs = inputs.select(*_INPUT, "stream", "seq", "reported", "carried").distinct()
    made = _made(given, shown, reported).localCheckpoint()
    best = made.groupBy(*_INPUT).agg(
        F.max("visible").alias("visible"),
        F.max("held").alias("held"),
        F.max("in_txn").alias("in_txn"),
        F.min(F.when(F.col("visible"), F.struct("to_offset", "to"))).alias("first"),
    )
    each = inputs.join(best, _INPUT, "left").localCheckpoint()
    seen, held = F.coalesce("visible", F.lit(False)), F.coalesce("held", F.lit(False))
    missing = each.where((F.col("offset") < F.col("reported")) & ~seen & ~held)
    torn = F.coalesce(F.col("carried") & F.col("in_txn"), F.lit(False))
    uncounted = each.where((F.col("offset") >= F.col("reported")) & seen & F.col("carried"))
    undone = each.where((F.col("offset") >= F.col("reported")) & ~seen)
    return union(
        [
            _twice(made, each),
            _turned_round(made, each),
            found(
                missing,
                F.when(torn, F.lit(Kind.TORN_TRANSACTION.value)).otherwise(F.lit(Kind.SKIPPED_READ.value)),
                F.when(torn, F.lit("unprocessed")).otherwise(F.lit("processed")),
                reader="processor",
            ),
            found(
                uncounted,
                Kind.TORN_TRANSACTION,
                F.concat(F.lit("uncounted in "), F.col("first.to")),
                reader="processor",
                other=F.col("first.to_offset"),
            ),
            found(undone, UNPROCESSED, reader="processor"),
        ]
    )


def _twice(made: DataFrame, inputs: DataFrame) -> DataFrame:
    """Every visible record after the first that was made of one. A second copy of one of them is another finding."""
    order = Window.partitionBy(*_INPUT).orderBy("to_offset", "made_stream", "made_seq")
    again = made.where("visible").withColumn("nth", F.row_number().over(order)).where("nth > 1")
    again = again.join(inputs.select(*_INPUT, "stream", "seq"), _INPUT)
    reason = F.concat(F.lit("processed in "), F.col("to"))
    return found(again, Kind.DUPLICATED, reason, reader="processor", other="to_offset")


def _turned_round(made: DataFrame, inputs: DataFrame) -> DataFrame:
    """Of several that were made of one the first counts. What librdkafka sent again by itself is told elsewhere."""
    at = made.where("visible AND own_client").groupBy(*_INPUT, "to").agg(F.min("to_offset").alias("to_offset"))
    before = Window.partitionBy(*_BY, *PLACE[1:], "to").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    below = at.withColumn("highest", F.max("to_offset").over(before)).where("to_offset < highest")
    below = below.join(inputs.select(*_INPUT, "stream", "seq"), _INPUT)
    return found(
        below, Kind.REORDERED, F.concat(F.lit("processed in "), F.col("to")), reader="processor", other="highest"
    )


def _made(given: Prepared, shown: DataFrame, reported: DataFrame) -> DataFrame:
    """One row a record that was made of another one: whether and where it is visible; `in_txn`: in one that took
    offsets along; `held`: it was promised, or may have gone as the contract permits."""
    made = given.processed.join(reported.select(*_BY, *PLACE[1:]), [*_BY, *PLACE[1:]], "left_semi").distinct()
    sent = given.ledger.join(made.select(*RECORD), RECORD, "left_semi")
    sent = at_place(sent, given.places).join(F.broadcast(_may_lose(given)), [BUNDLE, "topic"], "left")
    below = F.coalesce(F.col("offset") < F.col("log_start"), F.lit(False))
    # What was aborted never was there, and nothing took it.
    acked = (F.col("outcome") == Outcome.ACKED.value) & ~F.col("txn").eqNullSafe(TxnOutcome.ABORTED.value)
    sent = sent.select(
        *RECORD, "txn_id", (F.col("promised") | (acked & (below | F.col("may_lose").isNotNull()))).alias("held")
    )
    seen = shown.join(made.select(*RECORD), RECORD, "left_semi")
    seen = seen.groupBy(*RECORD).agg(F.min("offset").alias("to_offset"), F.min(_place()).alias("to"))
    took = given.offset_commits.where("txn_id IS NOT NULL").select(BUNDLE, "txn_id").distinct()
    took = took.withColumn("in_txn", F.lit(True))
    own = F.broadcast(given.streams.where(is_own_client()).select(BUNDLE, "stream", F.lit(True).alias("own_client")))
    rows = made.join(seen, RECORD, "left").join(sent, RECORD, "left").join(took, [BUNDLE, "txn_id"], "left")
    rows = rows.join(own, [BUNDLE, "stream"], "left").withColumn("visible", F.col("to_offset").isNotNull())
    return rows.withColumnsRenamed({"stream": "made_stream", "seq": "made_seq"})


def _place() -> Column:
    return F.concat("topic", F.lit("/"), F.col("partition").cast("string"))


def _may_lose(given: Prepared) -> DataFrame:
    """Topics that may lose, as declared, what was acknowledged: what is not there may have been."""
    rows = [
        (n, name, True)
        for n, case in enumerate(given.cases)
        for name, topic in case.contract.topics.items()
        if topic.unclean_election or topic.last_replica or topic.delete_records or topic.compacted
    ]
    return frame(given.spark, {"topic": "string", "may_lose": "bool"}, rows)


def _reported(number: int, case: Case) -> Iterator[tuple[Any, ...]]:
    """Where each processor's group stands, of every partition that it reads; nothing of a group that nobody told of."""
    last = case.last_snapshot
    if last is None:
        return
    stands = {(g["group"], g["topic"], g["partition"]): g for g in last["groups"]}
    for processor in case.contract.processors.values():
        for row in last["partitions"]:
            if row["topic"] not in processor.reads:
                continue
            at = stands.get((processor.group, row["topic"], row["partition"]), {})
            if at.get("stable") is not False:
                carried = processor.commits == "transaction"
                yield number, processor.processor, *place_of(row), at.get("offset") or 0, carried
