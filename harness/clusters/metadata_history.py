"""Reads the metadata logs of a cluster from the disks of its nodes, and folds them into the history."""

from __future__ import annotations

from harness.clusters.base import Cluster
from harness.kafka.storage.metadata_log import MetadataLogReader
from harness.model.history.fold import fold, voters_of
from harness.model.history.history import History
from harness.model.history.log import NodeLog


def metadata_logs(cluster: Cluster) -> list[NodeLog]:
    """The logs of all controllers and brokers, running or stopped ("disk.read")."""
    reader = MetadataLogReader()
    return [reader.read(node, cluster.log_directories(node)) for node in (*cluster.controllers, *cluster.brokers)]


def history_of_cluster(
    cluster: Cluster, high_watermark: int | None = None, snapshots_since_ms: int | None = None
) -> History:
    """The history up to now.

    high_watermark: the last one that the quorum reported, asked before this call: the logs are read afterwards, so they
    contain everything below it. snapshots_since_ms: snapshots of since then are compared with the log; None = no one.
    """
    logs = metadata_logs(cluster)
    return fold(logs, voters_of(logs) or cluster.controllers, high_watermark, snapshots_since_ms)
