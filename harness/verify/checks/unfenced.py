"""unfenced: a client was still served that its transactional id or its group had left behind.

init_transactions returns when the coordinator has raised the producer epoch and ended what was open (KIP-98). From
then on brokers refuse the epoch of every earlier client, so a send or a commit that it calls afterwards must fail.
Calls that were in flight by then are legal, and so is the end of an empty transaction, which a client reports to no
broker.

A coordinator of a classic group refuses offsets that name an older generation of it. Such requests arrive when a step
has held them, and the coordinator had accepted a heartbeat of a newer generation before it got them.

Nobody but its members commits offsets of a group that has some, or deletes them (KIP-496, KIP-848).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.contract.internal_topics import OFFSETS, TRANSACTIONS
from harness.model.documents.steps import AskedFromOutside, HeldFrame
from harness.model.finding import Finding, Kind
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.schemas import Columns
from harness.verify.addition import Addition
from harness.verify.engine.case import Case
from harness.verify.engine.kept import kept, narrowed
from harness.verify.engine.known import Known
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import Reason, found
from harness.verify.engine.tables import BUNDLE, PLACE, UNBOUNDED, frame
from harness.verify.excuse import Excuse
from harness.verify.excuses.clauses import Clause, clauses
from harness.verify.excuses.unclean_elections import internal_elections, permitted_elections
from harness.verify.promise import Check, Introduced, Settings, span
from harness.verify.sentences import promise

_SHOWN: Final = [*PLACE, "offset", "stream", "seq", "reader", "reason", "txn_id"]
_CLIENT: Final = [BUNDLE, "producer", "initialised_ns"]
# Requests with offsets of a group, which name its generation.
_OFFSETS_SENT: Final = ("OffsetCommit", "TxnOffsetCommit")
_CLASSIC: Final = "classic"
_REPLACED: Final[Columns] = {"producer": "string", "initialised_ns": "int64", "replaced_ns": "int64"}


class Unfenced(Reason):
    """The acknowledged call of the client that had been replaced."""

    SENT = "sent", "A send, or offsets of a group in its transaction."
    COMMITTED = "late_commit", "The commit of the transaction with this record."


# None: for records; the others for offsets of a group, which have no send.
_REASONS: Final = (None, Unfenced.SENT.value, Unfenced.COMMITTED.value)


def unfenced(given: Prepared) -> DataFrame:
    """Records and offsets that a client sent, or committed in its transaction, after the next client of its
    transactional id was initialised. Hardly any client lives as long, so that mostly nothing is read but the table of
    transactions."""
    late = kept(_replaced(given))
    rows = [_of_client(narrowed(table, late, "txn_id"), late) for table in (given.ledger, given.offset_commits)]
    return found(rows[0].unionByName(rows[1], allowMissingColumns=True), Kind.UNFENCED, F.col("reason"), other="txn_id")


def _replaced(given: Prepared) -> DataFrame:
    """Transactions that ended after the next client was initialised: `replaced_ns`, and `committed_late`, whether their
    commit was called after that, too."""
    known = given.transactions.where("initialised_ns IS NOT NULL")
    clients = known.groupBy(*_CLIENT).agg(F.max("ended_ns").alias("last_ns")).orderBy(*_CLIENT).collect()
    replaced = [
        (*(one[name] for name in _CLIENT), after["initialised_ns"])
        for one, after in pairwise(clients)
        if (one[BUNDLE], one["producer"]) == (after[BUNDLE], after["producer"])
        and one["last_ns"] > after["initialised_ns"]
    ]
    late = known.join(F.broadcast(frame(given.spark, _REPLACED, replaced)), _CLIENT).where("ended_ns > replaced_ns")
    committed = (F.col("outcome") == TxnOutcome.COMMITTED.value) & (F.col("end_called_ns") > F.col("replaced_ns"))
    return late.select(BUNDLE, "txn_id", "replaced_ns", F.coalesce(committed, F.lit(False)).alias("committed_late"))


def _of_client(rows: DataFrame, late: DataFrame) -> DataFrame:
    """Acknowledged rows of these transactions that break the promise. An acknowledgement without an offset may be for
    an earlier send of the same sequence number."""
    acked = rows.where((F.col("outcome") == Outcome.ACKED.value) & F.col("offset").isNotNull())
    joined = acked.join(F.broadcast(late), [BUNDLE, "txn_id"])
    sent = F.col("called_ns") > F.col("replaced_ns")
    reason = F.when(sent, F.lit(Unfenced.SENT)).otherwise(F.lit(Unfenced.COMMITTED))
    named = {"reason": reason} | ({"reader": F.col("group")} if "group" in rows.columns else {})
    broken = joined.where(sent | F.col("committed_late")).withColumns(named)
    return broken.select(*[name for name in _SHOWN if name in broken.columns])


def _epoch_lost(number: int, case: Case) -> Iterator[Clause]:
    """The raised epoch is in the coordinator's log and, as the epoch of a marker, in the logs of the transaction."""
    for change in internal_elections(case, TRANSACTIONS):
        why = (
            f"unclean election of {TRANSACTIONS}/{change.partition} in epoch {change.leader_epoch}: "
            "it may lose the epochs of producers"
        )
        for reason in _REASONS:
            yield from clauses(
                number,
                [Kind.UNFENCED],
                why,
                evidence=change.evidence,
                reason=reason,
                acked_ns=(change.since_ns, UNBOUNDED),
            )
    for election in permitted_elections(case):
        change, why = election.change, f"{election.named}: it may lose the markers that fence a producer"
        yield from clauses(
            number,
            [Kind.UNFENCED],
            why,
            evidence=change.evidence,
            topic=change.topic,
            topic_id=change.topic_id,
            partition=change.partition,
            acked_ns=(change.since_ns, UNBOUNDED),
        )


