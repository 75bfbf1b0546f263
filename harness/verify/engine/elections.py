"""The changes of leaders of a run: from the history of the cluster, or else from the samples in steps.json.

**The history** (history.json) has every election, with its leader epoch and the set that the new leader came from. The
time of an election is the controller's. Until then the new leader acknowledged nothing, so an earlier acknowledgement
came from a leader of an earlier epoch (`sure_ns`). A deposed leader may acknowledge after the election, too: it leads
until it applies the record of the election, and it cannot do so while it is cut off or frozen. `late_ns` is the end of
that time, which is the earliest of these moments:

- Its process ended, by a fact of a step or by the registration of another incarnation.
- It was in the ISR again after it had been removed from the ISR: by then it had fetched from the new leader.
- Every fault of that time was healed, and `_LEARNED_NS` passed: a connected broker applies the record at once.

The evidence does not say which leader acknowledged a record between `sure_ns` and `late_ns`. `excuses/late_acks.py`
decides about these records.

A step may change the clock of a controller. Nothing is known then about the times of the elections that this controller
made.

**The samples** are the events `leader_change` and `internal_leader_change`. Other harnesses write them by FORMAT.md,
and earlier versions of this one did. A sample is later than its election, and shows only the last of several elections.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from harness.model.documents.steps import InternalLeaderSeen, LeaderSeen, Step
from harness.model.excuse import Evidence, EvidenceKind
from harness.model.facts import Fact, FactKind, Stop
from harness.model.history.changes import (
    NO_LEADER,
    BrokerChange,
    BrokerEvent,
    Change,
    ControllerChange,
    ControllerEvent,
    PartitionChange,
)
from harness.model.history.elections import ElectedFrom
from harness.model.history.history import Election, History
from harness.verify.engine.case import Case
from harness.verify.engine.steps import facts_in
from harness.verify.engine.tables import UNBOUNDED
from harness.verify.excuse import of_event

# A broker on an overloaded machine needs this long to apply a record of the metadata log after the last fault.
_LEARNED_NS: Final = 30 * 10**9
# A client on an overloaded machine reads an answer this long after it was sent.
_ANSWERED_NS: Final = 2 * 10**9
_CLEAN: Final = (ElectedFrom.ISR, ElectedFrom.ELR)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """A partition got another leader, or lost its leader (`new_leader` is NO_LEADER).

    clean: the new leader came from the ISR or the ELR; None = unknown. unclean: it may lack acknowledged records; also
    if the history does not show where it came from. The change was between `since_ns` and `at_ns`. What was
    acknowledged by `sure_ns` came from a leader of an earlier epoch, and what was acknowledged after `late_ns` did not.
    in_sync_ns: the new leader was in the ISR until then; 0 = never, or unknown. topic_id: None in samples. evidence:
    where it is recorded.
    """

    topic: str
    topic_id: str | None
    partition: int
    old_leader: int | None
    new_leader: int
    leader_epoch: int
    clean: bool | None
    unclean: bool
    since_ns: int
    at_ns: int
    sure_ns: int
    late_ns: int
    in_sync_ns: int
    evidence: Evidence

    @property
    def elected(self) -> bool:
        return self.new_leader != NO_LEADER

    def concerns(self, topic: str, partition: int, topic_id: str | None = None) -> bool:
        """Whether it is about a partition. Samples say nothing of ids, so they count for every topic of the name."""
        same_topic = topic_id is None or self.topic_id in (None, topic_id)
        return same_topic and (self.topic, self.partition) == (topic, partition)


def leader_changes(case: Case) -> Sequence[LeaderChange]:
    """The changes of leaders of all topics of the contract; those of one partition in the order of their epochs."""
    return case.once(_leader_changes)


def _leader_changes(case: Case) -> Sequence[LeaderChange]:
    if case.history is not None:
        return tuple(_in_history(case, case.history, case.contract.topics.keys()))
    return tuple(_sample(event, step, event.at_ns) for event, step in case.events(LeaderSeen))


def internal_leader_changes(case: Case, topic: str) -> list[LeaderChange]:
    """The changes of leaders of one of Kafka's own topics."""
    if case.history is not None:
        return list(_in_history(case, case.history, [topic]))
    seen = [(event, step) for event, step in case.events(InternalLeaderSeen) if event.topic == topic]
    return [_sample(event, step, event.since_ns) for event, step in seen]


def topic_id_at(case: Case, topic: str, at_ns: int) -> str | None:
    """The id of the topic that had a name at a time; None = unknown."""
    life = case.history.topic_at(topic, at_ns) if case.history is not None else None
    return life.topic_id if life is not None else None


def _sample(event: LeaderSeen | InternalLeaderSeen, step: Step, since_ns: int) -> LeaderChange:
    clean = event.clean
    return LeaderChange(
        topic=event.topic,
        topic_id=None,
        partition=event.partition,
        old_leader=event.old_leader,
        new_leader=event.new_leader,
        leader_epoch=event.leader_epoch,
        clean=clean,
        unclean=clean is False,
        since_ns=since_ns,
        at_ns=event.at_ns,
        sure_ns=event.at_ns,
        late_ns=event.at_ns,
        in_sync_ns=event.in_sync_ns or 0 if isinstance(event, InternalLeaderSeen) else 0,
        evidence=of_event(event, step, event.at_ns),
    )


