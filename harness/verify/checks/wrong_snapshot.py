"""wrong_snapshot: a snapshot of the metadata log (KIP-630) differs from the log up to its end.

A node that starts loads its newest snapshot, and it does not know what the snapshot lacks: topics, partitions,
settings, registrations of brokers, feature levels, the block of producer ids, ACLs, quotas and credentials. The run
compares the snapshots on all disks with the log from its first record on, and history.json has the differences.

A broker that replays the creation and the deletion of a topic at once keeps the dynamic settings of the topic, and
writes them into its snapshots. That is a known defect of Kafka without an effect on records, and a note.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from harness.model.facts import FactKind
from harness.model.finding import Finding, Kind
from harness.model.history.snapshots import SnapshotDifference
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.steps import facts_in
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

_NAMED_MAX: Final = 3
_NOTHING: Final = "nothing"


def _snapshots(known: Known) -> Addition:
    case = known.case
    return Addition(findings=[*wrong_snapshots(case)], notes=[*leftovers(case)])


def wrong_snapshots(case: Case) -> Iterator[Finding]:
    """One finding for each node."""
    for node, differences in sorted(_by_node(case, leftover=False).items()):
        entities = {one.entity for one in differences}
        yield Finding(
            kind=Kind.WRONG_SNAPSHOT,
            count=len(entities),
            reader=f"node {node}",
            detail=(
                f"the snapshot of the metadata log up to {differences[0].end_offset} on the disk of node {node} has "
                f"{'; '.join(_said(one) for one in differences[:_NAMED_MAX])}"
            ),
            contract=promise(Kind.WRONG_SNAPSHOT, None, None, case.contract),
        )


def leftovers(case: Case) -> Iterator[str]:
    """One note for each node that keeps settings of deleted topics."""
    for node, differences in sorted(_by_node(case, leftover=True).items()):
        settings = sorted({f"{one.entity[3]} of {one.entity[2]}" for one in differences})
        yield (
            f"wrong_snapshot: snapshots of the metadata log on the disk of node {node} keep {len(settings)} settings "
            f"of deleted topics ({', '.join(settings[:_NAMED_MAX])}); a broker that replays the creation and the "
            "deletion of a topic at once keeps them"
        )


def _by_node(case: Case, *, leftover: bool) -> dict[int, list[SnapshotDifference]]:
    """The differences of each node with undamaged files, the earliest first; none beside an incomplete history."""
    found: defaultdict[int, list[SnapshotDifference]] = defaultdict(list)
    history = case.history
    if history is None or not history.whole:
        return found
    damaged = [*facts_in(case.steps, FactKind.METADATA_DAMAGED)]
    for one in sorted(history.differences, key=lambda one: one.end_offset):
        if one.leftover is leftover and not any(fact.concerns(one.node) for fact in damaged):
            found[one.node].append(one)
    return found


def _said(one: SnapshotDifference) -> str:
    values = [_NOTHING if value is None else value for value in (one.in_snapshot, one.in_log)]
    return f"{values[0]} for {' '.join(one.entity)}, and the log has {values[1]}"


CHECK: Final = Check(
    promise="A snapshot of the metadata log has what the log says up to its end.",
    kinds={
        Kind.WRONG_SNAPSHOT: Introduced(
            promise="a node that loads a snapshot of the metadata log knows what the log says up to its end (KIP-630)"
        )
    },
    adds=_snapshots,
    order=Order(findings=17, notes=45),
    planted=(
        "wrong_snapshot",
        "wrong_snapshot_without_a_topic",
        "near_wrong_snapshot_with_settings_of_a_deleted_topic",
        "near_wrong_snapshot_on_a_damaged_disk",
    ),
)
