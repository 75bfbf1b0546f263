"""Partitions that gave no ack though their leader owed them: enough replicas were in sync, and it served others.

No promise of Kafka's is a time, so a slow answer is none of it. A step that waited for acks tells of a partition that
gave not one (`no_acks`) while its leader and its ISR stood as they were, and of others with the same leader and the
same ISR that gave theirs: acks=all waits there for the same replicas. What condemns is that, for UNAVAILABLE_S or more
by the ledger too, with an ISR as large as min.insync.replicas is declared; anything less is a doubt, since the wait was
in vain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from harness.model.finding import Finding, Kind
from harness.model.verdict import Doubt
from harness.verify.availability import Stall
from harness.verify.engine.case import Case
from harness.verify.engine.steps import open_during
from harness.verify.sentences import promise

# Beside what an election, a shrinking ISR and a client's retry take, seconds each.
UNAVAILABLE_S: Final = 25.0
MEANINGS: Final = {
    Kind.UNAVAILABLE: "its leader took nothing with min.insync.replicas in sync, and served others meanwhile"
}
# Doubts of a run that say that a client of ours ended early, so that acks may have ceased for that.
OF_CLIENTS: Final = ("producer", "client_hung")
# Faults beside which a leader owes acks: whoever is down has left the ISR, or it is not one and the same.
OF_PROCESSES: Final = ("kill", "terminate")
_NS: Final = 10**9


def unavailable(case: Case, stalls: Sequence[Stall]) -> Iterator[Finding]:
    """Of each partition that a wait found silent without an excuse."""
    for event, step in case.events("no_acks"):
        if case.complete and not _lacking(case, event, stalls):
            silent_s = (event["at_ns"] - event["since_ns"]) / _NS
            yield Finding(
                kind=Kind.UNAVAILABLE,
                topic=event["topic"],
                partition=event["partition"],
                first_ns=event["since_ns"],
                last_ns=event["at_ns"],
                step=step["name"],
                detail=(
                    f"not one ack in {silent_s:.1f} s, with broker {event['leader']} as its leader and {event['isr']} "
                    f"in sync all the time; with the same ones {_beside(event)}"
                ),
                contract=promise(Kind.UNAVAILABLE, event["topic"], None, case.contract),
            )


def silent(case: Case, stalls: Sequence[Stall]) -> Iterator[Doubt]:
    """Of each partition whose silence proves nothing, why."""
    for event, _ in case.events("no_acks"):
        if lacking := _lacking(case, event, stalls):
            yield Doubt(
                "no_acks", f"{event['topic']}/{event['partition']} gave no ack while one was waited for: {lacking}"
            )


def _lacking(case: Case, event: Mapping[str, Any], stalls: Sequence[Stall]) -> str:
    """What keeps a silence from being the release's fault; "" = nothing does."""
    contract = case.contract.topics.get(event["topic"])
    if contract is None:
        return "nothing is declared of it"
    if any(change.topic == event["topic"] for change in case.contract.changes or ()):
        return "a step changes its settings"
    if others := _open_meanwhile(case, event):
        return f"{', '.join(others)} may have held it up"
    if len(event["isr"]) < contract.min_insync_replicas:
        return f"{event['isr']} in sync are fewer than min.insync.replicas={contract.min_insync_replicas}"
    if not event["beside"]:
        return f"no other partition of broker {event['leader']} with the same ISR gave acks either"
    if any(doubt["name"] in OF_CLIENTS for doubt in case.run.get("doubts") or []):
        return "a client ended early"
    waited_s = max((_shared_s(event, stall) for stall in stalls), default=0.0)
    return "" if waited_s >= UNAVAILABLE_S else f"by the ledger it was waited for {waited_s:.1f} s"


def _open_meanwhile(case: Case, event: Mapping[str, Any]) -> list[str]:
    """Faults other than of processes, that were not healed before a silence began."""
    meanwhile = open_during(case.steps, event["since_ns"], event["at_ns"])
    return [step["name"] for step in meanwhile if step["is_fault"] and step["do"] not in OF_PROCESSES]


def _shared_s(event: Mapping[str, Any], stall: Stall) -> float:
    """For how long of an event a partition of its name stalled."""
    if (stall.place[0], stall.place[2]) != (event["topic"], event["partition"]):
        return 0.0
    return float(min(stall.to_ns, event["at_ns"]) - max(stall.from_ns, event["since_ns"])) / _NS


def _beside(event: Mapping[str, Any]) -> str:
    return ", ".join(f"{place} gave {acks}" for place, acks in sorted(event["beside"].items()))
