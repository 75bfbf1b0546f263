"""transaction_unfinished: a coordinator that never ends a transaction, although all its markers may be written, or that
commits one long after its timeout, or one of a group for which offsets of a transaction that is over stay pending.

A coordinator looks for transactions that are older than the transaction.timeout.ms of their producer, and aborts them
(KIP-98). So a commit that is called later than that, and than two looks, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import functions as F

from harness.model.contract.internal_topics import OFFSETS, TRANSACTIONS
from harness.model.documents.run import OpenTransaction
from harness.model.doubt_names import DoubtName
from harness.model.facts import OBSERVED, FactKind
from harness.model.finding import Finding, Kind
from harness.model.outcome import TxnOutcome
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.setting_values import longest_ms
from harness.verify.engine.steps import facts_but, step_at
from harness.verify.engine.tables import BUNDLE, UNBOUNDED
from harness.verify.excuses.unclean_elections import may_have_forgotten
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

_STATE: Final = (OFFSETS, TRANSACTIONS)
_LOOK: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_LOOK_MS: Final = 10_000  # Kafka's default
_LOOKS: Final = 2
_LATE_NS: Final = 6 * 10**9  # a coordinator on a busy machine looks and aborts so much later
_NS: Final = 10**9
_HARMLESS: Final = OBSERVED | {FactKind.TRANSACTION_ENDED}  # a step that calls the commit disturbs no coordinator


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction that was open for long."""

    producer: str
    called_ns: int
    end_called_ns: int


def long_ones(given: Prepared) -> list[list[Committed]]:
    """Committed transactions that were open for longer than any look takes."""
    open_ns = F.col("end_called_ns") - F.col("called_ns")
    rows = given.transactions.where((F.col("outcome") == TxnOutcome.COMMITTED.value) & (open_ns > _LATE_NS))
    found: list[list[Committed]] = [[] for _ in given.cases]
    for row in rows.select(BUNDLE, "producer", "called_ns", "end_called_ns").collect():
        found[row[BUNDLE]].append(Committed(row["producer"], row["called_ns"], row["end_called_ns"]))
    return found


LONG: Final[OnDriver[list[Committed]]] = OnDriver(name="long_transactions", read=long_ones, none=list)


def _after_the_load(known: Known) -> Addition:
    """Nothing without a wait, or for a run that ended before the wait was over."""
    case, waited = known.case, known.case.run.transactions_ended
    late = [*_outlived(case, known.of(LONG))]
    if waited is None:
        return Addition(findings=late)
    if not case.in_vain(waited):
        return Addition(findings=[*late, *_pending_offsets(case)])
    if waited.open and case.nodes_were_up:
        return Addition(findings=[*late, *(_finding(case, one, waited.waited_s or 0) for one in waited.open)])
    why = "a node was not running" if waited.open else "a coordinator did not answer"
    text = f"it is unknown whether the coordinators ended every transaction, because {why}: {waited.last_seen}"
    return Addition(findings=late, doubts=[Doubt(DoubtName.TRANSACTIONS_LATE, text)])


def _outlived(case: Case, committed: Sequence[Committed]) -> Iterator[Finding]:
    """One finding for each producer. A coordinator that a fault disturbed may look later."""
    look = case.cluster.coordinators
    timeouts = (
        {one.name: (one.logged or {}).get("timeout_ms") for one in look.states if one.kind == "transaction"}
        if look
        else {}
    )
    facts = [*facts_but(case.steps, _HARMLESS)]
    said: set[str] = set()
    for one in committed:
        timeout_ms = timeouts.get(one.producer)
        if not isinstance(timeout_ms, int) or one.producer in said:
            continue
        due_ns = one.called_ns + (timeout_ms + _LOOKS * longest_ms(case, _LOOK, _LOOK_MS)) * 10**6 + _LATE_NS
        calm = all(one.end_called_ns < fact.from_ns or (fact.to_ns or UNBOUNDED) < one.called_ns for fact in facts)
        if one.end_called_ns > due_ns and calm:
            said.add(one.producer)
            yield _late_commit(case, one, timeout_ms)


def _late_commit(case: Case, one: Committed, timeout_ms: int) -> Finding:
    open_s = (one.end_called_ns - one.called_ns) / _NS
    return Finding(
        kind=Kind.TRANSACTION_UNFINISHED,
        first_ns=one.called_ns,
        last_ns=one.end_called_ns,
        step=step_at(case.steps, one.end_called_ns),
        detail=(
            f"a commit of {one.producer} was accepted {open_s:.0f} s after the first record of its transaction, with "
            f"transaction.timeout.ms={timeout_ms}"
        ),
        contract=promise(Kind.TRANSACTION_UNFINISHED, None, None, case.contract),
    )


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
    on_driver=(LONG,),
    adds=_after_the_load,
    order=Order(findings=11, doubts=56),
    planted=(
        "transaction_unfinished",
        "transaction_committed_after_its_timeout",
        "near_transaction_unfinished_and_committed_in_time",
        "near_transaction_unfinished_and_ended_late",
        "near_transaction_unfinished_with_a_node_down",
        "doubt_transaction_unfinished_unanswered",
        "transaction_unfinished_for_a_group",
        "near_transaction_unfinished_for_a_group_without_a_coordinator",
        "near_transaction_unfinished_for_a_group_of_an_open_one",
    ),
)
