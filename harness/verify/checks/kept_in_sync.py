"""unavailable: a leader keeps a follower in its ISR that lacks records for much longer than replica.lag.time.max.ms.

Until such a follower has left the ISR, the high watermark waits for it, and acks=all is answered by a timeout. A leader
looks for followers that lag behind every half of that time (KIP-16). A follower that has not reached, at the end of the
wait, where the log of its leader had ended at the beginning, has not caught up in between.

Judged are times with one leader epoch in which leader and controllers ran and were not cut off from each other, so that
the leader could change its ISR. A follower that runs no more reports nothing, so it is the controllers that remove it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from harness.model.facts import OBSERVED, Fact, FactKind
from harness.model.finding import Finding, Kind
from harness.model.history.changes import ControllerChange, PartitionChange
from harness.model.sample import Sample
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.setting_values import longest_ms
from harness.verify.engine.steps import step_at
from harness.verify.engine.tables import UNBOUNDED
from harness.verify.engine.timelines import CLOCKS_NS, LATE_NS, Span, States, held, spans_of, timed_partitions
from harness.verify.promise import Check
from harness.verify.sentences import promise

_LAG: Final = "replica.lag.time.max.ms"
_LAG_MS: Final = 30_000  # Kafka's default
# Longer than leader and controller on a busy machine need to agree on a smaller ISR.
_AGREED_NS: Final = 20 * 10**9
_NS: Final = 10**9
_LINKS: Final = (FactKind.LINKS_CUT, FactKind.LINKS_SLOW)
_HARMLESS: Final = OBSERVED | {FactKind.CLIENT_DIED}


class _Kept(NamedTuple):
    """A leader's sample, and one of a follower that lacks records so long afterwards."""

    led: Sample
    lacking: Sample
    at_ns: int
    state: PartitionChange


def _in_sync(known: Known) -> Addition:
    return Addition(findings=[*kept_in_sync(known.case)])


def kept_in_sync(case: Case) -> Iterator[Finding]:
    """One finding for each partition: the longest such time."""
    history = case.history
    if history is None:
        return
    controllers = {row.controller for row in history.of(ControllerChange)}
    allowed_ns = longest_ms(case, _LAG, _LAG_MS) * 3 // 2 * 10**6 + _AGREED_NS
    for _, states, of_brokers in timed_partitions(case, history):
        kept = [
            one
            for state, span, follower in _memberships(states)
            for one in _late(state, span, of_brokers, follower, allowed_ns)
            if not _disturbed(case, controllers, one)
        ]
        if kept:
            yield _finding(case, max(kept, key=lambda one: one.at_ns - one.led.at_ns))


def _memberships(states: States) -> Iterator[tuple[PartitionChange, Span, int]]:
    """Each state with each follower that was in sync, and from when until when one leader epoch had it so."""
    rows = states.rows
    ends = [after.time_ns for _, after in pairwise(rows)]
    begun: dict[tuple[int, int], int] = {}
    for row, end_ns in zip(rows, [*ends, UNBOUNDED], strict=True):
        members = {(row.leader_epoch, follower) for follower in row.isr if follower != row.leader}
        begun = {member: begun.get(member, row.time_ns) for member in sorted(members)}
        for (_, follower), from_ns in begun.items():
            yield row, Span(from_ns + CLOCKS_NS, end_ns - CLOCKS_NS), follower


def _late(
    state: PartitionChange, span: Span, of_brokers: Mapping[int, Sequence[Sample]], follower: int, allowed_ns: int
) -> Iterator[_Kept]:
    of_leader = [
        sample
        for sample in of_brokers.get(state.leader, ())
        if sample.leader_epoch == state.leader_epoch and span.from_ns <= sample.asked_ns <= span.to_ns
    ]
    of_leader.sort(key=lambda sample: sample.log_end)
    for sample, from_ns, to_ns in held(of_brokers.get(follower, ()), LATE_NS) if of_leader else ():
        above = bisect_right(of_leader, sample.log_end, key=lambda led: led.log_end)
        # The log of a leader does not become shorter, so the first end above is also the earliest one.
        first = of_leader[above] if above < len(of_leader) else None
        if first is not None and to_ns <= span.to_ns and from_ns - first.at_ns >= allowed_ns:
            yield _Kept(first, sample, from_ns, state)


def _disturbed(case: Case, controllers: Collection[int], kept: _Kept) -> bool:
    def disturbs(fact: Fact) -> bool:
        if fact.kind in _HARMLESS:
            return False
        if any(map(fact.concerns, controllers)):
            return True
        own = fact.kind not in (*_LINKS, FactKind.STOPPED, FactKind.FROZEN)
        return own or (fact.kind not in _LINKS and fact.concerns(kept.state.leader))

    return any(
        span.touches(kept.led.at_ns - CLOCKS_NS, kept.at_ns + CLOCKS_NS) for span in spans_of(case, None, disturbs)
    )


def _finding(case: Case, kept: _Kept) -> Finding:
    led, lacking, state = kept.led, kept.lacking, kept.state
    return Finding(
        kind=Kind.UNAVAILABLE,
        topic=led.topic,
        topic_id=led.topic_id,
        partition=led.partition,
        first_ns=led.at_ns,
        last_ns=kept.at_ns,
        step=step_at(case.steps, kept.at_ns),
        reader=f"broker {lacking.broker}",
        detail=(
            f"broker {led.broker}, which led in epoch {state.leader_epoch}, had a log that ended at {led.log_end}, and "
            f"kept broker {lacking.broker} in the ISR {sorted(state.isr)}, whose log ended at {lacking.log_end} still "
            f"{(kept.at_ns - led.at_ns) / _NS:.0f} s later, with {_LAG}={longest_ms(case, _LAG, _LAG_MS)}"
        ),
        contract=promise(Kind.UNAVAILABLE, led.topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="A follower that lacks records for too long leaves the ISR.",
    shares=(Kind.UNAVAILABLE,),
    adds=_in_sync,
    order=Order(findings=30),
    planted=("unavailable_behind_a_follower_that_lags", "near_unavailable_behind_a_follower_that_lagged_just_now"),
)
