"""Outputs of applications: exactly one for each input record, and group offsets that match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.model.contract.contract import SENTINEL
from harness.model.documents.contract import Contract
from harness.model.doubt_names import DoubtName
from harness.model.finding import Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.checks.processed import processor_died
from harness.verify.engine.case import Case
from harness.verify.engine.kept import kept
from harness.verify.engine.known import Known
from harness.verify.engine.prepared import Prepared, at_place, is_own_client
from harness.verify.engine.rows import UNPROCESSED, ByApplication, found, place_of, union, with_place
from harness.verify.engine.runs import RecordRange
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, Values, frame, is_committed, is_drain
from harness.verify.promise import Check, span

_BY: Final = [BUNDLE, "processor"]
_INPUT: Final = [*_BY, "topic", "topic_id", "partition", "offset"]
_REPORTED: Final[Columns] = {
    "processor": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "reported": "int64",  # the group's offset after healing; 0 = it has none
    "carried": "bool",  # offsets are committed in the transaction of the output
}


def processed(given: Prepared) -> DataFrame | None:
    """Records of topics that a processor reads, as read_committed returns them after healing, compared with their
    outputs.

    Two visible outputs for one input, whatever their sequence numbers: duplicated. No output, and the group's offset is
    past the input: skipped_read, or torn_transaction if a transaction carried offsets. If the output was promised and
    is lost, that loss is the finding. One output, and the group's offset is not past the input, for a processor that
    commits both together: torn_transaction. Inputs that the group has not reached are no finding, and cause a doubt.
    """
    rows = [row for n, case in enumerate(given.cases) if case.complete for row in _reported(n, case)]
    if not rows:
        return None
    reported = F.broadcast(frame(given.spark, _REPORTED, rows))
    shown = given.observations.where(is_drain() & is_committed())
    # The sentinels at the end of each partition were written after the load, so no application processed them.
    load = given.streams.where(~F.col("producer").eqNullSafe(SENTINEL)).select(BUNDLE, "stream")
    inputs = shown.join(reported, PLACE).join(F.broadcast(load), [BUNDLE, "stream"], "left_semi")
    inputs = inputs.select(*_INPUT, "stream", "seq", "reported", "carried").distinct()
    outputs = kept(_outputs(given, shown, reported))
    best = outputs.groupBy(*_INPUT).agg(
        F.max("visible").alias("visible"),
        F.max("held").alias("held"),
        F.max("in_txn").alias("in_txn"),
        F.min(F.when(F.col("visible"), F.struct("to_offset", "to"))).alias("first"),
    )
    each = kept(inputs.join(best, _INPUT, "left"))
    seen, held = F.coalesce("visible", F.lit(False)), F.coalesce("held", F.lit(False))
    missing = each.where((F.col("offset") < F.col("reported")) & ~seen & ~held)
    torn = F.coalesce(F.col("carried") & F.col("in_txn"), F.lit(False))
    uncounted = each.where((F.col("offset") >= F.col("reported")) & seen & F.col("carried"))
    unprocessed = each.where((F.col("offset") >= F.col("reported")) & ~seen)
    return union(
        [
            _twice(outputs, each),
            _out_of_order(outputs, each),
            found(
                missing,
                F.when(torn, F.lit(Kind.TORN_TRANSACTION.value)).otherwise(F.lit(Kind.SKIPPED_READ.value)),
                F.when(torn, F.lit(ByApplication.UNPROCESSED)).otherwise(F.lit(ByApplication.PROCESSED)),
                reader="processor",
            ),
            found(
                uncounted,
                Kind.TORN_TRANSACTION,
                with_place(ByApplication.UNCOUNTED, "first.to"),
                reader="processor",
                other=F.col("first.to_offset"),
            ),
            found(unprocessed, UNPROCESSED, reader="processor"),
        ]
    )


def _twice(outputs: DataFrame, inputs: DataFrame) -> DataFrame:
    """Every visible output of an input after the first. A second copy of one output is another finding."""
    order = Window.partitionBy(*_INPUT).orderBy("to_offset", "made_stream", "made_seq")
    again = outputs.where("visible").withColumn("nth", F.row_number().over(order)).where("nth > 1")
    again = again.join(inputs.select(*_INPUT, "stream", "seq"), _INPUT)
    reason = with_place(ByApplication.PROCESSED, "to")
    return found(again, Kind.DUPLICATED, reason, reader="processor", other="to_offset")


def _out_of_order(outputs: DataFrame, inputs: DataFrame) -> DataFrame:
    """Outputs below the output of an earlier input. The first output of an input counts. Outputs of other
    clients are left out, because their own retries may reorder them."""
    at = outputs.where("visible AND own_client").groupBy(*_INPUT, "to").agg(F.min("to_offset").alias("to_offset"))
    before = Window.partitionBy(*_BY, *PLACE[1:], "to").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    below = at.withColumn("highest", F.max("to_offset").over(before)).where("to_offset < highest")
    below = below.join(inputs.select(*_INPUT, "stream", "seq"), _INPUT)
    return found(below, Kind.REORDERED, with_place(ByApplication.PROCESSED, "to"), reader="processor", other="highest")


def _outputs(given: Prepared, shown: DataFrame, reported: DataFrame) -> DataFrame:
    """One row for each output record: whether and where it is visible. `in_txn`: its transaction carried offsets;
    `held`: it was promised, or the contract permits its loss."""
    instances = F.broadcast(_instances(given))
    outputs = given.processed.join(instances, _BY).drop("processor").withColumnRenamed("application", "processor")
    outputs = outputs.join(reported.select(*_BY, *PLACE[1:]), [*_BY, *PLACE[1:]], "left_semi").distinct()
    sent = given.ledger.join(outputs.select(*RECORD), RECORD, "left_semi")
    sent = at_place(sent, given.places).join(F.broadcast(_may_lose(given)), [BUNDLE, "topic"], "left")
    below = F.coalesce(F.col("offset") < F.col("log_start"), F.lit(False))
    # An aborted output was never visible, so nothing lost it.
    acked = (F.col("outcome") == Outcome.ACKED.value) & ~F.col("txn").eqNullSafe(TxnOutcome.ABORTED.value)
    sent = sent.select(
        *RECORD, "txn_id", (F.col("promised") | (acked & (below | F.col("may_lose").isNotNull()))).alias("held")
    )
    seen = shown.join(outputs.select(*RECORD), RECORD, "left_semi")
    seen = seen.groupBy(*RECORD).agg(F.min("offset").alias("to_offset"), F.min(_place()).alias("to"))
    took = given.offset_commits.where("txn_id IS NOT NULL").select(BUNDLE, "txn_id").distinct()
    took = took.withColumn("in_txn", F.lit(True))
    own = F.broadcast(given.streams.where(is_own_client()).select(BUNDLE, "stream", F.lit(True).alias("own_client")))
    rows = outputs.join(seen, RECORD, "left").join(sent, RECORD, "left").join(took, [BUNDLE, "txn_id"], "left")
    rows = rows.join(own, [BUNDLE, "stream"], "left").withColumn("visible", F.col("to_offset").isNotNull())
    return rows.withColumnsRenamed({"stream": "made_stream", "seq": "made_seq"})


def _instances(given: Prepared) -> DataFrame:
    """The `application` of each processor: the first of its instances, which are the members of one group."""
    rows = [(n, name, one) for n, case in enumerate(given.cases) for name, one in _applications(case.contract).items()]
    return frame(given.spark, {"processor": "string", "application": "string"}, rows)


def _applications(contract: Contract) -> dict[str, str]:
    first = {processor.group: name for name, processor in reversed(contract.processors.items())}
    return {name: first[processor.group] for name, processor in contract.processors.items()}


def _place() -> Column:
    return F.concat("topic", F.lit("/"), F.col("partition").cast("string"))


def _may_lose(given: Prepared) -> DataFrame:
    """Topics with a contract that permits the loss of acknowledged records."""
    rows = [
        (n, name, True)
        for n, case in enumerate(given.cases)
        for name, topic in case.contract.topics.items()
        if topic.unclean_election or topic.last_replica or topic.delete_records or topic.compacted
    ]
    return frame(given.spark, {"topic": "string", "may_lose": "bool"}, rows)


def _reported(number: int, case: Case) -> Iterator[Values]:
    """The group offset of each application, for every partition that it reads; groups that no coordinator reported are
    left out."""
    last = case.last_snapshot
    if last is None:
        return
    stands = {(g.group, g.topic, g.partition): g for g in last.groups}
    for name in dict.fromkeys(_applications(case.contract).values()):
        processor = case.contract.processors[name]
        for row in last.partitions:
            if row.topic not in processor.reads:
                continue
            at = stands.get((processor.group, row.topic, row.partition))
            if at is None or at.stable is not False:
                carried = processor.commits == "transaction"
                yield number, processor.processor, *row.place, (at.offset if at else None) or 0, carried


def _made_in(run: RecordRange) -> str:
    return place_of(run.reason)


def _unfinished(known: Known) -> Addition:
    """Doubts about input that was not processed yet when the run ended."""
    left: Counter[tuple[str, str]] = Counter()
    for run in known.runs:
        if run.kind == UNPROCESSED:
            left[run.reader or "", f"{run.topic}/{run.partition}"] += run.fate_records
    return Addition(
        doubts=[
            Doubt(DoubtName.UNPROCESSED, f"{by} had not yet processed {records} records of {place} when the run ended")
            for (by, place), records in left.items()
        ]
    )


CHECK: Final = Check(
    promise="An application that commits its offsets in the transactions of its output processes each input once.",
    breaks="an application that commits offsets in its transactions processes each input once (KIP-98, KIP-447)",
    seen={
        (Kind.DUPLICATED, ByApplication.PROCESSED): lambda run: (
            f"the application processed the record twice: the second output is in {_made_in(run)} at "
            f"{span(run, 'offset')}"
        ),
        (Kind.REORDERED, ByApplication.PROCESSED): lambda run: (
            f"the application processed the record out of order: its output in {_made_in(run)} is below the output of "
            f"an earlier input, which is at {span(run, 'offset')}"
        ),
        (Kind.TORN_TRANSACTION, ByApplication.UNPROCESSED): (
            "the group committed past the record in a transaction, and no output of it from a transaction is visible"
        ),
        (Kind.TORN_TRANSACTION, ByApplication.UNCOUNTED): lambda run: (
            f"the group's committed offset is not past the record, and its output is visible in {_made_in(run)} at "
            f"{span(run, 'offset')}"
        ),
        (Kind.SKIPPED_READ, ByApplication.PROCESSED): (
            "the group committed past the record, and no output of it is visible"
        ),
    },
    queries={"processed": processed},
    adds=_unfinished,
    order=Order(doubts=25),
    excuses=processor_died.EXCUSES,
    planted=(
        "duplicated_by_an_application",
        "duplicated_by_instances_of_an_application",
        "skipped_read_by_instances_of_an_application",
        "near_skipped_read_by_one_of_two_instances",
        "near_duplicated_by_an_application_that_aborted",
        "skipped_read_by_an_application",
        "near_skipped_read_by_an_application_that_aborted",
        "reordered_by_an_application",
        "near_reordered_by_an_application_of_another_client",
        "torn_transaction_by_an_application",
        "near_torn_transaction_by_an_application_with_all_outputs",
    ),
)
