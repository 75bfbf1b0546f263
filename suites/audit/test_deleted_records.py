"""Feeds that come back after the quorum has deleted the records that they would read next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.audit.feeds.controller_feed import ControllerFeed
from harness.audit.feeds.directory_feed import DirectoryFeed
from harness.audit.feeds.feed import Feed, Portion, Position
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.client import AdminView
from harness.kafka.storage.log_directory import segments
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.following import addresses, catch_up, committed_by, following, metadata_folder, topics_in
from suites.gate.cluster_probes import start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SEGMENT_BYTES = 10_000
SHAPE = ClusterShape(
    config={
        "internal.metadata.log.segment.bytes": str(SEGMENT_BYTES),
        "internal.metadata.delete.delay.millis": "500",
        "metadata.max.retention.bytes": str(3 * SEGMENT_BYTES),
        "metadata.log.max.record.bytes.between.snapshots": str(SEGMENT_BYTES // 2),
        "metadata.log.max.snapshot.interval.ms": "3600000",
    }
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    with start(tmp_path_factory.mktemp("runs"), SHAPE, backend=backend) as started:
        yield started


@pytest.fixture
def brokers(cluster: JvmCluster) -> Iterator[Brokers]:
    found = Brokers(addresses(cluster, cluster.brokers))
    yield found
    found.close()


def feeds(cluster: JvmCluster, brokers: Brokers, resume: Position | None = None) -> list[Feed]:
    folder = metadata_folder(cluster, cluster.brokers[0])
    return [
        ControllerFeed(addresses(cluster, cluster.controllers), resume=resume),
        DirectoryFeed(folder, committed_by(brokers), resume),
    ]


def log_start(cluster: JvmCluster, node: int) -> int:
    return segments(metadata_folder(cluster, node))[0].base_offset


def following_portion(feed: Feed) -> Portion:
    found = wait_for(
        lambda: feed.poll(1.0), until=lambda p: p is not None, deadline_s=20, what=f"{feed.name} to answer"
    )
    assert found is not None
    return found


def test_a_gap_is_said_and_bridged_by_a_snapshot(cluster: JvmCluster, brokers: Brokers) -> None:
    """Two feeds read all the time and miss nothing, and four come back too late."""
    direct = {node: cluster.direct_address(node) for node in cluster.brokers}
    open_feeds = feeds(cluster, brokers)
    first = [following_portion(feed) for feed in open_feeds]
    stopped = next(p.position for p in first if p.position is not None)
    names: list[str] = []
    with AdminView(direct) as admin, following(*feeds(cluster, brokers)) as followers:

        def more() -> int:
            names.append(f"topic-{len(names)}")
            admin.create_topics([Topic(name=names[-1], partitions=9)])
            return min(log_start(cluster, node) for node in (cluster.brokers[0], cluster.controllers[0]))

        wait_for(more, until=lambda begins: begins > stopped.offset, deadline_s=120, what="records to be deleted")
        end = admin.quorum().high_watermark
        catch_up(followers, end)
    one, other = ([b for b in follower.batches if b.base_offset < end] for follower in followers)
    assert one[-len(other) :] == other[-len(one) :]
    assert [portion.missed for follower in followers for portion in follower.portions if portion.missed] == []
    print(len(one), "batches, while the log came to begin at", log_start(cluster, cluster.brokers[0]))
    # Those that stayed open meanwhile, and those that begin again with a stored position.
    for feed in (*open_feeds, *feeds(cluster, brokers, stopped)):
        missed: list[str] = []
        seen: list[str] = []
        offset = 0
        while offset < end:
            portion = following_portion(feed)
            if portion.missed is not None:
                missed.append(portion.missed)
                assert portion.snapshot is not None
            if portion.snapshot is not None:
                seen = list(topics_in(iter(portion.snapshot.entries)))
            seen += topics_in(entry for batch in portion.batches for entry in batch.entries)
            offset = portion.next_offset
        feed.close()
        print(feed.name, missed)
        assert len(missed) == 1
        assert "were deleted" in missed[0]
        assert set(names) <= set(seen)
