"""Records that a controller wrote and the quorum never committed are not delivered, although a disk has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.audit.feeds.controller_feed import ControllerFeed
from harness.audit.feeds.directory_feed import DirectoryFeed
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.client import AdminView
from harness.kafka.storage.metadata_log import MetadataLogReader
from harness.model.errors import HarnessTimeout
from harness.model.history.log import Entry
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.following import Follower, addresses, catch_up, committed_by, following, metadata_folder, topics_in
from suites.gate.cluster_probes import start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

BEFORE, DOOMED, AFTER = "before", "doomed", "after"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    shape = ClusterShape(controllers=3, config={"metadata.log.max.snapshot.interval.ms": "3600000"})
    with start(tmp_path_factory.mktemp("runs"), shape, backend=backend) as started:
        yield started


def on_disk(folder: Path) -> list[str]:
    log = MetadataLogReader().read_folder(0, folder)
    return list(topics_in(entry for batch in log.batches for entry in batch.entries))


def delivered(follower: Follower) -> list[str]:
    entries: list[Entry] = [entry for batch in follower.batches for entry in batch.entries]
    snapshots = [entry for found in follower.snapshots.values() for entry in found]
    return list(topics_in(iter([*snapshots, *entries])))


def test_what_a_lonely_leader_wrote_is_never_delivered(cluster: JvmCluster) -> None:
    direct = {node: cluster.direct_address(node) for node in cluster.brokers}
    controllers = {node: cluster.direct_address(node) for node in cluster.controllers}
    brokers = Brokers(addresses(cluster, cluster.brokers))
    with AdminView(direct, controllers) as admin:
        admin.create_topics([Topic(name=BEFORE, partitions=1)])
        leader = admin.active_controller()
        others = [node for node in cluster.controllers if node != leader]
        folder = metadata_folder(cluster, leader)
        feeds = (
            ControllerFeed(addresses(cluster, cluster.controllers)),
            DirectoryFeed(folder, committed_by(brokers)),
        )
        with following(*feeds) as followers:
            catch_up(followers, admin.quorum().high_watermark)
            cluster.pause(*others)
            admin.leave_alone(others)
            with pytest.raises(HarnessTimeout):
                admin.create_topics([Topic(name=DOOMED, partitions=1)], deadline_s=2.0)
            assert DOOMED in on_disk(folder)
            cluster.kill(leader)
            cluster.resume(*others)
            admin.ask_again(others)
            wait_for(admin.active_controller, until=lambda now: now != leader, deadline_s=60, what="another controller")
            admin.create_topics([Topic(name=AFTER, partitions=1)])
            assert DOOMED in on_disk(folder)
            silences = len(followers[1].silences)
            wait_for(
                lambda: [why for _, why in followers[1].silences[silences:]],
                until=lambda whys: any("no record of leader epoch" in why for why in whys),
                deadline_s=30,
                what="the feed of the dead node's disk to say that it is behind",
            )
            cluster.start(leader)
            end = admin.quorum().high_watermark
            catch_up(followers, end)
            found = [delivered(follower) for follower in followers]
        assert found == [[BEFORE, AFTER]] * 2
        assert [batch for batch in followers[0].batches if batch.base_offset < end] == [
            batch for batch in followers[1].batches if batch.base_offset < end
        ]
        assert DOOMED not in on_disk(folder)
    brokers.close()
