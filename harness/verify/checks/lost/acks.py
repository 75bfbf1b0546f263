"""Losses that acks=1 and acks=0 permit.

A leader acknowledges records of acks=1 before any follower has them, and the next leader may lack them. Only records at
or above the start of the new leader's epoch are missing by design, in the lineage of epochs that the last leader has.

Where a leader was replaced by one with older records at the same offsets (`engine/lineages.py`), all of its records are
missing by design: `late_acks` decides which these are.

A record that a reader received was below the high watermark, so no acknowledgement permits that it vanishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.model.excuse import Evidence, EvidenceKind
from harness.model.finding import Kind
from harness.verify.engine.case import Case
from harness.verify.engine.elections import LeaderChange, leader_changes
from harness.verify.engine.lineages import last_id, lineages, replaced_leaders
from harness.verify.engine.tables import UNBOUNDED
from harness.verify.excuse import Excuse
from harness.verify.excuses.clauses import Clause, clauses
from harness.verify.excuses.late_acks import late_times, of_replaced

_KINDS: Final = (Kind.LOST,)
_LINEAGE: Final = Evidence(kind=EvidenceKind.SNAPSHOT, what="lineages")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLeader:
    """A leader that may lack records of acks=1 from offset `start` on. epoch: None = its start is unknown.
    sure_ns, late_ns: see LeaderChange. evidence: of its start."""

    topic: str
    topic_id: str | None
    partition: int
    epoch: int | None
    start: int
    sure_ns: int
    late_ns: int
    evidence: Evidence


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
            evidence=last.evidence,
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
    reported = {place for place, epochs in lineages(case).items() if epochs}
    here = [change for change in leader_changes(case) if change.topic_id in (None, last_id(case, change.topic))]
    return sorted({(change.topic, change.partition) for change in here} - reported)


def _by_history(case: Case, changes: Sequence[LeaderChange]) -> Iterator[NewLeader]:
    """The leader of each epoch of a lineage, with the election that made it leader. A leader that only gets a new
    epoch keeps its log, so it lacks nothing that it acknowledged."""
    for (topic, partition), epochs in lineages(case).items():
        topic_id = last_id(case, topic)
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
                    evidence=change.evidence,
                )


def _by_samples(case: Case, changes: Sequence[LeaderChange]) -> Iterator[NewLeader]:
    """The leader of each epoch but the first, with the first sample of that epoch or of a later one."""
    ended_ns = case.run.ended_ns or UNBOUNDED - 1
    for (topic, partition), epochs in lineages(case).items():
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
                evidence=_LINEAGE,
            )


def _acks_zero(number: int, case: Case) -> Iterator[Clause]:
    for name, producer in case.contract.producers.items():
        if producer.acks == "0":
            evidence = Evidence(kind=EvidenceKind.CONTRACT, what=f"producers.{name}.acks")
            why = f"acks=0 (producer {name}) promises nothing"
            yield from clauses(number, _KINDS, why, evidence=evidence, producer=name)


def _leader_changed(number: int, case: Case) -> Iterator[Clause]:
    for new in new_leaders(case):
        yield from _of_new_leader(number, case, new, (0, new.sure_ns))


def _late(number: int, case: Case) -> Iterator[Clause]:
    for new in new_leaders(case):
        for acked_ns in late_times(case, new):
            yield from _of_new_leader(number, case, new, acked_ns)
    for replaced in replaced_leaders(case):
        for name in acks_one(case):
            why = f"acks=1 (producer {name}): the leader of epoch {replaced.next.leader_epoch} {replaced.lacks}"
            yield from of_replaced(number, case, replaced, _KINDS, why, producer=name)


def _of_new_leader(number: int, case: Case, new: NewLeader, acked_ns: tuple[int, int]) -> Iterator[Clause]:
    for name in acks_one(case):
        if new.epoch is None:
            why = f"acks=1 (producer {name}): the leader changed, and the start offset of the next one is unknown"
        else:
            why = f"acks=1 (producer {name}): the leader of epoch {new.epoch} started at offset {new.start} without it"
        yield from clauses(
            number,
            _KINDS,
            why,
            evidence=new.evidence,
            topic=new.topic,
            topic_id=new.topic_id,
            partition=new.partition,
            producer=name,
            offsets=(new.start, None),
            acked_ns=acked_ns,
        )


EXCUSES: Final = (
    Excuse(
        name="acks_zero",
        permits="The producer does not wait for an acknowledgement (acks=0).",
        kinds=_KINDS,
        clauses=_acks_zero,
    ),
    Excuse(
        name="acks_one",
        permits="Only the leader had the record when it acknowledged it (acks=1), and another leader followed.",
        kinds=_KINDS,
        clauses=_leader_changed,
        late=_late,
    ),
)
