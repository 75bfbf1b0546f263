"""Replicas on the disk of a broker that a reassignment took them from (KIP-455), and copies of deleted topics in the
remote tier (KIP-405).

The broker renames the folder as soon as it applies the record of the metadata log that ends the reassignment, and a
renamed folder counts no longer. The disks are read after every broker was asked whether it has applied all records. The
leader of a deleted topic deletes its copies. One that ends meanwhile may leave some behind, as may a copy that was not
finished when the topic was deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from harness.model.documents.cluster import Lineage
from harness.model.facts import OBSERVED, FactKind
from harness.model.finding import Finding, Kind
from harness.model.history.changes import PartitionChange
from harness.verify.checks.tier.state import FINISHED, StoredObject, Tier, last_look
from harness.verify.engine.case import Case
from harness.verify.engine.steps import facts_but, facts_in, step_at
from harness.verify.engine.tables import UNBOUNDED
from harness.verify.sentences import promise

_RENAMED_NS: Final = 5 * 10**9
_COLLECTED_NS: Final = 15 * 10**9
_NS: Final = 10**9
_HARMLESS: Final = OBSERVED | {FactKind.TOPIC_DELETED}


def strays(case: Case) -> Iterator[Finding]:
    """One finding for each such replica."""
    history, last = case.history, case.last_snapshot
    if history is None or not history.whole or last is None or not case.complete or not case.nodes_were_up:
        return
    again = {fact.topic for fact in facts_in(case.steps, FactKind.TOPIC_DELETED)}
    states = {(state.topic, state.partition): state for state in last.partitions if state.topic not in again}
    for lineage in case.cluster.lineages or ():
        state = states.get((lineage.topic, lineage.partition))
        if state is None or lineage.broker in state.replicas:
            continue
        gone_ns = _gone_ns(history.partition(*state.place[1:]), lineage.broker)
        if gone_ns is not None and last.at_ns - max(gone_ns, _calm_ns(case, lineage.broker)) >= _RENAMED_NS:
            yield _finding(case, lineage, gone_ns, last.at_ns)


def abandoned(case: Case, tier: Tier) -> Iterator[Finding]:
    """One finding for each deleted topic of which finished copies are still there."""
    history = case.history
    if history is None or not history.whole or not case.complete or not case.nodes_were_up or tier.unreadable:
        return
    gone_ns = {life.topic_id: life.deleted.time_ns for life in history.topics if life.deleted}
    left: defaultdict[tuple[str, str], list[StoredObject]] = defaultdict(list)
    for (topic, topic_id, _), partition in tier.partitions.items():
        if topic_id in gone_ns:
            finished = {one.id for one in partition.segments.values() if one.state == FINISHED}
            left[topic, topic_id] += [
                one for name in sorted(finished) for one in last_look(partition.objects.get(name, ()))
            ]
    for (topic, topic_id), objects in left.items():
        seen_ns = min((one.looked_ns for one in objects), default=0)
        if seen_ns - max(gone_ns[topic_id], _calm_ns(case, None)) >= _COLLECTED_NS:
            yield _left_behind(case, topic, topic_id, len(objects), seen_ns - gone_ns[topic_id])


def _gone_ns(rows: Sequence[PartitionChange], broker: int) -> int | None:
    """When the broker was taken from the replicas for good; None if it never had one."""
    had = [n for n, row in enumerate(rows) if broker in row.replicas]
    return rows[had[-1] + 1].time_ns if had and had[-1] + 1 < len(rows) else None


def _calm_ns(case: Case, broker: int | None) -> int:
    """When the last fact ended that may be about the broker, or about any. A deletion disturbs nothing."""
    mine = (fact for fact in facts_but(case.steps, _HARMLESS) if broker is None or fact.concerns(broker))
    return max((UNBOUNDED if fact.to_ns is None else fact.to_ns for fact in mine), default=0)


def _left_behind(case: Case, topic: str, topic_id: str, objects: int, since_ns: int) -> Finding:
    return Finding(
        kind=Kind.NOT_DELETED,
        topic=topic,
        topic_id=topic_id,
        reader="the remote tier",
        detail=(
            f"the remote tier still has {objects} objects of finished copies of the topic, which was deleted "
            f"{since_ns / _NS:.0f} s before"
        ),
        contract=promise(Kind.NOT_DELETED, topic, None, case.contract),
    )


def _finding(case: Case, lineage: Lineage, gone_ns: int, seen_ns: int) -> Finding:
    return Finding(
        kind=Kind.NOT_DELETED,
        topic=lineage.topic,
        partition=lineage.partition,
        first_ns=gone_ns,
        last_ns=seen_ns,
        step=step_at(case.steps, gone_ns),
        reader=f"broker {lineage.broker}",
        detail=(
            f"broker {lineage.broker} still has the partition on its disk, {(seen_ns - gone_ns) / _NS:.0f} s after a "
            "reassignment took it from there"
        ),
        contract=promise(Kind.NOT_DELETED, lineage.topic, None, case.contract),
    )