def _late_commits(known: Known) -> Addition:
    return Addition(findings=[*_of_old_generations(known.case), *_of_outsiders(known.case)])


def _of_old_generations(case: Case) -> Iterator[Finding]:
    """Offsets of a group that its coordinator accepted although it knew a newer generation. A coordinator that lost
    records of its log may have forgotten that generation."""
    if any(True for _ in internal_elections(case, OFFSETS)):
        return
    for event, step in case.events(HeldFrame):
        delivered_ns, answered_ns, newer_ns = event.released_ns, event.answered_ns, event.newer_ns
        if delivered_ns is None or answered_ns is None or newer_ns is None or event.errors != ():
            continue
        # Members of other groups have epochs of their own (KIP-848).
        of_group = event.api in _OFFSETS_SENT and event.group_type == _CLASSIC
        if of_group and newer_ns < delivered_ns <= answered_ns:
            since_s = (delivered_ns - newer_ns) / 10**9
            yield Finding(
                kind=Kind.UNFENCED,
                first_ns=delivered_ns,
                last_ns=answered_ns,
                step=step.name,
                reader=event.group,
                detail=(
                    f"an {event.api} of generation {event.generation} of group {event.group} was accepted; "
                    f"{since_s:.1f} s before it arrived, the coordinator had accepted a newer generation"
                ),
                contract=promise(Kind.UNFENCED, None, None, case.contract),
            )


def _of_outsiders(case: Case) -> Iterator[Finding]:
    """Requests of no member that a coordinator accepted although it knew members of the group before and after."""
    for event, step in case.events(AskedFromOutside):
        if event.members and event.error is None:
            yield Finding(
                kind=Kind.UNFENCED,
                first_ns=event.asked_ns,
                last_ns=event.at_ns,
                step=step.name,
                reader=event.group,
                detail=(
                    f"an {event.api} of a client outside group {event.group} was accepted while the group had the "
                    f"members {', '.join(event.members)}"
                ),
                contract=promise(Kind.UNFENCED, None, None, case.contract),
            )


EPOCH_LOST: Final = Excuse(
    name="epoch_lost",
    permits="An unclean election may have lost the epoch by which brokers refuse a client that was replaced.",
    kinds=(Kind.UNFENCED,),
    clauses=_epoch_lost,
)


def _fenced(settings: Settings) -> str:
    if settings.topic is None:
        return "the coordinator of a group with members refuses what others ask, and a classic one older generations"
    return "init_transactions fences every earlier client of the same transactional id (KIP-98)"


CHECK: Final = Check(
    promise="No client is served that its transactional id or its group has left behind, or that is no member.",
    kinds={Kind.UNFENCED: Introduced(promise=_fenced)},
    seen={
        (Kind.UNFENCED, Unfenced.SENT): lambda run: (
            f"the send of the record, in {span(run, 'transaction')}, was called after the next client was initialised"
        ),
        (Kind.UNFENCED, Unfenced.COMMITTED): lambda run: (
            f"the commit of {span(run, 'transaction')}, which wrote the record, was called after the next client was "
            "initialised"
        ),
    },
    queries={"unfenced": unfenced},
    nothing_without={"unfenced": "transactions"},
    adds=_late_commits,
    excuses=(EPOCH_LOST,),
    planted=(
        "unfenced_send",
        "unfenced_commit",
        "near_unfenced_sent_before",
        "near_unfenced_commit_in_flight",
        "near_unfenced_of_an_empty_transaction",
        "unfenced_commit_of_an_old_generation",
        "near_unfenced_commit_of_the_newest_generation",
        "near_unfenced_commit_that_is_refused",
        "unfenced_commit_from_outside",
        "near_unfenced_commit_from_outside_a_group_without_members",
        "near_unfenced_commit_from_outside_that_is_refused",
    ),
)
