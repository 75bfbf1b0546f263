"""Where no metadata log can be read: what brokers describe becomes snapshots, whenever something has changed."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from harness.audit.engine.cluster_state import ClusterState
from harness.audit.feeds.feed import FeedSilent, Portion
from harness.audit.feeds.settings import Setting, SettingSource, SettingsSeen
from harness.audit.feeds.states import PartitionSeen
from harness.audit.service import described_feed
from harness.audit.service.described_feed import DescribedFeed
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.wire import Unanswered
from harness.model.history.changes import AnyChange, ConfigChange

SEEN = PartitionSeen("orders", "T", 0, 1, 5, (1, 2), (3,), None, (1, 2, 3), (), None)


class Cluster:
    """The state that the brokers describe."""

    def __init__(self) -> None:
        self.partitions = [SEEN]
        self.retention_ms = "604800000"
        self.silent = False
        self.changes: list[tuple[AnyChange, AnyChange | None]] = []
        self.state = ClusterState(lambda after, before: self.changes.append((after, before)))

    def load(self, feed: DescribedFeed) -> Portion | None:
        portion = feed.poll(0.01)
        if portion is not None:
            assert portion.snapshot is not None
            self.changes.clear()
            self.state.load(portion.snapshot)
        return portion


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()

    def partition_states(_: Brokers, broker: int) -> Iterator[PartitionSeen]:
        if made.silent:
            raise Unanswered(f"broker {broker}: no answer")
        yield from made.partitions

    def topic_settings(_: Brokers, topics: list[str]) -> Iterator[SettingsSeen]:
        own = Setting(made.retention_ms, SettingSource.TOPIC)
        yield SettingsSeen("orders", {"retention.ms": own, "segment.ms": Setting("1", SettingSource.DEFAULT)})

    dynamic = {"log.retention.bytes": Setting("9", SettingSource.DYNAMIC_CLUSTER)}
    monkeypatch.setattr(described_feed, "partition_states", partition_states)
    monkeypatch.setattr(described_feed, "topic_settings", topic_settings)
    monkeypatch.setattr(described_feed, "broker_settings", lambda *_: SettingsSeen("1", dynamic))
    monkeypatch.setattr(described_feed, "_EVERY_S_MIN", 0.0)
    monkeypatch.setattr(described_feed, "_PARTITIONS_S", 1e9)
    monkeypatch.setattr(described_feed, "_TOPICS_S", 1e9)
    return made


class FakeBrokers:
    ids = (1, 2)

    def refresh(self, timeout_s: float) -> None: ...
    def ask_any(self, question: object) -> SimpleNamespace:
        return SimpleNamespace(finalized_features=[SimpleNamespace(name="eligible", max_version_level=1)])

    def close(self) -> None: ...


@pytest.fixture
def feed() -> Iterator[DescribedFeed]:
    made = DescribedFeed(cast(Brokers, FakeBrokers()))
    yield made
    made.close()


def test_a_snapshot_has_partitions_settings_and_features(cluster: Cluster, feed: DescribedFeed) -> None:
    assert cluster.load(feed) is not None
    state = cluster.state
    partition = state.partition("T", 0)
    assert partition is not None
    assert (partition.topic, partition.leader, partition.leader_epoch) == ("orders", 1, 5)
    assert (partition.isr, partition.elr, partition.replicas) == ((1, 2), (3,), (1, 2, 3))
    assert (state.setting("orders", "retention.ms"), state.setting("orders", "retention.bytes")) == ("604800000", "9")
    assert state.own_setting("orders", "segment.ms") is None
    assert state.feature("eligible") == 1
    assert state.take_problems() == []


def test_there_is_a_snapshot_only_when_something_has_changed(cluster: Cluster, feed: DescribedFeed) -> None:
    assert cluster.load(feed) is not None
    assert cluster.load(feed) is None
    cluster.retention_ms = "60000"
    portion = cluster.load(feed)
    assert portion is not None
    assert (portion.next_offset, portion.missed) == (2, None)
    changed = [(c, b) for c, b in cluster.changes if isinstance(c, ConfigChange) and c.key == "retention.ms"]
    ((after, before),) = changed
    assert (after.value, after.from_snapshot, after.offset) == ("60000", True, 1)
    assert isinstance(before, ConfigChange)
    assert before.value == "604800000"


def test_a_snapshot_can_be_read_more_than_once(cluster: Cluster, feed: DescribedFeed) -> None:
    portion = feed.poll(0.01)
    assert portion is not None
    assert portion.snapshot is not None
    assert [*portion.snapshot.entries] == [*portion.snapshot.entries]


def test_a_broker_with_an_old_state_is_not_believed(cluster: Cluster, feed: DescribedFeed) -> None:
    cluster.load(feed)
    cluster.partitions = [SEEN._replace(leader=2, leader_epoch=4)]
    with pytest.raises(FeedSilent, match="describes an old state of orders/0"):
        feed.poll(0.01)
    cluster.partitions = [SEEN._replace(leader=2, leader_epoch=6)]
    assert cluster.load(feed) is not None


def test_silent_brokers_are_silence(cluster: Cluster, feed: DescribedFeed) -> None:
    cluster.silent = True
    with pytest.raises(FeedSilent, match="no answer"):
        feed.poll(0.01)
