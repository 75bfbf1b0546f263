"""aborted_read: read_committed returned a record of an aborted transaction."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.documents.verdict_facts import VerdictFacts
from harness.model.finding import Kind
from harness.model.outcome import TxnOutcome
from harness.verify.addition import Addition
from harness.verify.checks.aborted_read.read_uncommitted import shown_undecided
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.tables import RECORD
from harness.verify.promise import Check, Introduced, span


class AbortedRead(Reason):
    """The reader of a record of an aborted transaction."""

    DRAIN = "drain", "The read after healing."
    READER = "reader", "A live reader or the read of a replica, and not the read after healing."


def aborted_read(drill: Drill) -> DataFrame:
    """Records of aborted transactions in the read_committed drain. Those that only live readers or replicas received
    are reclassified in `deduplicate.reclassify_aborted`."""
    aborted = drill.sent.where(F.col("txn") == TxnOutcome.ABORTED.value).select(*RECORD, "txn_id")
    shown = drill.read.where("rc AND intact").join(aborted, RECORD)
    return found(shown, Kind.ABORTED_READ, AbortedRead.DRAIN, other="txn_id")


def _shown(known: Known) -> Addition:
    return Addition(facts=VerdictFacts(shown_undecided=known.of(UNDECIDED)))


UNDECIDED: Final[OnDriver[dict[str, int]]] = OnDriver(name="shown_undecided", read=shown_undecided, none=dict)
CHECK: Final = Check(
    promise="A read_committed reader receives no record of an aborted transaction.",
    kinds={
        Kind.ABORTED_READ: Introduced(
            promise="read_committed returns no record of an aborted transaction (KIP-98)", rank=40
        )
    },
    seen={
        (Kind.ABORTED_READ, AbortedRead.DRAIN): lambda run: (
            f"read_committed returned it, and its {span(run, 'transaction')} was aborted"
        ),
        (Kind.ABORTED_READ, AbortedRead.READER): "a read_committed reader received it, and its transaction was aborted",
    },
    queries={"aborted_read": aborted_read},
    on_driver=(UNDECIDED,),
    adds=_shown,
    planted=(
        "aborted_read_in_the_drain",
        "aborted_read_by_everybody",
        "aborted_read_by_a_live_reader",
        "near_aborted_read_absent",
        "near_aborted_read_of_an_unknown_transaction",
    ),
)
