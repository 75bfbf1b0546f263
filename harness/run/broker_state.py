"""The state of the brokers, for the bundle: replicas to read, batch headers and leader epochs from the disks, logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.admin.client import AdminView
from harness.kafka.storage.segment_scan import empty_segments_of, lineages_of, scrub
from harness.model.documents.cluster import EmptySegment, Lineage, Snapshot
from harness.model.place import Place
from harness.workload.drain.replica_reads import Copy


def observer(cluster: Cluster) -> AdminView:
    """An admin view that no fault of the network affects, for use in a `with`."""
    brokers = {broker: cluster.direct_address(broker) for broker in cluster.brokers}
    controllers = {node: cluster.direct_address(node) for node in cluster.addressed_controllers}
    return AdminView(brokers, controllers, cluster.security)


def copies_of(snapshot: Snapshot, starts: Mapping[Place, Sequence[int]] | None = None) -> list[Copy]:
    """Every partition of a snapshot, with the log range of each replica that answered. starts: see `Copy`."""
    return [
        Copy(
            topic=row.topic,
            partition=row.partition,
            leader=-1 if row.leader is None else row.leader,
            logs={log.broker: (log.log_start, log.log_end) for log in row.logs},
            segment_starts=tuple((starts or {}).get((row.topic, row.partition), ())),
        )
        for row in snapshot.partitions
    ]


@dataclass(frozen=True, slots=True)
class Disks:
    """lineages, empty_segments: for cluster.json. damage: a sentence for each place in the files that no broker has
    written so."""

    lineages: tuple[Lineage, ...]
    empty_segments: tuple[EmptySegment, ...]
    damage: list[str]


def read_disks(cluster: Cluster, topics: Sequence[str], bundle: BundleWriter) -> Disks:
    """Writes the `batches` table from every replica's own files."""
    directories = {broker: cluster.log_directories(broker) for broker in cluster.brokers}
    table = bundle.table("batches", "disks")
    scrubbed = scrub(directories, topics, table)
    table.close()
    lineages, empty = lineages_of(directories, topics), empty_segments_of(directories, topics)
    return Disks(lineages, empty, [str(damage) for damage in scrubbed.damage])


def save_logs(cluster: Cluster, bundle: BundleWriter) -> None:
    """Saves the logs of a cluster."""
    for name, log in cluster.logs().items():
        bundle.log(log, name)


def lineages_of_leaders(admin: AdminView, topics: Sequence[str]) -> tuple[Lineage, ...]:
    """The start offset of each leader epoch in the log of each leader, as it answers followers (KIP-101)."""
    states = [state for state in admin.partitions(topics) if state.leader >= 0]
    starts = admin.replica_offsets(topics)
    ends: dict[Place, dict[int, int]] = {}  # by epoch in the log
    for epoch in range(1 + max((state.leader_epoch for state in states), default=-1)):
        asked = {(s.topic, s.partition): epoch for s in states if epoch <= s.leader_epoch}
        for place, answer in admin.offsets_by_epoch(asked).items():
            if answer.leader_epoch is not None and answer.end_offset is not None:
                ends.setdefault(place, {})[answer.leader_epoch] = answer.end_offset
    return tuple(
        Lineage(broker=s.leader, topic=s.topic, partition=s.partition, epochs=_begun(ends[place], start), error=None)
        for s in states
        if (place := (s.topic, s.partition)) in ends and (start := starts.get((*place, s.leader)))
    )


def _begun(ends: Mapping[int, int], log: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Epochs with their first offset: each begins where the one before it ends, and the first with the log."""
    epochs = sorted(ends)
    return tuple(zip(epochs, [log[0], *(ends[epoch] for epoch in epochs[:-1])], strict=True))
