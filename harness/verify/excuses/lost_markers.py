"""Transactions that lost their end marker in an unclean election, and that an operator aborted because they hung
(KIP-664, KAFKA-20716).

The coordinator committed them and has finished; the only leader that acknowledged the marker has died, and the elected
one has the records without the marker. Only an abort can end the transaction, and it hides the records permanently.

The abort itself excuses nothing. The brokers' disks must show that the elected replica lacked the marker: the first
marker of the producer after the transaction's first record is an abort, on every replica, at or above the surviving log
end. A marker that was there and ignored, a marker lost without such an election, and records that are lost rather than
hidden all condemn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.documents.steps import TransactionAborted
from harness.model.excuse import EvidenceKind
from harness.model.finding import Finding, Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.verify.checks.lost import Lost
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import BUNDLE, PLACE, frame
from harness.verify.excuse import Excuse, Permit, Permitted, Turn, reference
from harness.verify.excuses.unclean_elections import permitted_elections

_KINDS: Final = (Kind.LOST, Kind.VANISHED, Kind.TORN_TRANSACTION)
# State of a coordinator that has every marker acknowledged: it will write no other.
_COMMITTED: Final = "CompleteCommit"
_EVENT: Final = str(TransactionAborted.__struct_config__.tag)

_ABORTED: Final[Columns] = {
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "by": "string",
    "producer_id": "int64",
    "began": "int64",
    "log_end": "int64",
    "until_ns": "int64",
    "abort_why": "string",
    "step": "string",
    "asked_ns": "int64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """A transaction that began at an offset, hung after an unclean election and was aborted there.

    log_end: what survived the election; until_ns: acknowledgements until then are from before it.
    """

    topic: str
    topic_id: str
    partition: int
    producer: str
    producer_id: int
    began: int
    log_end: int
    until_ns: int
    why: str
    step: str
    asked_ns: int


def operator_aborts(case: Case) -> Iterator[Aborted]:
    """Aborts of transactions that may have lost their end marker in a permitted election before them."""
    elections = permitted_elections(case)
    for event, step in case.events(TransactionAborted):
        if event.coordinator != _COMMITTED:
            continue
        place, began = (event.topic, event.partition), event.start_offset
        for lost in elections:
            change = lost.change
            here = change.concerns(*place, event.topic_id)
            if here and began < lost.log_end and change.sure_ns <= event.asked_ns:
                yield Aborted(
                    topic=event.topic,
                    topic_id=event.topic_id,
                    partition=event.partition,
                    producer=event.producer,
                    producer_id=event.producer_id,
                    began=began,
                    log_end=lost.log_end,
                    until_ns=change.sure_ns,
                    step=step.name,
                    asked_ns=event.asked_ns,
                    why=(
                        f"{lost.named}: its log ended at {lost.log_end}, before the end marker of {event.producer}'s "
                        f"transaction from offset {began}; an operator aborted the hanging transaction (KIP-664)"
                    ),
                )


def _hidden_by_operator(rows: DataFrame, given: Prepared) -> DataFrame:
    """Rows with `excused_by` set for records of such a transaction, the one that began at exactly that offset."""
    aborted = [(n, *astuple(one)) for n, case in enumerate(given.cases) for one in operator_aborts(case)]
    if not aborted:
        return rows
    aborts = frame(given.spark, _ABORTED, aborted)
    aborts = _of_transactions(_without_end(aborts, given), given)
    of_election = ("log_end", "until_ns", "abort_why", "step", "asked_ns")
    aborts = aborts.groupBy(*PLACE, "txn_id", "began").agg(
        *[F.max(c).alias(c) for c in of_election]  # the last of several elections
    )
    joined = rows.join(F.broadcast(aborts), [*PLACE, "txn_id"], "left")
    of_it = (
        F.col("kind").isin(*(kind.value for kind in _KINDS))
        & ((F.col("kind") != Kind.LOST.value) | (F.col("reason") == Lost.UNCOMMITTED_ONLY))
        & (F.col("outcome") == Outcome.ACKED.value)
        & (F.col("txn") == TxnOutcome.COMMITTED.value)
        & (F.col("returned_ns") <= F.col("until_ns"))
        & (F.col("offset").isNull() | F.col("offset").between(F.col("began"), F.col("log_end") - 1))
    )
    excused = F.coalesce("excused_by", F.when(F.coalesce(of_it, F.lit(False)), F.col("abort_why")))
    event = (F.lit(EvidenceKind.EVENT.value), F.lit(_EVENT), F.col("step"), F.col("asked_ns"))
    return joined.withColumn("excused_by", excused).select(*rows.columns, reference(*event).alias("evidence"))


def _without_end(aborts: DataFrame, given: Prepared) -> DataFrame:
    """Aborts of transactions without an end marker on any replica: the producer's next marker there is the abort, above
    the surviving log end."""
    markers = given.batches.where("control IN ('commit', 'abort')").select(
        *PLACE, "producer_id", "broker", "control", "base_offset"
    )
    behind = markers.join(F.broadcast(aborts), [*PLACE, "producer_id"]).where("base_offset >= began")
    keys = [*PLACE, "producer_id", "began", "log_end"]
    first = behind.groupBy(*keys, "broker").agg(
        F.min("base_offset").alias("at"), F.min_by("control", "base_offset").alias("ended")
    )
    reported = first.groupBy(*keys).agg(
        F.bool_and((F.col("ended") == "abort") & (F.col("at") >= F.col("log_end"))).alias("hung")
    )
    return aborts.join(reported.where("hung").select(*keys), keys, "left_semi")


def _of_transactions(aborts: DataFrame, given: Prepared) -> DataFrame:
    """The aborts with the transaction that has its first record of that partition at their start offset."""
    streams = given.streams.select(BUNDLE, "stream", "producer")
    here = F.broadcast(aborts.select(*PLACE, F.col("by").alias("producer")).distinct())
    sent = given.ledger.where("txn_id IS NOT NULL AND offset IS NOT NULL").join(
        F.broadcast(streams), [BUNDLE, "stream"]
    )
    first = (
        sent.join(here, [*PLACE, "producer"]).groupBy(*PLACE, "producer", "txn_id").agg(F.min("offset").alias("began"))
    )
    return aborts.join(first.withColumnRenamed("producer", "by"), [*PLACE, "by", "began"])


def _never_ends(known: Known) -> Permit:
    """A hanging transaction: a permitted unclean election truncated its end marker and kept its beginning
    (KAFKA-20716)."""

    def permitted(finding: Finding) -> Permitted | None:
        began = finding.offset_first or 0
        for election in permitted_elections(known.case):
            topic, partition = election.change.topic, election.change.partition
            if (topic, partition) == (finding.topic, finding.partition) and began < election.log_end:
                why = (
                    f"{election.named}: its log ended at {election.log_end}, before the transaction's end marker; "
                    f"end it with kafka-transactions.sh abort --topic {topic} --partition {partition} "
                    f"--start-offset {began} (KIP-664)"
                )
                return Permitted(why, election.change.evidence)
        return None

    return permitted


EXCUSES: Final = (
    Excuse(
        name="lost_marker",
        permits="An unclean election that the contract permits lost the end marker of a transaction.",
        kinds=(Kind.HANGING_TRANSACTION,),
        of_findings=_never_ends,
    ),
    Excuse(
        name="hidden_by_operator",
        permits="An operator aborted a transaction that hung because a permitted unclean election lost its end marker.",
        kinds=_KINDS,
        rows=_hidden_by_operator,
        turn=Turn.COUNTED,
    ),
)
