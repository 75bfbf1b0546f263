"""Partitions that acknowledged nothing although their leader should have: enough replicas were in sync, and it served
others.

Kafka promises no times, so a slow answer is no finding. A step that waits for acknowledgements records (`no_acks`) a
partition that acknowledged nothing while its leader and ISR did not change, and other partitions with the same leader
and ISR that did acknowledge: with acks=all both wait for the same replicas. This condemns if the ledger shows it for
UNAVAILABLE_S or longer, and the ISR is at least as large as the declared min.insync.replicas. Anything less is a doubt,
because the wait was in vain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from harness.model.documents.steps import NoAcks
from harness.model.doubt_names import DoubtName
from harness.model.facts import FactKind, Stop
from harness.model.finding import Finding, Kind
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.availability import Stall
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.steps import only, open_during
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

# Seconds, in addition to an election, a shrinking ISR and a client's retry, which take seconds each.
UNAVAILABLE_S: Final = 25.0
# Doubts of a run that mean that a client of ours ended early, which may be why acknowledgements stopped.
OF_CLIENTS: Final = (DoubtName.PRODUCER, DoubtName.CLIENT_HUNG)
# Facts that do not keep a leader from acknowledging: a broker that is down has left the ISR, or the ISR changed. One
# that crashed may have been slow before.
_OF_PROCESSES: Final = ((FactKind.STOPPED, Stop.KILLED), (FactKind.STOPPED, Stop.CLEANLY))
_NS: Final = 10**9


def _silences(known: Known) -> Addition:
    case, stalls = known.case, known.counts.waits.stalls
    return Addition(findings=[*_unavailable(case, stalls)], doubts=[*_excusable(case, stalls)])


def _unavailable(case: Case, stalls: Sequence[Stall]) -> Iterator[Finding]:
    """One finding for each partition that a wait found silent without an excuse."""
    for event, step in case.events(NoAcks):
        if case.complete and not _excuse(case, event, stalls):
            silent_s = (event.at_ns - event.since_ns) / _NS
            yield Finding(
                kind=Kind.UNAVAILABLE,
                topic=event.topic,
                partition=event.partition,
                first_ns=event.since_ns,
                last_ns=event.at_ns,
                step=step.name,
                detail=(
                    f"no acknowledgement for {silent_s:.1f} s, with leader {event.leader} and ISR {list(event.isr)} "
                    f"throughout; partitions with the same leader and ISR acknowledged: {_acked_elsewhere(event)}"
                ),
                contract=promise(Kind.UNAVAILABLE, event.topic, None, case.contract),
            )


def _excusable(case: Case, stalls: Sequence[Stall]) -> Iterator[Doubt]:
    """One doubt for each partition that has an excuse for its missing acks, with the excuse."""
    for event, _ in case.events(NoAcks):
        if excuse := _excuse(case, event, stalls):
            text = f"{event.topic}/{event.partition} acknowledged nothing during a wait for it"
            yield Doubt(DoubtName.NO_ACKS, f"{text}, which proves nothing: {excuse}")


def _excuse(case: Case, event: NoAcks, stalls: Sequence[Stall]) -> str:
    """Why a silence may not be the release's fault; empty = no excuse."""
    contract = case.contract.topics.get(event.topic)
    if contract is None:
        return "the contract does not declare the topic"
    if any(change.topic == event.topic for change in case.contract.changes or ()):
        return "a step changes the settings of the topic"
    if others := _active_faults(case, event):
        return f"{', '.join(others)} may have delayed it"
    if len(event.isr) < contract.min_insync_replicas:
        return f"the ISR {list(event.isr)} is smaller than min.insync.replicas={contract.min_insync_replicas}"
    if not event.beside:
        return f"no other partition with leader {event.leader} and the same ISR acknowledged anything either"
    if any(doubt.name in OF_CLIENTS for doubt in case.run.doubts or ()):
        return "a client ended early"
    waited_s = max((_overlap_s(event, stall) for stall in stalls), default=0.0)
    return (
        ""
        if waited_s >= UNAVAILABLE_S
        else f"according to the ledger records waited only {waited_s:.1f} s, and {UNAVAILABLE_S:g} s are required"
    )


def _active_faults(case: Case, event: NoAcks) -> list[str]:
    """Faults other than killed processes that were active during the silence."""
    meanwhile = open_during(case.steps, event.since_ns, event.at_ns)
    others = [step for step in meanwhile if step.facts and not only(step, *_OF_PROCESSES)]
    return [step.name for step in others if step.is_fault]


def _overlap_s(event: NoAcks, stall: Stall) -> float:
    """For how long of the event a partition of that name stalled, in seconds."""
    if (stall.place[0], stall.place[2]) != (event.topic, event.partition):
        return 0.0
    return float(min(stall.to_ns, event.at_ns) - max(stall.from_ns, event.since_ns)) / _NS


def _acked_elsewhere(event: NoAcks) -> str:
    return ", ".join(f"{place} {acks} records" for place, acks in sorted(event.beside.items()))


CHECK: Final = Check(
    promise="A leader with enough replicas in sync acknowledges writes.",
    kinds={
        Kind.UNAVAILABLE: Introduced(
            promise="a leader accepts writes while min.insync.replicas are in sync (Kafka documentation)"
        )
    },
    adds=_silences,
    order=Order(findings=30, doubts=80),
    planted=(
        "unavailable",
        "near_unavailable_with_too_few_in_sync",
    ),
)
