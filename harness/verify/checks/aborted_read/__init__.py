"""aborted_read: read_committed returned a record of a transaction that was aborted, or not yet committed."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.documents.verdict_facts import VerdictFacts
from harness.model.finding import Kind
from harness.model.outcome import TxnOutcome
from harness.verify.addition import Addition
from harness.verify.checks.aborted_read.early import read_early
from harness.verify.checks.aborted_read.inputs import dirty_inputs, own_output
from harness.verify.checks.aborted_read.read_uncommitted import shown_undecided
from harness.verify.engine.bucket_rows import Drill
from harness.verify.engine.compare import Compared
from harness.verify.engine.kept import is_empty, kept, narrowed
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared, at_place, maybe_transactional
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.tables import BUNDLE, PLACE, RECORD, is_committed
from harness.verify.promise import Check, Introduced, span


class AbortedRead(Reason):
    """The reader of a record of an aborted transaction."""

    DRAIN = "drain", "The read after healing."
    EARLY = "before_commit", "A live reader, before the transaction was asked to commit."
    INPUT = "input", "An application that reads with read_committed, and its transaction was aborted."
    INPUT_EARLY = "input_early", "The same, before the transaction was asked to commit."
    OWN = "own", "The transaction that wrote it, within a read-process-write."
    READER = "reader", "A live reader or the read of a replica; the read after healing did not return it, or could not."


def aborted_read(drill: Drill) -> DataFrame:
    """Records of aborted transactions in the read_committed drain. Those that only live readers or replicas received
    are reclassified in `deduplicate.reclassify_aborted`."""
    aborted = drill.sent.where(F.col("txn") == TxnOutcome.ABORTED.value).select(*RECORD, "txn_id")
    shown = drill.read.where("rc AND intact").join(aborted, RECORD)
    return found(shown, Kind.ABORTED_READ, AbortedRead.DRAIN, other="txn_id")


def aborted_read_by_readers(compared: Compared) -> DataFrame | None:
    """The same for records below the log start, and for those that the drain did not reach, of which `vanished` says
    nothing: there readers and drain are not compared."""
    given = compared.given
    rows = at_place(compared.unshown.where(is_committed()), given.places)
    passed = F.coalesce((F.col("committed") > F.col("offset")) | (F.col("log_end") <= F.col("offset")), F.lit(False))
    below = F.coalesce(F.col("offset") < F.col("log_start"), F.lit(False))
    rows = maybe_transactional(rows.where(below | ~passed).select(*RECORD, *PLACE[1:], "offset", "reader"), given)
    streams = kept(rows.select(BUNDLE, "stream").distinct())
    if is_empty(streams):
        return None
    sent = narrowed(given.ledger.where("txn_id IS NOT NULL"), streams, "stream")
    sent = sent.where(F.col("txn") == TxnOutcome.ABORTED.value).select(*RECORD)
    return found(rows.join(sent, RECORD, "left_semi"), Kind.ABORTED_READ, AbortedRead.READER)


def read_before_commit(given: Prepared, shown: DataFrame) -> DataFrame:
    """Records that a live reader received before their transaction was asked to commit."""
    return found(read_early(given, shown), Kind.ABORTED_READ, AbortedRead.EARLY, other="txn_id")


def read_by_applications(given: Prepared) -> DataFrame:
    """Records that a read-process-write received although nothing had committed them."""
    rows = dirty_inputs(given).unionByName(own_output(given), allowMissingColumns=True)
    reason = F.when(F.col("same"), F.lit(AbortedRead.OWN)).when(F.col("aborted"), F.lit(AbortedRead.INPUT))
    return found(rows, Kind.ABORTED_READ, reason.otherwise(F.lit(AbortedRead.INPUT_EARLY)), other="txn_id")


def _shown(known: Known) -> Addition:
    return Addition(facts=VerdictFacts(shown_undecided=known.of(UNDECIDED)))


UNDECIDED: Final[OnDriver[dict[str, int]]] = OnDriver(name="shown_undecided", read=shown_undecided, none=dict)
CHECK: Final = Check(
    promise="A read_committed reader receives no record of a transaction that is not committed.",
    kinds={
        Kind.ABORTED_READ: Introduced(
            promise="read_committed returns no record of a transaction that is not committed (KIP-98)", rank=40
        )
    },
    seen={
        (Kind.ABORTED_READ, AbortedRead.DRAIN): lambda run: (
            f"read_committed returned the record, although it is of aborted {span(run, 'transaction')}"
        ),
        (Kind.ABORTED_READ, AbortedRead.EARLY): lambda run: (
            f"a read_committed reader received the record before the producer asked to commit "
            f"{span(run, 'transaction')}, which wrote it"
        ),
        (Kind.ABORTED_READ, AbortedRead.INPUT): lambda run: (
            f"an application that reads with read_committed processed the record, although it is of aborted "
            f"{span(run, 'transaction')}"
        ),
        (Kind.ABORTED_READ, AbortedRead.INPUT_EARLY): lambda run: (
            f"an application that reads with read_committed processed the record before the producer asked to commit "
            f"{span(run, 'transaction')}, which wrote it"
        ),
        (Kind.ABORTED_READ, AbortedRead.OWN): lambda run: (
            f"{span(run, 'transaction')} received the record, which it had written itself and not yet committed"
        ),
        (Kind.ABORTED_READ, AbortedRead.READER): (
            "a read_committed reader received the record, although its transaction was aborted"
        ),
    },
    queries={
        "aborted_read": aborted_read,
        "aborted_read_by_readers": aborted_read_by_readers,
        "read_before_commit": read_before_commit,
        "read_by_applications": read_by_applications,
    },
    nothing_without={"aborted_read": "drill.read"},
    on_driver=(UNDECIDED,),
    adds=_shown,
    planted=(
        "aborted_read_in_the_drain",
        "aborted_read_by_everybody",
        "aborted_read_by_a_live_reader",
        "near_aborted_read_absent",
        "near_aborted_read_of_an_unknown_transaction",
        "aborted_read_below_the_log_start",
        "near_aborted_read_of_a_deleted_transaction",
        "aborted_read_before_the_commit",
        "near_aborted_read_after_the_commit",
        "aborted_read_by_an_application",
        "aborted_read_by_an_application_before_the_commit",
        "near_aborted_read_by_an_application_after_the_commit",
        "aborted_read_of_its_own_output",
        "near_aborted_read_of_the_output_of_another",
    ),
)