def _in_history(case: Case, history: History, topics: Collection[str]) -> Iterator[LeaderChange]:
    timed, began_ns = Clocks(case, history), case.run.started_ns or 0
    rows = history.of(PartitionChange)
    for topic_id, partition in dict.fromkeys((row.topic_id, row.partition) for row in rows if row.topic in topics):
        elections = {e.after.offset: e for e in history.elections(topic_id, partition)}
        states = history.partition(topic_id, partition)
        late_ns = 0
        for number, (before, after) in enumerate(pairwise(states), start=1):
            if before.leader not in (NO_LEADER, after.leader):
                late_ns = max(late_ns, _learned_ns(case, history, timed, states, number))
            if after.leader != before.leader or after.offset in elections:
                change = _change(states[:number], after, elections.get(after.offset), timed, late_ns)
                if change.late_ns >= began_ns:  # the cluster may have served other runs before
                    yield change


def _change(
    earlier: Sequence[PartitionChange],
    after: PartitionChange,
    election: Election | None,
    timed: Clocks,
    late_ns: int,
) -> LeaderChange:
    source = None if election is None else election.elected_from
    known = timed.right(after)
    return LeaderChange(
        topic=after.topic,
        topic_id=after.topic_id,
        partition=after.partition,
        old_leader=earlier[-1].leader,
        new_leader=after.leader,
        leader_epoch=after.leader_epoch,
        clean=None if source in (None, ElectedFrom.UNKNOWN) else source in _CLEAN,
        unclean=source is not None and source not in _CLEAN,
        since_ns=after.time_ns if known else 0,
        at_ns=after.time_ns if known else UNBOUNDED,
        sure_ns=after.time_ns if known else 0,
        late_ns=max(after.time_ns, late_ns) if known else UNBOUNDED,
        in_sync_ns=_in_sync_ns([*earlier, after], after.leader, timed),
        evidence=Evidence(kind=EvidenceKind.ELECTION, what=f"{after.topic}/{after.partition}", at_ns=after.time_ns),
    )


def _in_sync_ns(states: Sequence[PartitionChange], leader: int, timed: Clocks) -> int:
    """When the new leader was last removed from the ISR, or elected if it was still in it.

    A leader acknowledges only what every member of the ISR has, and it counts a member until the controller has
    removed it. So the new leader has what was acknowledged until then.
    """
    ends = [after for before, after in pairwise(states) if leader in before.isr]
    return ends[-1].time_ns if ends and timed.right(ends[-1]) else 0


def _learned_ns(case: Case, history: History, timed: Clocks, states: Sequence[PartitionChange], number: int) -> int:
    """Until when the leader before `states[number]` may have acknowledged records in its old epoch."""
    deposed, leader = states[number], states[number - 1].leader
    if not timed.right(deposed):
        return UNBOUNDED
    began = number - 1
    while began and states[began - 1].leader == leader:
        began -= 1
    ends_ns = [_healed_ns(case, deposed.time_ns)]
    if timed.right(states[began]):
        ends_ns += [end_ns + _ANSWERED_NS for end_ns in _process_ends(case, leader, states[began].time_ns)]
    learned: list[Change] = _registrations(history, leader, states[began].offset)
    learned += [
        after
        for before, after in pairwise(states[number:])
        if leader not in before.isr and leader in after.isr and leader != after.leader
    ]
    ends_ns += [change.time_ns + _ANSWERED_NS for change in learned if timed.right(change)]
    return min(ends_ns)


def _healed_ns(case: Case, at_ns: int) -> int:
    """When a broker that was connected had learned of a change. UNBOUNDED if a fault of that time was never healed."""
    until_ns = at_ns + _LEARNED_NS
    for started_ns, step in sorted(_faults(case), key=lambda found: found[0]):
        if started_ns <= until_ns:
            healed_ns = step.healed_ns or step.ended_ns or UNBOUNDED
            if healed_ns >= at_ns:
                until_ns = max(until_ns, healed_ns + _LEARNED_NS)
    return min(until_ns, UNBOUNDED)


def _faults(case: Case) -> list[tuple[int, Step]]:
    """The faults that began, each with its beginning."""
    return [(step.started_ns, step) for step in case.steps if step.is_fault and step.started_ns is not None]


def _process_ends(case: Case, broker: int, since_ns: int) -> Iterator[int]:
    """By when the process that led at a time had ended: steps that succeeded ended it. It need not have crashed."""
    for stop in facts_in([step for step in case.steps if not step.error], FactKind.STOPPED):
        ended = stop.how is not Stop.CRASHED and stop.nodes is not None and broker in stop.nodes
        if ended and stop.from_ns >= since_ns and stop.to_ns is not None:
            yield stop.to_ns


def _registrations(history: History, broker: int, offset: int) -> list[Change]:
    """Registrations of later processes than the one that was registered at an offset of the metadata log. A process
    registers again when features change, with the same incarnation."""
    rows = [row for row in history.of(BrokerChange) if row.broker == broker]
    was = [row.incarnation for row in rows if row.offset <= offset][-1:]
    return [
        row for row in rows if row.event is BrokerEvent.REGISTERED and row.offset > offset and [row.incarnation] != was
    ]


class Clocks:
    """Which times of a history are right: those by controllers with clocks that no step changed."""

    def __init__(self, case: Case, history: History) -> None:
        self._changed: list[Fact] = list(facts_in(case.steps, FactKind.CLOCK_CHANGED))
        leads = [row for row in history.of(ControllerChange) if row.event is ControllerEvent.LEADS]
        self._leaders = {row.controller_epoch: row.controller for row in leads}

    def right(self, change: Change) -> bool:
        leader = self._leaders.get(change.controller_epoch)
        return not any(leader is None or fact.concerns(leader) for fact in self._changed)
