"""admin_lost: an election of the preferred replica, which was in sync, was answered and the replica does not lead.

The controller holds such an election at once, or answers why not (KIP-183). ELECTION_NOT_NEEDED says that the replica
leads already. Any other error is no promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.documents.steps import ElectionInVain
from harness.model.finding import Finding, Kind
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.promise import Check
from harness.verify.sentences import promise

_LEADS: Final = (None, "ELECTION_NOT_NEEDED")


def _elections(known: Known) -> Addition:
    return Addition(findings=[*not_elected(known.case)])


def not_elected(case: Case) -> Iterator[Finding]:
    """One finding for each partition and step."""
    for event, step in case.events(ElectionInVain):
        if event.error in _LEADS and event.preferred in event.isr and event.leader != event.preferred:
            answered = f"answered {event.error}" if event.error else "held"
            yield Finding(
                kind=Kind.ADMIN_LOST,
                topic=event.topic,
                partition=event.partition,
                first_ns=event.at_ns,
                last_ns=event.at_ns,
                step=step.name,
                detail=(
                    f"the election of the preferred replica, broker {event.preferred}, was {answered}; "
                    f"{event.waited_s:g} s later broker {event.leader} leads, with the ISR {sorted(event.isr)}"
                ),
                contract=promise(Kind.ADMIN_LOST, event.topic, None, case.contract),
            )


CHECK: Final = Check(
    promise="An election of the preferred replica makes it the leader if it is in sync.",
    shares=(Kind.ADMIN_LOST,),
    adds=_elections,
    order=Order(findings=18),
    planted=(
        "admin_lost_election",
        "near_admin_lost_election_of_a_replica_out_of_sync",
        "near_admin_lost_refused_election",
    ),
)
