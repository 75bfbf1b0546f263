"""Members of an ISR, or leaders, that the controllers had fenced.

A fenced broker serves no client and need not have what the leader writes, so that the controllers remove it from every
ISR in the batch of records that fences it, just before that record, and let none join or lead (KIP-631, KIP-841,
KAFKA-13916). The last replica of an ISR stays in it, without a leader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from harness.model.finding import Finding, Kind
from harness.model.history.changes import BrokerChange, BrokerEvent, PartitionChange, TopicChange, TopicEvent
from harness.model.history.history import History
from harness.verify.engine.case import Case
from harness.verify.engine.steps import step_at
from harness.verify.sentences import promise


class _Wrong(NamedTuple):
    state: PartitionChange
    broker: int
    at_ns: int
    how: str


def fenced_members(case: Case, history: History) -> Iterator[Finding]:
    """One finding for each broker, which names the first state that is wrong."""
    of_brokers: defaultdict[int, list[_Wrong]] = defaultdict(list)
    for wrong in _wrong(history):
        of_brokers[wrong.broker].append(wrong)
    return (_finding(case, of_brokers[broker]) for broker in sorted(of_brokers))


def _wrong(history: History) -> Iterator[_Wrong]:
    fenced: set[int] = set()
    states: dict[tuple[str, int], PartitionChange] = {}
    for row in history.changes:
        match row:
            case TopicChange(event=TopicEvent.DELETED):
                states = {place: state for place, state in states.items() if place[0] != row.topic_id}
            case PartitionChange():
                before = states.get((row.topic_id, row.partition))
                states[row.topic_id, row.partition] = row
                if not row.from_snapshot:
                    yield from _chosen(before, row, fenced)
            case BrokerChange():
                if row.event is BrokerEvent.FENCED and not row.from_snapshot:
                    yield from _left(states.values(), row)
                fenced = fenced | {row.broker} if row.fenced else fenced - {row.broker}


def _chosen(before: PartitionChange | None, row: PartitionChange, fenced: set[int]) -> Iterator[_Wrong]:
    """Fenced brokers that joined the ISR with a state, or lead from then on."""
    for broker in sorted(fenced.intersection(row.isr).difference(before.isr if before else ())):
        yield _Wrong(row, broker, row.time_ns, "was added to")
    if row.leader in fenced and (before is None or before.leader_epoch != row.leader_epoch):
        yield _Wrong(row, row.leader, row.time_ns, "was elected with")


def _left(states: Iterable[PartitionChange], row: BrokerChange) -> Iterator[_Wrong]:
    """States in which a broker was left when it was fenced."""
    for state in states:
        if state.leader == row.broker or (row.broker in state.isr and len(state.isr) > 1):
            yield _Wrong(state, row.broker, row.time_ns, "was left in")


def _finding(case: Case, wrongs: Sequence[_Wrong]) -> Finding:
    first, state = wrongs[0], wrongs[0].state
    partitions = {(wrong.state.topic_id, wrong.state.partition) for wrong in wrongs}
    more = f", and of {len(partitions) - 1} other partitions" if len(partitions) > 1 else ""
    return Finding(
        kind=Kind.NOT_IN_SYNC,
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        first_ns=first.at_ns,
        last_ns=wrongs[-1].at_ns,
        step=step_at(case.steps, first.at_ns),
        reader=f"broker {first.broker}",
        detail=(
            f"the controllers had fenced broker {first.broker}, which {first.how} the ISR {sorted(state.isr)} of "
            f"leader {state.leader}{more}"
        ),
        contract=promise(Kind.NOT_IN_SYNC, state.topic, None, case.contract),
    )
