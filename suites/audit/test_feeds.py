"""Both feeds of the metadata log against a real quorum that loses its leader, and against the logs on its disks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from harness.audit.feeds.controller_feed import ControllerFeed
from harness.audit.feeds.directory_feed import DirectoryFeed
from harness.audit.feeds.feed import Feed, FeedSilent, Portion, Position
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.client import AdminView
from harness.model.history.log import Record
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.following import (
    Follower,
    addresses,
    catch_up,
    committed_by,
    following,
    log_on_disk,
    metadata_folder,
    topics_in,
)
from suites.gate.cluster_probes import RELEASES, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

CONTROLLERS = 3
BEFORE, AFTER = 20, 5  # topics that are created before and after the death of the active controller
SNAPSHOT_BYTES = 3000
SHAPE = ClusterShape(
    controllers=CONTROLLERS,
    config={
        "metadata.log.max.record.bytes.between.snapshots": str(SNAPSHOT_BYTES),
        "metadata.log.max.snapshot.interval.ms": "3600000",
    },
)
LATENCY_S_MAX = 1.0


@dataclass
class Story:
    """A cluster, and what both feeds delivered of it. Times are monotonic."""

    cluster: JvmCluster
    brokers: Brokers
    from_controllers: Follower
    from_disk: Follower
    created_s: dict[str, float] = field(default_factory=dict)
    killed_s: float = 0.0
    end: int = 0  # a high watermark that both feeds reached

    @property
    def followers(self) -> list[Follower]:
        return [self.from_controllers, self.from_disk]

    def feeds(self, resume: Position | None = None) -> list[Feed]:
        """New feeds of the same sources."""
        folder = metadata_folder(self.cluster, self.cluster.brokers[0])
        return [
            ControllerFeed(addresses(self.cluster, self.cluster.controllers), resume=resume),
            DirectoryFeed(folder, committed_by(self.brokers), resume),
        ]


def play(story: Story, admin: AdminView) -> None:
    for number in range(BEFORE):
        create(story, admin, f"before-{number}")
    active = admin.active_controller()
    story.killed_s = time.monotonic()
    story.cluster.kill(active)
    wait_for(admin.active_controller, until=lambda now: now != active, deadline_s=60, what="another active controller")
    for number in range(AFTER):
        create(story, admin, f"after-{number}")
    story.cluster.start(active)
    story.end = admin.quorum().high_watermark


def create(story: Story, admin: AdminView, name: str) -> None:
    story.created_s[name] = time.monotonic()
    admin.create_topics([Topic(name=name, partitions=6)])


@pytest.fixture(scope="module", params=(RELEASES[0], RELEASES[-1]))
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[Story]:
    with start(tmp_path_factory.mktemp("runs"), SHAPE, backend=backend, version=request.param) as cluster:
        brokers = Brokers(addresses(cluster, cluster.brokers))
        direct = {node: cluster.direct_address(node) for node in cluster.brokers}
        controllers = {node: cluster.direct_address(node) for node in cluster.controllers}
        feeds = (
            ControllerFeed(addresses(cluster, cluster.controllers)),
            DirectoryFeed(metadata_folder(cluster, cluster.brokers[0]), committed_by(brokers)),
        )
        with AdminView(direct, controllers) as admin, following(*feeds) as (from_controllers, from_disk):
            story = Story(cluster, brokers, from_controllers, from_disk)
            play(story, admin)
            catch_up(story.followers, story.end)
        yield story
        brokers.close()


def test_both_feeds_deliver_what_every_node_has_on_its_disk(story: Story) -> None:
    nodes = (*story.cluster.controllers, story.cluster.brokers[1])
    logs = [log_on_disk(story.cluster, node, story.end) for node in nodes]
    for follower in story.followers:
        delivered = [batch for batch in follower.batches if batch.base_offset < story.end]
        first = delivered[0].base_offset
        for log in logs:
            expected = [batch for batch in log.batches if first <= batch.base_offset < story.end]
            assert delivered == expected
        print(follower.feed.name, len(delivered), "batches", sum(len(b.entries) for b in delivered), "records")
    assert story.end > BEFORE + AFTER


def test_portions_follow_each_other(story: Story) -> None:
    for follower in story.followers:
        offset = None
        for portion in follower.portions:
            for batch in portion.batches:
                assert offset in (None, batch.base_offset)
                offset = batch.last_offset + 1
            assert offset in (None, portion.next_offset)
            assert portion.next_offset <= portion.high_watermark
            assert portion.missed is None
            offset = portion.next_offset
        epochs = [batch.epoch for batch in follower.batches]
        assert epochs == sorted(epochs)
        assert len(set(epochs)) > 1  # the death of the active controller was in it


def test_snapshots_were_made_while_the_feeds_went_on(story: Story) -> None:
    folder = metadata_folder(story.cluster, story.cluster.brokers[0])
    assert len(list(folder.glob("*.checkpoint"))) > 2
    for follower in story.followers:
        assert len(follower.snapshots) <= 1  # at its start


def test_a_record_arrives_soon(story: Story) -> None:
    """Counted from the call that creates the topic, and from the timestamp of the record."""
    for follower in story.followers:
        names = [name for name in story.created_s if name.startswith("before")]
        calls_s = [follower.delivered_s[name] - story.created_s[name] for name in names]
        ages_s = [follower.record_age_s[name] for name in names]
        for what, waited_s in (("call", calls_s), ("record", ages_s)):
            figures = f"median {statistics.median(waited_s):.3f} s, longest {max(waited_s):.3f} s"
            print(follower.feed.name, len(names), f"topics, {what} to delivery:", figures)
        assert statistics.median(calls_s) < LATENCY_S_MAX


def test_silence_after_the_death_of_the_leader_is_reported(story: Story) -> None:
    """The feed of the controllers reports it, because no node answers it. Its reason names every address."""
    reasons = [why for at_s, why in story.from_controllers.silences if at_s > story.killed_s]
    assert reasons
    assert all(f"{host}:{port}" in reasons[0] for host, port in addresses(story.cluster, story.cluster.controllers))


def test_a_feed_resumes_where_another_stopped(story: Story) -> None:
    for feed, before in zip(story.feeds(_middle(story)), story.followers, strict=True):
        start = _middle(story).offset
        delivered = _read(feed, story.end)
        assert [portion.missed for portion in delivered] == [None] * len(delivered)
        batches = [batch for portion in delivered for batch in portion.batches]
        again = [b for b in batches if b.base_offset < story.end]
        assert again == [b for b in before.batches if start <= b.base_offset < story.end]


def test_a_new_feed_begins_with_a_snapshot_of_the_whole_state(story: Story) -> None:
    for feed in story.feeds():
        names: list[str] = []
        first: Portion | None = None
        offset = 0
        while offset < story.end:
            portion = _next(feed)
            if first is None:
                first = portion
            if portion.snapshot is not None:
                assert portion.snapshot.problem is None
                names += topics_in(iter(portion.snapshot.entries))
            names += topics_in(entry for batch in portion.batches for entry in batch.entries)
            offset = portion.next_offset
        feed.close()
        assert first is not None
        assert first.snapshot is not None
        assert first.missed is None
        assert sorted(name for name in names if not name.startswith("__")) == sorted(story.created_s)


@pytest.mark.parametrize("wrong", ["epoch", "boundary"])
def test_a_position_of_another_log_is_noticed(story: Story, wrong: str) -> None:
    """The state begins again, and the portion says that something was lost."""
    right = _middle(story)
    many = next(batch for batch in story.from_disk.batches if batch.last_offset > batch.base_offset)
    position = Position(right.offset, right.epoch - 1) if wrong == "epoch" else Position(many.last_offset, many.epoch)
    for feed in story.feeds(position):
        portion = _next(feed)
        feed.close()
        assert portion.missed is not None
        assert "another" in portion.missed
        assert portion.snapshot is not None


def test_a_position_of_a_later_epoch_is_refused(story: Story) -> None:
    for feed in story.feeds(Position(story.end, 1000)):
        with pytest.raises(FeedSilent, match="see whether this is the same cluster"):
            feed.poll(3.0)
        feed.close()


def test_brokers_are_refused_as_controllers(story: Story) -> None:
    feed = ControllerFeed(addresses(story.cluster, story.cluster.brokers))
    with pytest.raises(FeedSilent, match=r"UNKNOWN_TOPIC_ID.*give the addresses of controllers"):
        feed.poll(2.0)
    feed.close()


def test_the_quorum_knows_no_observer_but_the_brokers(story: Story) -> None:
    direct = {node: story.cluster.direct_address(node) for node in story.cluster.brokers}
    with AdminView(direct) as admin, following(*story.feeds()) as followers:
        catch_up(followers, story.end)
        assert set(admin.quorum().observers) == set(story.cluster.brokers)


def _middle(story: Story) -> Position:
    """A position in a batch of records before the death of the controller, behind a data record."""
    portions = [p for p in story.from_disk.portions if p.batches and isinstance(p.batches[-1].entries[-1], Record)]
    position = portions[len(portions) // 2].position
    assert position is not None
    return position


def _next(feed: Feed) -> Portion:
    found = wait_for(
        lambda: feed.poll(1.0), until=lambda p: p is not None, deadline_s=20, what=f"{feed.name} to answer"
    )
    assert found is not None
    return found


def _read(feed: Feed, end: int) -> list[Portion]:
    portions = [_next(feed)]
    while portions[-1].next_offset < end:
        portions.append(_next(feed))
    feed.close()
    return portions
