"""Findings that documents alone show: hanging transactions, and a cluster that did not recover."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.doubt_names import DoubtName
from harness.model.finding import Finding, Kind
from harness.model.pending import Pending
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.checks.crashed import crashes
from harness.verify.checks.unavailable import OF_CLIENTS
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise


def _after_healing(known: Known) -> Addition:
    """For a run that ended early, only a wait for recovery that was over by then."""
    case = known.case
    if not case.complete:
        return Addition(findings=[*_not_recovered(case)])
    return Addition(findings=[*_hanging(case), *_not_recovered(case)], doubts=[*_unknown(case)])


def _settled(case: Case) -> bool | None:
    """Whether the wait for transactions ended with every last stable offset at the high watermark."""
    return case.run.transactions_settled.ok if case.run.transactions_settled else None


def _excusable(case: Case) -> bool:
    """Whether something else may have kept the cluster from recovering: a node that is not running, a client that died,
    or what the evidence does not say. A node that crashed is no excuse."""
    pending = case.run.recovered.pending if case.run.recovered else None
    clients = any(doubt.name in OF_CLIENTS for doubt in case.run.doubts or ())
    down = pending is Pending.NODES_DOWN and not crashes(case)
    return pending is None or down or (pending is Pending.NO_ACKS and clients)


def _hanging(case: Case) -> Iterator[Finding]:
    """Partitions with a last stable offset below the high watermark, long after the load and its transactions
    ended."""
    last = case.last_snapshot
    for p in last.partitions if last and _settled(case) is not True else ():
        stable, high = p.last_stable_offset, p.high_watermark
        if stable is None or high is None or stable >= high:
            continue
        waited_s = (case.run.transactions_settled.waited_s if case.run.transactions_settled else None) or 0
        yield Finding(
            kind=Kind.HANGING_TRANSACTION,
            topic=p.topic,
            topic_id=p.topic_id,
            partition=p.partition,
            offset_first=stable,
            offset_last=high - 1,
            count=high - stable,
            detail=(
                f"the last stable offset is {stable} and the high watermark {high}, "
                f"{waited_s:g} s after the last transaction"
            ),
            contract=promise(Kind.HANGING_TRANSACTION, None, None, case.contract),
        )


def _not_recovered(case: Case) -> Iterator[Finding]:
    recovered = case.run.recovered
    if recovered and recovered.ok is False and not _excusable(case):
        yield Finding(
            kind=Kind.NOT_RECOVERED,
            detail=f"{_who_runs(case)}, and the cluster did not recover: {recovered.last_seen}",
            contract=promise(Kind.NOT_RECOVERED, None, None, case.contract),
        )


def _who_runs(case: Case) -> str:
    pending = case.run.recovered.pending if case.run.recovered else None
    if pending is not Pending.NODES_DOWN:
        return "every node is running"
    return f"{' and '.join(sorted({one.name for one in crashes(case)}))} crashed in the run"


def _unknown(case: Case) -> Iterator[Doubt]:
    """Doubts about what was not waited for, or not waited for long enough."""
    if case.last_snapshot is None:
        return
    recovered, transactions = case.run.recovered, case.run.transactions_settled
    if recovered is None or recovered.ok is None:
        yield Doubt(DoubtName.RECOVERY_UNKNOWN, "the run did not wait for the cluster to recover")
    elif recovered.ok is False and _excusable(case):
        unsaid = "" if recovered.pending else "; run.json does not say what was missing (`pending`)"
        yield Doubt(DoubtName.NOT_BACK, f"the cluster did not recover: {recovered.last_seen}{unsaid}")
    if transactions and transactions.ok is False:
        seen = transactions.last_seen
        yield Doubt(
            DoubtName.TRANSACTIONS_LATE, f"transactions were still open when the wait for their end timed out: {seen}"
        )


CHECK: Final = Check(
    promise="After healing, transactions end, ISRs become full and writes are acknowledged.",
    kinds={
        Kind.HANGING_TRANSACTION: Introduced(
            promise="a transaction ends within transaction.timeout.ms and the coordinator's clean-up (KIP-98)"
        ),
        Kind.NOT_RECOVERED: Introduced(
            promise="when every node that did not crash runs again, ISRs become full and writes are acknowledged"
        ),
    },
    adds=_after_healing,
    order=Order(findings=10, doubts=55),
    planted=(
        "hanging_transaction",
        "near_hanging_transaction_that_ended_late",
        "not_recovered",
        "near_not_recovered_slowly",
        "near_not_recovered_with_a_node_down",
        "not_recovered_with_a_crashed_node_down",
    ),
)
