"""unavailable: the controllers take a broker for alive that is dead, so that nobody leads in its place.

A broker that sends no heartbeat for broker.session.timeout.ms is fenced, and others lead its partitions (KIP-631). A
controller that becomes active grants that time anew to all brokers that it finds unfenced, also to one that never sends
it a heartbeat.

Judged are brokers whose process ended by a step, from then, or from the last election of a controller, until they
register again. Runs in which a step changed clocks are not judged, nor are times in which a step disturbed controllers
otherwise than by an end of their processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.facts import Fact, FactKind
from harness.model.finding import Finding, Kind
from harness.model.history.changes import BrokerChange, BrokerEvent, ControllerChange, ControllerEvent
from harness.model.history.history import History
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.setting_values import longest_ms
from harness.verify.engine.steps import facts_in, step_at
from harness.verify.engine.timelines import Span, spans_of
from harness.verify.promise import Check
from harness.verify.sentences import promise

_SESSION: Final = "broker.session.timeout.ms"
_SESSION_MS: Final = 9_000  # Kafka's default
# Longer than a controller on a busy machine needs to notice that a session has ended.
_NOTICED_NS: Final = 20 * 10**9
_NS: Final = 10**9
# These slow or part controllers without a new election, or let time pass differently.
_DISTURBS: Final = frozenset(
    {
        FactKind.FROZEN,
        FactKind.LINKS_CUT,
        FactKind.LINKS_SLOW,
        FactKind.QUORUM_LOST,
        FactKind.DISK_SLOW,
        FactKind.DISK_FILLED,
        FactKind.DISK_FAILED,
        FactKind.METADATA_DAMAGED,
        FactKind.UPGRADED,
    }
)


def _alive(known: Known) -> Addition:
    return Addition(findings=[*taken_for_alive(known.case)])


def taken_for_alive(case: Case) -> Iterator[Finding]:
    """One finding for each end of a broker."""
    history = case.history
    if history is None or not history.whole or any(facts_in(case.steps, FactKind.CLOCK_CHANGED)):
        return
    disturbed = _of_controllers(case, history)
    for fact in facts_in(case.steps, FactKind.STOPPED):
        for broker in fact.nodes or ():
            if found := _left_unfenced(case, history, fact, broker, disturbed):
                yield found


def _of_controllers(case: Case, history: History) -> list[Span]:
    """When controllers may have been disturbed: a node that is no controller disturbs none."""
    controllers = {row.controller for row in history.of(ControllerChange)}

    def disturbs(fact: Fact) -> bool:
        return fact.kind in _DISTURBS and any(fact.concerns(controller) for controller in controllers)

    return spans_of(case, None, disturbs)


def _left_unfenced(case: Case, history: History, fact: Fact, broker: int, disturbed: list[Span]) -> Finding | None:
    rows = [row for row in history.of(BrokerChange) if row.broker == broker]
    before = next((row for row in reversed(rows) if row.time_ns < fact.from_ns), None)
    if fact.to_ns is None or before is None or before.fenced or before.event is BrokerEvent.UNREGISTERED:
        return None
    later = next((row for row in rows if row.time_ns >= fact.from_ns and _is_over(row)), None)
    end_ns = later.time_ns if later else history.changes[-1].time_ns
    leads = [row.time_ns for row in history.of(ControllerChange) if row.event is ControllerEvent.LEADS]
    begin_ns = max([fact.to_ns, *(at_ns for at_ns in leads if at_ns < end_ns)])
    session_ns = longest_ms(case, _SESSION, _SESSION_MS) * 10**6
    if end_ns - begin_ns < session_ns + _NOTICED_NS or any(span.touches(begin_ns, end_ns) for span in disturbed):
        return None
    return Finding(
        kind=Kind.UNAVAILABLE,
        first_ns=begin_ns,
        last_ns=end_ns,
        step=step_at(case.steps, fact.from_ns),
        reader=f"broker-{broker}",
        detail=(
            f"broker {broker} had ended, and for {(end_ns - begin_ns) / _NS:.0f} s an active controller did not fence "
            f"it, with {_SESSION}={session_ns // 10**6}"
        ),
        contract=promise(Kind.UNAVAILABLE, None, None, case.contract),
    )


def _is_over(row: BrokerChange) -> bool:
    """Whether the controllers fenced the broker, or another process of it registered."""
    return row.fenced or row.event in (BrokerEvent.REGISTERED, BrokerEvent.UNREGISTERED)


CHECK: Final = Check(
    promise="A broker that is dead is fenced when its session has ended.",
    shares=(Kind.UNAVAILABLE,),
    adds=_alive,
    order=Order(findings=30),
    planted=("unavailable_behind_a_dead_broker", "near_unavailable_behind_a_broker_that_died_just_now"),
)
