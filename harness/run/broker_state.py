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
    return AdminView(
        {broker: cluster.direct_address(broker) for broker in cluster.brokers},
        {controller: cluster.direct_address(controller) for controller in cluster.controllers},
    )


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
    """Saves the server log of every node that has one."""
    for node in (*cluster.controllers, *cluster.brokers):
        if (log := cluster.server_log(node)).is_file():
            bundle.log(log, f"server-{node}.log")
