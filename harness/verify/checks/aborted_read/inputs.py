"""Records that a read-process-write received although nothing had committed them.

An application that commits its offsets in the transactions of its output reads with read_committed (KIP-98, KIP-447).
It must not process a record of an aborted transaction, nor one whose transaction had not been asked to commit when it
handed the output of it to its client, and so not its own output within the transaction that writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.clock import CLOCKS_MS
from harness.model.outcome import LIBRDKAFKA, Outcome, TxnOutcome
from harness.verify.engine.case import Case
from harness.verify.engine.kept import is_empty, kept, narrowed
from harness.verify.engine.prepared import Prepared, is_client
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, Values, frame, is_committed

_READS: Final = {"processor": "string", "topic": "string"}
_INPUT: Final = [*RECORD, *PLACE[1:], "offset"]
_MADE: Final = ["made_txn", "made_ns", "late_ns"]


def dirty_inputs(given: Prepared) -> DataFrame:
    """Each such input at its place, with the application as `reader`, its `txn_id`, and whether it is of the
    `same` transaction as the output, or `aborted`."""
    rows = [(n, *row) for n, case in enumerate(given.cases) for row in _reads(case)]
    if not rows:
        return _nothing(given)
    reads = F.broadcast(frame(given.spark, _READS, rows))
    topics = list(dict.fromkeys(topic for _, _, topic in rows))
    acked = (F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull()
    inputs = given.ledger.where(F.col("txn_id").isNotNull() & F.col("topic").isin(topics)).where(acked)
    inputs = inputs.join(reads, [BUNDLE, "topic"]).select(*_INPUT, "processor", "txn_id", "txn")
    streams = kept(inputs.select(BUNDLE, "stream").distinct())
    if is_empty(streams):
        return _nothing(given)
    ends = given.transactions.select(BUNDLE, "txn_id", "end_called_ns")
    inputs = inputs.join(ends, [BUNDLE, "txn_id"], "left")
    used = inputs.join(_outputs(given, reads), [BUNDLE, "processor", *PLACE[1:], "offset"])
    same, aborted = F.col("txn_id") == F.col("made_txn"), F.col("txn") == TxnOutcome.ABORTED.value
    early = F.coalesce(F.col("made_ns") + F.col("late_ns") < F.col("end_called_ns"), F.lit(False))
    used = used.withColumns({"same": F.coalesce(same, F.lit(False)), "aborted": aborted})
    suspects = kept(used.where(F.col("same") | F.col("aborted") | early).drop("txn", "end_called_ns", *_MADE))
    if is_empty(suspects):
        return _nothing(given)
    return _confirmed(suspects.withColumnRenamed("processor", "reader"), given)


def own_output(given: Prepared) -> DataFrame:
    """Records that a transaction consumed, by `txn_id` of observations, and that it wrote itself."""
    rows = given.observations.where(is_committed() & F.col("txn_id").isNotNull() & F.col("intact"))
    rows = kept(rows.select(*_INPUT, "reader", "txn_id"))
    if is_empty(rows):
        return _nothing(given)
    sent = narrowed(given.ledger.where("txn_id IS NOT NULL"), rows, "stream", "txn_id").select(*RECORD, "txn_id")
    own = rows.join(sent, [*RECORD, "txn_id"], "left_semi")
    return own.withColumns({"same": F.lit(True), "aborted": F.lit(False)})


def _reads(case: Case) -> Iterator[Values]:
    """Applications of which read_committed is promised, with their topics."""
    for processor in case.contract.processors.values():
        if processor.commits == "transaction":
            yield from ((processor.processor, topic) for topic in processor.reads)


def _outputs(given: Prepared, reads: DataFrame) -> DataFrame:
    """The outputs of these applications, with their transaction and the time when they were handed to the client. Its
    clock may be another one if it runs in a process of its own."""
    made = given.processed.join(reads, [BUNDLE, "processor", "topic"], "left_semi")
    made = made.select(
        BUNDLE, "processor", *PLACE[1:], "offset", F.col("stream").alias("to"), F.col("seq").alias("to_seq")
    )
    clients = given.streams.select(BUNDLE, F.col("stream").alias("to"), _late_ns().alias("late_ns"))
    sent = given.ledger.select(
        BUNDLE,
        F.col("stream").alias("to"),
        F.col("seq").alias("to_seq"),
        F.col("txn_id").alias("made_txn"),
        F.col("called_ns").alias("made_ns"),
    )
    return made.join(sent, [BUNDLE, "to", "to_seq"]).join(F.broadcast(clients), [BUNDLE, "to"]).drop("to", "to_seq")


def _late_ns() -> Column:
    return F.when(is_client(LIBRDKAFKA), F.lit(0)).otherwise(F.lit(CLOCKS_MS * 10**6))


def _confirmed(rows: DataFrame, given: Prepared) -> DataFrame:
    """Those of which a reader received the record at the offset that was acknowledged: it may have been another one."""
    seen = narrowed(given.observations, rows, "stream", "seq").where("intact").select(*_INPUT).distinct()
    return rows.join(seen, _INPUT, "left_semi")


def _nothing(given: Prepared) -> DataFrame:
    columns = {"stream": "int32", "seq": "int64", "topic": "string", "topic_id": "string", "partition": "int32"}
    columns |= {"offset": "int64", "reader": "string", "txn_id": "int64", "same": "bool", "aborted": "bool"}
    return frame(given.spark, columns, [])
