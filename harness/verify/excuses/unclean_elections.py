"""Unclean elections that the contract permits: what was acknowledged before them may be missing (KIP-966).

Only records at or above the start of the new leader's epoch are missing by design, in the lineage of epochs that the
last leader has. A record below that start was on the new leader, and a record that a leader of this epoch or of a later
one acknowledged was, too. The exception is a leader that was replaced by one with older records at the same offsets
(`engine/lineages.py`); `late_acks` decides which records were its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypedDict

from harness.model.documents.steps import Step, UncleanElection
from harness.model.facts import FactKind
from harness.model.finding import Kind
from harness.verify.engine.case import NO_BROKER, Case
from harness.verify.engine.elections import LeaderChange, internal_leader_changes, leader_changes
from harness.verify.engine.lineages import last_id, lineages, replaced_leaders
from harness.verify.engine.steps import facts_in
from harness.verify.excuse import Excuse, of_event
from harness.verify.excuses.clauses import Clause, clauses
from harness.verify.excuses.config_history import unclean_permitted
from harness.verify.excuses.late_acks import late_times, of_replaced

# Another replica's log replaces the end of a log, and with it what readers received from there (KIP-966).
REPLACED: Final = (Kind.LOST, Kind.VANISHED, Kind.CONFLICTING, Kind.TORN_TRANSACTION)
# The acknowledged copy may be lost, and an earlier copy of the same send, which was truncated elsewhere, may stay.
MOVED: Final = (Kind.WRONG_ACK_OFFSET,)
# What takes records from a replica that it had written.
_FORGETS: Final = (FactKind.DATA_LOST, FactKind.DISK_DAMAGED, FactKind.DISK_FAILED, FactKind.FLUSHES_FORGOTTEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermittedElection:
    """An unclean election that the contract permits. log_end: what survived it."""

    change: LeaderChange
    log_end: int

    @property
    def named(self) -> str:
        """The beginning of a sentence about what it permits."""
        place = f"{self.change.topic}/{self.change.partition}"
        return f"unclean election of {place} in epoch {self.change.leader_epoch}, which the contract permits"


class _Place(TypedDict):
    topic: str
    topic_id: str | None
    partition: int


def permitted_elections(case: Case) -> Sequence[PermittedElection]:
    """Unclean elections that the contract permits, with a known surviving log end."""
    return case.once(_permitted_elections)


def _permitted_elections(case: Case) -> Sequence[PermittedElection]:
    return tuple(one for one in _unclean(case) if unclean_permitted(case, one.change.topic, one.change.at_ns))


def _clauses(number: int, case: Case) -> Iterator[Clause]:
    for election in permitted_elections(case):
        yield from _of_election(number, election, (0, election.change.sure_ns))


def _late(number: int, case: Case) -> Iterator[Clause]:
    for election in permitted_elections(case):
        for acked_ns in late_times(case, election.change):
            yield from _of_election(number, election, acked_ns)

    for replaced in replaced_leaders(case):
        for election in (one for one in permitted_elections(case) if one.change == replaced.next):
            why = f"{election.named}: the new leader {replaced.lacks}"
            yield from of_replaced(number, case, replaced, REPLACED, why)


def _of_election(number: int, election: PermittedElection, acked_ns: tuple[int, int]) -> Iterator[Clause]:
    change, log_end = election.change, election.log_end
    why = f"{election.named}: the election may lose what was acknowledged before it at offset {log_end} and above"
    place: _Place = {"topic": change.topic, "topic_id": change.topic_id, "partition": change.partition}
    evidence = change.evidence
    yield from clauses(number, REPLACED, why, evidence=evidence, **place, offsets=(log_end, None), acked_ns=acked_ns)
    yield from clauses(number, MOVED, why, evidence=evidence, **place, acked_ns=acked_ns)


def internal_elections(case: Case, topic: str) -> Iterator[LeaderChange]:
    """Elections of leaders of one of Kafka's own topics that may lack acknowledged records.

    The event of a step that makes one counts unless a whole history has every election.
    """
    if case.history is None or not case.history.whole:
        for event, step in case.events(UncleanElection):
            if event.topic == topic:
                change = _by_step(event, step)
                # Whether it is permitted follows from the settings of that time, as what it may lose does.
                yield replace(change, at_ns=change.sure_ns)
    yield from (change for change in internal_leader_changes(case, topic) if change.unclean and change.elected)


def may_have_forgotten(case: Case, topic: str) -> bool:
    """Whether the coordinators that keep their state in one of Kafka's own topics may have lost some of it."""
    return any(facts_in(case.steps, *_FORGETS)) or any(internal_elections(case, topic))


def _unclean(case: Case) -> Iterator[PermittedElection]:
    """Every unclean election with a known log end.

    A step that makes one measures the log end before. Where the history is not whole, the event of the step counts
    instead of what else is known about the partition, as it does where there are only samples.
    """
    measured = [event for event, _ in case.events(UncleanElection)]
    by_step = set()
    if case.history is None or not case.history.whole:
        by_step = {(event.topic, event.partition) for event in measured}
        yield from _by_steps(case)
    for change in leader_changes(case):
        if change.unclean and change.elected and (change.topic, change.partition) not in by_step:
            end = next((event.log_end for event in measured if _is_of(event, change)), None)
            end = _epoch_start(case, change) if end is None else end
            if end is not None:
                yield PermittedElection(change=change, log_end=end)


def _by_steps(case: Case) -> Iterator[PermittedElection]:
    for event, step in case.events(UncleanElection):
        end = event.log_end
        if end is None:
            end = _start_of(lineages(case).get((event.topic, event.partition), []), event.leader_epoch)
        if end is not None:
            yield PermittedElection(change=_by_step(event, step), log_end=end)


def _by_step(event: UncleanElection, step: Step) -> LeaderChange:
    """The election of a step. The step begins while the partition has no leader: nothing is acknowledged between then
    and the election."""
    began_ns = min(event.at_ns, step.started_ns or event.at_ns)
    return LeaderChange(
        topic=event.topic,
        topic_id=None,
        partition=event.partition,
        old_leader=None,
        new_leader=NO_BROKER if event.leader is None else event.leader,
        leader_epoch=event.leader_epoch,
        clean=False,
        unclean=True,
        since_ns=began_ns,
        at_ns=event.at_ns,
        sure_ns=began_ns,
        late_ns=began_ns,
        in_sync_ns=0,
        evidence=of_event(event, step, event.at_ns),
    )


def _is_of(event: UncleanElection, change: LeaderChange) -> bool:
    same_epoch = event.leader_epoch == change.leader_epoch
    return same_epoch and change.concerns(event.topic, event.partition, event.topic_id)


def _epoch_start(case: Case, change: LeaderChange) -> int | None:
    """The first offset of the epoch in the lineage; None if the lineage is unknown, or of a later topic."""
    if not change.concerns(change.topic, change.partition, last_id(case, change.topic)):
        return None
    return _start_of(lineages(case).get((change.topic, change.partition), []), change.leader_epoch)


def _start_of(epochs: Sequence[tuple[int, int]], epoch: int) -> int | None:
    return next((start for e, start in epochs if e >= epoch), None)


EXCUSES: Final = (
    Excuse(
        name="unclean_election",
        permits="An unclean election that the contract permits replaced the end of the log.",
        kinds=(*REPLACED, *MOVED),
        clauses=_clauses,
        late=_late,
    ),
)
