"""The leader epochs that the last leader of a partition has in its log, and those of which it has nothing.

A leader may be followed by one that has nothing of its epoch, and older records at the same offsets: one that was cut
off, went on writing before it learned that it had been replaced, and was elected again with its own log. The lineage
lacks the epoch in between then, and all records of that epoch are lost, also those below the start of the next epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.verify.engine.case import Case
from harness.verify.engine.elections import LeaderChange, leader_changes

Lineages = Mapping[tuple[str, int], Sequence[tuple[int, int]]]


def lineages(case: Case) -> Lineages:
    """Leader epochs with their first offset, by place, from the last leader; else from any replica."""
    leaders = {(p.topic, p.partition): p.leader for p in case.last_partitions}
    out: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for lineage in case.cluster.lineages:
        place = (lineage.topic, lineage.partition)
        if place not in out or leaders.get(place) == lineage.broker:
            out[place] = sorted((epoch, start) for epoch, start in lineage.epochs)
    return out


def last_id(case: Case, topic: str) -> str | None:
    """The id of the topic that has the name at the end, of which the evidence has the lineages; None = unknown."""
    ids = [row.topic_id for row in case.last_partitions if row.topic == topic]
    lives = case.history.topics if case.history is not None else ()
    ids += [life.topic_id for life in reversed(lives) if life.topic == topic]
    return ids[0] if ids else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """The election of a leader that left nothing in the lineage (`gone`), and that of the next leader. Its offsets are
    from `start` on. The records of the next leader begin at `end`: it gave no offset below that."""

    topic: str
    topic_id: str | None
    partition: int
    gone: LeaderChange
    next: LeaderChange
    start: int
    end: int | None

    @property
    def lacks(self) -> str:
        """The end of a sentence about the next leader."""
        return f"has no record of epoch {self.gone.leader_epoch}"

    @property
    def sure_ns(self) -> int:
        """Acknowledgements up to this time came from an earlier leader."""
        return self.gone.sure_ns

    @property
    def late_ns(self) -> int:
        """Acknowledgements after this time came from a later leader."""
        return max(self.gone.late_ns, self.next.late_ns)


def replaced_leaders(case: Case) -> Iterator[Replaced]:
    """Every leader that left nothing in the lineage. None without a history: samples do not show each election."""
    changes = leader_changes(case) if case.history is not None else ()
    for (topic, partition), epochs in lineages(case).items():
        topic_id = last_id(case, topic)
        elected = [change for change in changes if change.elected and change.concerns(topic, partition, topic_id)]
        for gone, change in pairwise(elected):
            if not any(gone.leader_epoch <= epoch < change.leader_epoch for epoch, _ in epochs):
                yield Replaced(
                    topic=topic,
                    topic_id=topic_id,
                    partition=partition,
                    gone=gone,
                    next=change,
                    start=max((start for epoch, start in epochs if epoch < gone.leader_epoch), default=0),
                    end=min((start for epoch, start in epochs if epoch > gone.leader_epoch), default=None),
                )
