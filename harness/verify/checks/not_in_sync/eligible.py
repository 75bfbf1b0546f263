"""Members of the ELR (KIP-966) after an end of their broker without a controlled shutdown.

Such a broker may have lost the end of its logs, because nothing was flushed. So the controller removes it from every
ELR in the batch of records by which the next process of the broker registers, just before that record.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from harness.model.facts import Fact, FactKind, Stop
from harness.model.finding import Finding, Kind
from harness.model.history.changes import BrokerChange, BrokerEvent, PartitionChange
from harness.model.history.history import History
from harness.verify.engine.case import Case
from harness.verify.engine.elections import Clocks
from harness.verify.engine.steps import facts_in, step_at
from harness.verify.engine.timelines import CLOCKS_NS
from harness.verify.sentences import promise

_SUDDEN: Final = (Stop.KILLED, Stop.POWER)  # others may have shut down before, or may not have ended at all


def eligible_after_a_sudden_end(case: Case, history: History, clocks: Clocks) -> Iterator[Finding]:
    """One finding for each partition that still has the broker in its ELR."""
    registered = [row for row in history.of(BrokerChange) if row.event is BrokerEvent.REGISTERED]
    for broker in sorted({row.broker for row in registered}):
        of_broker = [row for row in registered if row.broker == broker]
        for before, after in pairwise(of_broker):
            known = clocks.right(before) and clocks.right(after) and not after.from_snapshot
            if known and before.incarnation != after.incarnation and _ended_suddenly(case, before, after):
                for state in _states_at(history, after.offset):
                    if broker in state.elr:
                        yield _finding(case, state, after)


def _ended_suddenly(case: Case, before: BrokerChange, after: BrokerChange) -> bool:
    """Whether steps ended the process of the first registration suddenly, and nothing else of it is known."""
    from_ns, to_ns = before.time_ns + CLOCKS_NS, after.time_ns - CLOCKS_NS
    stops = [
        stop
        for stop in facts_in(case.steps, FactKind.STOPPED)
        if stop.concerns(before.broker) and stop.from_ns <= after.time_ns and (stop.to_ns or to_ns) >= before.time_ns
    ]
    return bool(stops) and all(
        stop.nodes is not None and stop.how in _SUDDEN and _within(stop, from_ns, to_ns) for stop in stops
    )


def _within(stop: Fact, from_ns: int, to_ns: int) -> bool:
    return stop.to_ns is not None and from_ns < stop.from_ns and stop.to_ns < to_ns


def _states_at(history: History, offset: int) -> list[PartitionChange]:
    """The state of every partition of a topic that exists, at an offset of the metadata log."""
    deleted = {life.topic_id for life in history.topics if life.deleted is not None and life.deleted.offset <= offset}
    states = {
        (row.topic_id, row.partition): row
        for row in history.of(PartitionChange)
        if row.offset <= offset and row.topic_id not in deleted
    }
    return list(states.values())


def _finding(case: Case, state: PartitionChange, registered: BrokerChange) -> Finding:
    at_ns = registered.time_ns
    return Finding(
        kind=Kind.WRONGLY_ELIGIBLE,
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        first_ns=at_ns,
        last_ns=at_ns,
        step=step_at(case.steps, at_ns),
        reader=f"broker {registered.broker}",
        detail=(
            f"broker {registered.broker} ended without a controlled shutdown, and was in the ELR {sorted(state.elr)} "
            "when its next process had registered"
        ),
        contract=promise(Kind.WRONGLY_ELIGIBLE, state.topic, None, case.contract),
    )
