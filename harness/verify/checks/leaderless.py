"""unavailable: the controllers left a partition without a leader although a replica could have led it.

A partition loses its leader when no replica in its ISR or ELR can lead. The controller elects one of them in the same
moment in which its broker is unfenced or gets its log directory back (KIP-631, KIP-858, KIP-966). So in the metadata
log no partition is without a leader while the broker of such a replica is registered, unfenced and not shutting down,
and has the directory of the replica online.

Both are rows of one log, so how late brokers learn of them does not matter. Clocks of controllers may differ, so a
partition must be without a leader for LEADERLESS_S; runs in which a step changed clocks are not judged, nor are
replicas of which no directory is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from harness.model.facts import FactKind
from harness.model.finding import Finding, Kind
from harness.model.history.changes import (
    NO_LEADER,
    BrokerChange,
    BrokerEvent,
    PartitionChange,
    TopicChange,
    TopicEvent,
)
from harness.model.history.history import History
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.steps import facts_in, step_at
from harness.verify.promise import Check
from harness.verify.sentences import promise

LEADERLESS_S: Final = 5.0
_NS: Final = 10**9
_Place = tuple[str, int]  # topic id and partition


class Leaderless(NamedTuple):
    """A time in which a broker could have led a partition without a leader."""

    state: PartitionChange
    broker: int
    from_ns: int
    to_ns: int


def _without_leader(known: Known) -> Addition:
    return Addition(findings=[*leaderless(known.case)])


def leaderless(case: Case) -> Iterator[Finding]:
    """One finding for each partition, with the longest time."""
    history = case.history
    if history is None or not history.whole or any(facts_in(case.steps, FactKind.CLOCK_CHANGED)):
        return
    longest: dict[_Place, Leaderless] = {}
    for one in _times(history):
        place = one.state.topic_id, one.state.partition
        before = longest.get(place)
        if before is None or one.to_ns - one.from_ns > before.to_ns - before.from_ns:
            longest[place] = one
    for one in longest.values():
        if one.to_ns - one.from_ns >= LEADERLESS_S * _NS:
            yield _finding(case, one)


def _times(history: History) -> Iterator[Leaderless]:
    """Follows the log: what each change of a partition or a broker means for the partitions without a leader."""
    brokers: dict[int, BrokerChange] = {}
    states: dict[_Place, PartitionChange] = {}  # of the partitions without a leader
    since: dict[tuple[_Place, int], tuple[PartitionChange, int]] = {}
    last_ns = 0
    for row in history.changes:
        last_ns = max(last_ns, row.time_ns)
        if isinstance(row, BrokerChange):
            brokers[row.broker] = row
            changed = [*states]
        elif isinstance(row, PartitionChange):
            changed = [(row.topic_id, row.partition)]
            states.pop(changed[0], None)
            if row.leader == NO_LEADER:
                states[changed[0]] = row
        elif isinstance(row, TopicChange) and row.event is TopicEvent.DELETED:
            changed = [place for place in states if place[0] == row.topic_id]
            for place in changed:
                del states[place]
        else:
            continue
        for place in changed:
            able = _able(states[place], brokers) if place in states else set()
            for key in [key for key in since if key[0] == place and key[1] not in able]:
                state, from_ns = since.pop(key)
                yield Leaderless(state, key[1], from_ns, row.time_ns)
            for broker in able:
                since.setdefault((place, broker), (states[place], row.time_ns))
    for (_, broker), (state, from_ns) in since.items():
        yield Leaderless(state, broker, from_ns, last_ns)


def _able(state: PartitionChange, brokers: dict[int, BrokerChange]) -> set[int]:
    """The brokers that the controller can elect."""
    directories = dict(zip(state.replicas, state.directories, strict=False))
    found = set()
    for broker in {*state.isr, *state.elr}:
        known = brokers.get(broker)
        if known is None or known.event is BrokerEvent.UNREGISTERED or known.fenced or known.shutting_down:
            continue
        if directories.get(broker) in known.directories:
            found.add(broker)
    return found


def _finding(case: Case, one: Leaderless) -> Finding:
    state = one.state
    lasted_s = (one.to_ns - one.from_ns) / _NS
    return Finding(
        kind=Kind.UNAVAILABLE,
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        first_ns=one.from_ns,
        last_ns=one.to_ns,
        step=step_at(case.steps, one.from_ns),
        detail=(
            f"the controllers left the partition without a leader for {lasted_s:.1f} s, from offset {state.offset} of "
            f"the metadata log on, while broker {one.broker} was unfenced, and eligible by ISR {list(state.isr)} and "
            f"ELR {list(state.elr)}"
        ),
        contract=promise(Kind.UNAVAILABLE, state.topic, None, case.contract),
    )


CHECK: Final = Check(
    promise="A partition has a leader as long as a replica in sync can lead it.",
    shares=(Kind.UNAVAILABLE,),
    adds=_without_leader,
    order=Order(findings=30),
    planted=("unavailable_without_a_leader", "near_unavailable_without_a_leader_for_a_moment"),
)
