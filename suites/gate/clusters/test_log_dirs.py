"""Brokers with several log directories (KIP-858) on real Kafka: the place of replicas, and the effect of a wipe."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.storage.log_directory import partition_directories
from harness.kafka.storage.segment_scan import lineages_of
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.gate.cluster_probes import TOPIC, observer, produce, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    with start(tmp_path_factory.mktemp("runs"), ClusterShape(log_dirs=2), backend=backend) as running:
        with observer(running) as admin:
            admin.create_topics([Topic(name=TOPIC, partitions=PARTITIONS)])
        yield running
        assert running.unexpected_exits() == []


def held(cluster: JvmCluster, broker: int) -> list[int]:
    """The number of replicas of the topic in each log directory of a broker."""
    return [len(partition_directories([directory], [TOPIC])) for directory in cluster.log_directories(broker)]


def whole(cluster: JvmCluster) -> bool:
    with observer(cluster) as admin:
        return [set(state.isr) for state in admin.partitions([TOPIC])] == [set(cluster.brokers)] * PARTITIONS


def test_replicas_are_spread_over_directories_and_a_wipe_removes_all_of_them(cluster: JvmCluster) -> None:
    assert produce(cluster.bootstrap()) is None
    assert [held(cluster, broker) for broker in cluster.brokers] == [[2, 2]] * 3
    first, second = cluster.log_directories(2)
    assert (first / "__cluster_metadata-0").is_dir()
    assert not (second / "__cluster_metadata-0").exists()
    before = [(directory / "meta.properties").read_text() for directory in (first, second)]
    cluster.kill(2)
    cluster.wipe(2)
    assert held(cluster, 2) == [0, 0]
    cluster.start(2)
    cluster.wait_started(2, 60)
    wait_for(lambda: whole(cluster), until=bool, deadline_s=60, what="every ISR to be full again")
    after = [(directory / "meta.properties").read_text() for directory in (first, second)]
    assert len({*before, *after}) == 4
    assert sum(held(cluster, 2)) == PARTITIONS
    assert len(lineages_of({2: cluster.log_directories(2)}, [TOPIC])) == PARTITIONS


def test_replicas_stay_in_their_directories(cluster: JvmCluster) -> None:
    before = [partition_directories([directory], [TOPIC]) for directory in cluster.log_directories(3)]
    cluster.kill(3)
    cluster.start(3)
    cluster.wait_started(3, 60)
    assert [partition_directories([directory], [TOPIC]) for directory in cluster.log_directories(3)] == before
