"""The logs of a cluster's nodes, from their log directories."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from harness.clusters import Cluster
from harness.clusters.metadata_history import history_of_cluster, metadata_logs
from suites.unit.kafka.storage.metadata_bytes import control_batch, data_batch, log_folder, record_value


class Disks:
    """The part of a cluster that is read: a controller, and a broker with two log directories."""

    controllers = (101,)
    brokers = (1,)

    def __init__(self, root: Path) -> None:
        self.root = root

    def log_directories(self, node: int) -> tuple[Path, ...]:
        return self.root / str(node) / "data", self.root / str(node) / "data-2"


def cluster(root: Path, *batches: bytes) -> Cluster:
    disks = Disks(root)
    for node in (101, 1):
        for directory in disks.log_directories(node):
            directory.mkdir(parents=True)
        log_folder(disks.log_directories(node)[0], {0: b"".join(batches)})
    return cast(Cluster, disks)


TOPIC = record_value("TopicRecord", Name="orders", TopicId="AAAAAAAAAAAAAAAAAAAABw")


def test_the_logs_of_all_nodes_are_read(tmp_path: Path) -> None:
    logs = metadata_logs(cluster(tmp_path, data_batch(0, TOPIC)))
    assert [(log.node, log.end) for log in logs] == [(101, 1), (1, 1)]


def test_controllers_are_the_voters_unless_the_log_names_them(tmp_path: Path) -> None:
    history = history_of_cluster(cluster(tmp_path / "static", data_batch(0, TOPIC)))
    assert (history.voters, [life.topic for life in history.topics]) == ((101,), ["orders"])
    voters = control_batch(0, "LeaderChangeMessage", LeaderId=101, Voters=({"VoterId": 101}, {"VoterId": 102}))
    named = history_of_cluster(cluster(tmp_path / "named", voters, data_batch(1, TOPIC)), 2)
    assert (named.voters, named.end) == ((101, 102), 2)
