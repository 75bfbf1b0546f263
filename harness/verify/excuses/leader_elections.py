"""Elections after which acknowledged records may be missing: where the new leader's log began, and until when an
acknowledgement came from an earlier leader.

An unclean election may lose what was acknowledged before it, if the contract permits unclean elections. Any election
may lose what was acknowledged with acks=1, because the new leader need not have it. In both cases only records at or
above the start of the new leader's epoch are missing by design, in the lineage of epochs that the last leader has. A
record below that start was on the new leader, and a record that a leader of this epoch or of a later one acknowledged
was, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.model.documents.steps import UncleanElection
from harness.verify.engine.case import Case
from harness.verify.engine.elections import LeaderChange, leader_changes
from harness.verify.engine.tables import UNBOUNDED
from harness.verify.excuses.config_history import unclean_permitted

Lineages = Mapping[tuple[str, int], Sequence[tuple[int, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermittedElection:
    """An unclean election that the contract permits. log_end: what survived it. For the times see LeaderChange."""

    topic: str
    topic_id: str | None
    partition: int
    epoch: int
    log_end: int
    at_ns: int
    sure_ns: int
    late_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLeader:
    """A leader that may lack records of acks=1 from offset `start` on. epoch: None = its start is unknown.
    sure_ns, late_ns: see LeaderChange."""

    topic: str
    topic_id: str | None
    partition: int
    epoch: int | None
    start: int
    sure_ns: int
    late_ns: int


def permitted_elections(case: Case) -> Iterator[PermittedElection]:
    """Unclean elections that the contract permits, with a known surviving log end."""
    for election in _unclean(case):
        if unclean_permitted(case, election.topic, election.at_ns):
            yield election


def new_leaders(case: Case) -> Iterator[NewLeader]:
    """Every new leader of a partition, if a producer writes with acks=1."""
    if not acks_one(case):
        return
    changes = leader_changes(case)
    yield from _by_history(case, changes) if case.history is not None else _by_samples(case, changes)
    for topic, partition in without_lineage(case):
        seen = [change for change in changes if change.concerns(topic, partition)]
        last = max(seen, key=lambda change: change.sure_ns)
        yield NewLeader(
            topic=topic,
            topic_id=last.topic_id,
            partition=partition,
            epoch=None,
            start=1,
            sure_ns=last.sure_ns,
            late_ns=last.late_ns,
        )


def acks_one(case: Case) -> list[str]:
    """The producers of records that a leader acknowledges before any follower has them."""
    return [name for name, producer in case.contract.producers.items() if producer.acks == "1"]


def without_lineage(case: Case) -> list[tuple[str, int]]:
    """Partitions with a new leader and unknown leader epochs, to which an acks=1 producer wrote.

    Its losses there have no limit, so they are excused, and cause a doubt.
    """
    if not acks_one(case):
        return []
    reported = {place for place, epochs in _lineages(case).items() if epochs}
    here = [change for change in leader_changes(case) if change.topic_id in (None, _last_id(case, change.topic))]
    return sorted({(change.topic, change.partition) for change in here} - reported)


def _by_history(case: Case, changes: Sequence[LeaderChange]) -> Iterator[NewLeader]:
    """The leader of each epoch of a lineage, with the election that made it leader. A leader that only gets a new
    epoch keeps its log, so it lacks nothing that it acknowledged."""
    for (topic, partition), epochs in _lineages(case).items():
        topic_id = _last_id(case, topic)
        elected = [change for change in changes if change.elected and change.concerns(topic, partition, topic_id)]
        for epoch, start in epochs:
            made = [change for change in elected if change.leader_epoch <= epoch][-1:]
            for change in made:
                yield NewLeader(
                    topic=topic,
                    topic_id=topic_id,
                    partition=partition,
                    epoch=epoch,
                    start=start,
                    sure_ns=change.sure_ns,
                    late_ns=change.late_ns,
                )


def _by_samples(case: Case, changes: Sequence[LeaderChange]) -> Iterator[NewLeader]:
    """The leader of each epoch but the first, with the first sample of that epoch or of a later one."""
    ended_ns = case.run.ended_ns or UNBOUNDED - 1
    for (topic, partition), epochs in _lineages(case).items():
        seen = [change for change in changes if change.concerns(topic, partition)]
        for epoch, start in epochs[1:]:
            until_ns = min((change.at_ns for change in seen if change.leader_epoch >= epoch), default=ended_ns)
            yield NewLeader(
                topic=topic,
                topic_id=None,
                partition=partition,
                epoch=epoch,
                start=max(start, 1),
                sure_ns=until_ns,
                late_ns=until_ns,
            )


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
                yield PermittedElection(
                    topic=change.topic,
                    topic_id=change.topic_id,
                    partition=change.partition,
                    epoch=change.leader_epoch,
                    log_end=end,
                    at_ns=change.at_ns,
                    sure_ns=change.sure_ns,
                    late_ns=change.late_ns,
                )


def _by_steps(case: Case) -> Iterator[PermittedElection]:
    for event, step in case.events(UncleanElection):
        topic, partition, epoch = event.topic, event.partition, event.leader_epoch
        # The step begins while the partition has no leader: nothing is acknowledged between then and the election.
        until_ns = min(event.at_ns, step.started_ns or event.at_ns)
        end = event.log_end
        end = _start_of(_lineages(case).get((topic, partition), []), epoch) if end is None else end
        if end is not None:
            yield PermittedElection(
                topic=topic,
                topic_id=None,
                partition=partition,
                epoch=epoch,
                log_end=end,
                at_ns=event.at_ns,
                sure_ns=until_ns,
                late_ns=until_ns,
            )


def _is_of(event: UncleanElection, change: LeaderChange) -> bool:
    same_epoch = event.leader_epoch == change.leader_epoch
    return same_epoch and change.concerns(event.topic, event.partition, event.topic_id)


def _epoch_start(case: Case, change: LeaderChange) -> int | None:
    """The first offset of the epoch in the lineage; None if the lineage is unknown, or of a later topic."""
    if not change.concerns(change.topic, change.partition, _last_id(case, change.topic)):
        return None
    return _start_of(_lineages(case).get((change.topic, change.partition), []), change.leader_epoch)


def _start_of(epochs: Sequence[tuple[int, int]], epoch: int) -> int | None:
    return next((start for e, start in epochs if e >= epoch), None)


def _last_id(case: Case, topic: str) -> str | None:
    """The id of the topic that has the name at the end, of which the evidence has the lineages; None = unknown."""
    ids = [row.topic_id for row in case.last_partitions if row.topic == topic]
    lives = case.history.topics if case.history is not None else ()
    ids += [life.topic_id for life in reversed(lives) if life.topic == topic]
    return ids[0] if ids else None


def _lineages(case: Case) -> Lineages:
    """Leader epochs with their first offset, by place, from the last leader; else from any replica."""
    leaders = {(p.topic, p.partition): p.leader for p in case.last_partitions}
    out: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for lineage in case.cluster.lineages:
        place = (lineage.topic, lineage.partition)
        if place not in out or leaders.get(place) == lineage.broker:
            out[place] = sorted((epoch, start) for epoch, start in lineage.epochs)
    return out
