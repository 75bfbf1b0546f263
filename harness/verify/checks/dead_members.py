"""group_unsettled: a coordinator keeps a member that has died, so that no other one reads its partitions.

A member that sends no heartbeat for the time of its session is removed, and its partitions go to others: the
client's session.timeout.ms with the classic protocol, group.consumer.session.timeout.ms of the brokers with the
consumer protocol (KIP-848). Judged are members whose process a step killed, unless a step disturbed a broker meanwhile:
a coordinator that has loaded its group again gives every member that time again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.documents.steps import MemberDied
from harness.model.facts import OBSERVED, Fact, FactKind
from harness.model.finding import GROUP, Finding, Kind
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.setting_values import longest_ms
from harness.verify.engine.timelines import spans_of
from harness.verify.promise import Check
from harness.verify.sentences import promise

_SESSION: Final = "group.consumer.session.timeout.ms"
_SESSION_MS: Final = 45_000  # Kafka's default
# Longer than the other members need to join again on a busy machine.
_JOINED_NS: Final = 20 * 10**9
_NS: Final = 10**9
_HARMLESS: Final = OBSERVED | {FactKind.CLIENT_DIED}


def _kept(known: Known) -> Addition:
    return Addition(findings=[*dead_members(known.case)])


def dead_members(case: Case) -> Iterator[Finding]:
    """One finding for each such member."""
    disturbed = spans_of(case, None, _disturbs)
    for event, step in case.events(MemberDied):
        session_ms = longest_ms(case, _SESSION, _SESSION_MS) if event.session_ms is None else event.session_ms
        until_ns = event.until_ns if event.taken_ns is None else event.taken_ns
        late = until_ns - event.at_ns >= session_ms * 10**6 + _JOINED_NS
        if late and not any(span.touches(event.at_ns, until_ns) for span in disturbed):
            yield _finding(case, event, step.name, until_ns, session_ms)


def _disturbs(fact: Fact) -> bool:
    return fact.kind not in _HARMLESS


def _finding(case: Case, event: MemberDied, step: str, until_ns: int, session_ms: int) -> Finding:
    return Finding(
        kind=Kind.GROUP_UNSETTLED,
        reader=f"{GROUP} {event.group}",
        count=1,
        first_ns=event.at_ns,
        last_ns=until_ns,
        step=step,
        detail=(
            f"member {event.member} of group {event.group} had died, and for {(until_ns - event.at_ns) / _NS:.0f} s "
            f"no other members had all of its partitions, with a session of {session_ms / 1000:g} s"
        ),
        contract=promise(Kind.GROUP_UNSETTLED, None, None, case.contract),
    )


CHECK: Final = Check(
    promise="The partitions of a member that has died go to others when its session has ended.",
    shares=(Kind.GROUP_UNSETTLED,),
    adds=_kept,
    order=Order(findings=13),
    planted=(
        "group_unsettled_with_a_dead_member",
        "near_group_unsettled_with_a_member_that_died_just_now",
        "near_group_unsettled_with_a_dead_member_and_a_dead_broker",
    ),
)
