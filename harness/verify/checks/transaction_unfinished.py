"""transaction_unfinished: a coordinator that never ends a transaction, although all its markers may be written, or one
of a group for which offsets of a transaction that is over stay pending."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.contract.internal_topics import OFFSETS, TRANSACTIONS
from harness.model.documents.run import OpenTransaction
from harness.model.doubt_names import DoubtName
from harness.model.finding import Finding, Kind
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.excuses.unclean_elections import may_have_forgotten
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

_STATE: Final = (OFFSETS, TRANSACTIONS)


def _after_the_load(known: Known) -> Addition:
    """Nothing without a wait, or for a run that ended before the wait was over."""
    case, waited = known.case, known.case.run.transactions_ended
    if waited is None:
        return Addition()
    if not case.in_vain(waited):
        return Addition(findings=[*_pending_offsets(case)])
    if waited.open and case.nodes_were_up:
        return Addition(findings=[_finding(case, one, waited.waited_s or 0) for one in waited.open])
    why = "a node was not running" if waited.open else "a coordinator did not answer"
    text = f"it is unknown whether the coordinators ended every transaction, because {why}: {waited.last_seen}"
    return Addition(doubts=[Doubt(DoubtName.TRANSACTIONS_LATE, text)])


def _pending_offsets(case: Case) -> Iterator[Finding]:
    """One finding for each group whose coordinator had no stable offsets in time, and then others (KIP-447)."""
    if not case.complete or not case.nodes_were_up or any(may_have_forgotten(case, topic) for topic in _STATE):
        return
    last = case.last_snapshot
    rows = [row for row in (last.groups if last else ()) if row.stable is False and row.offset is not None]
    for group in sorted({row.group for row in rows}):
        places = sorted(f"{row.topic}/{row.partition}" for row in rows if row.group == group)
        yield Finding(
            kind=Kind.TRANSACTION_UNFINISHED,
            detail=(
                f"the coordinator of group {group} waits for the end of a transaction with offsets in "
                f"{', '.join(places)}, and every transaction has ended at its coordinator: no member can begin there"
            ),
            contract=promise(Kind.TRANSACTION_UNFINISHED, None, None, case.contract),
        )


def _finding(case: Case, one: OpenTransaction, waited_s: float) -> Finding:
    return Finding(
        kind=Kind.TRANSACTION_UNFINISHED,
        detail=(
            f"{one.transactional_id} is {one.state} at its coordinator, broker {one.coordinator}, "
            f"{waited_s:g} s after its last client stopped"
        ),
        contract=promise(Kind.TRANSACTION_UNFINISHED, None, None, case.contract),
    )


CHECK: Final = Check(
    promise="A transaction without a client ends for its coordinator, too, and for the groups whose offsets it has.",
    kinds={
        Kind.TRANSACTION_UNFINISHED: Introduced(
            promise="a coordinator ends each transaction within transaction.timeout.ms and its clean-up (KIP-98)"
        )
    },
    adds=_after_the_load,
    order=Order(findings=11, doubts=56),
    planted=(
        "transaction_unfinished",
        "near_transaction_unfinished_and_ended_late",
        "near_transaction_unfinished_with_a_node_down",
        "doubt_transaction_unfinished_unanswered",
        "transaction_unfinished_for_a_group",
        "near_transaction_unfinished_for_a_group_without_a_coordinator",
        "near_transaction_unfinished_for_a_group_of_an_open_one",
    ),
)
