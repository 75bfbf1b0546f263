"""The history of a real cluster is exactly what was done to it, and the release's own tool reads the same records."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from harness.clusters.metadata_history import history_of_cluster, metadata_logs
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.evidence.history import history_in, write_history
from harness.kafka.admin.client import AdminView
from harness.kafka.admin.topics import PartitionState
from harness.kafka.storage.log_directory import METADATA_LOG
from harness.kafka.storage.metadata_log import MetadataLogReader
from harness.model.history.changes import (
    BrokerChange,
    BrokerEvent,
    ConfigChange,
    ControllerChange,
    ControllerEvent,
    PartitionChange,
    ResourceKind,
)
from harness.model.history.elections import ElectedFrom
from harness.model.history.fold import fold, voters_of
from harness.model.history.history import History
from harness.model.history.log import Entry, NodeLog, Record
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.gate.cluster_probes import RELEASES, TOPIC, start
from suites.gate.kafka.dump_log import differences, dump

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

PLACE = (TOPIC, 0)
KEY, VALUE = "retention.ms", "86400001"
STARTS = {BrokerEvent.REGISTERED, BrokerEvent.UNFENCED, BrokerEvent.FENCED}
EVER = 1 << 62  # later than any time
NEWEST, *OLDER = RELEASES
SHAPES = {NEWEST: ClusterShape(controllers=3, voters="dynamic"), **dict.fromkeys(OLDER, ClusterShape())}


@dataclass
class Story:
    """A cluster to which something was done, and the states that its brokers reported meanwhile."""

    cluster: JvmCluster
    seen: list[PartitionState] = field(default_factory=list)
    topic_ids: list[str] = field(default_factory=list)
    high_watermark: int = 0

    def until(self, admin: AdminView, leader: int, isr: set[int]) -> None:
        def state() -> PartitionState | None:
            return next(iter(admin.partitions([TOPIC])), None)

        found = wait_for(
            state,
            until=lambda s: s is not None and (s.leader, set(s.isr)) == (leader, isr),
            deadline_s=90,
            what=f"leader {leader} and ISR {isr}",
        )
        assert found is not None
        self.seen.append(found)


def play(cluster: JvmCluster) -> Story:
    """An unclean election, a setting that comes and goes, and a topic that is deleted and created again."""
    story = Story(cluster)
    with AdminView(
        {broker: cluster.direct_address(broker) for broker in cluster.brokers},
        {controller: cluster.direct_address(controller) for controller in cluster.controllers},
    ) as admin:
        admin.create_topics([Topic(name=TOPIC, assignment=((1, 2),), config={"min.insync.replicas": "1"})])
        story.until(admin, 1, {1, 2})
        cluster.kill(2)
        story.until(admin, 1, {1})
        cluster.kill(1)
        wait_for(lambda: _leader(admin), until=lambda leader: leader == -1, deadline_s=60, what="no leader")
        cluster.start(2)
        cluster.wait_started(2, 90)
        if len(cluster.controllers) > 1:
            active = admin.active_controller()
            cluster.kill(active)
            cluster.start(active)
        assert admin.elect_leaders("unclean", [PLACE], 60) == {PLACE: None}
        story.until(admin, 2, {2})
        cluster.start(1)
        cluster.wait_started(1, 90)
        story.until(admin, 2, {1, 2})
        admin.alter_topic_config(TOPIC, {KEY: VALUE})
        admin.alter_topic_config(TOPIC, {KEY: None})
        story.topic_ids.append(story.seen[-1].topic_id)
        story.topic_ids.append(admin.recreate_topic(Topic(name=TOPIC, partitions=1, replicas=1)))
        story.high_watermark = admin.quorum().high_watermark
    return story


def _leader(admin: AdminView) -> int | None:
    return next((state.leader for state in admin.partitions([TOPIC])), None)


@pytest.fixture(scope="module", params=RELEASES)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[Story]:
    version: str = request.param
    root = tmp_path_factory.mktemp("runs")
    with start(root, SHAPES[version], backend=backend, version=version) as running:
        yield play(running)


@pytest.fixture(scope="module")
def history(story: Story) -> History:
    return history_of_cluster(story.cluster, story.high_watermark)


def test_the_history_is_whole(story: Story, history: History) -> None:
    assert (history.start, history.unknown, history.problems, history.dropped) == (0, (), (), ())
    assert history.voters == tuple(sorted(story.cluster.controllers))
    assert history.end >= story.high_watermark > 0


def test_every_state_that_brokers_reported_is_in_it(story: Story, history: History) -> None:
    for state in story.seen:
        known = history.partition_in_epoch(state.topic_id, 0, state.leader_epoch)
        assert (state.leader, set(state.isr)) in [(change.leader, set(change.isr)) for change in known]
        assert history.leader_of(state.topic_id, 0, state.leader_epoch) == state.leader


def test_only_the_unclean_election_is_unclean(story: Story, history: History) -> None:
    topic_id, _ = story.topic_ids
    (election,) = history.elections(topic_id)
    assert (election.after.leader, election.elected_from) == (2, ElectedFrom.UNCLEAN)
    assert election.before is not None
    assert {*election.before.isr, *election.before.elr} == {1}
    assert election.before.leader == -1
    assert election.after.recovering
    assert not history.partition(topic_id, 0)[-1].recovering
    epochs = [state.partition_epoch for state in history.partition(topic_id, 0)]
    assert epochs == list(range(len(epochs)))


def test_the_setting_came_and_went(history: History) -> None:
    changes = [c for c in history.of(ConfigChange) if (c.kind, c.name, c.key) == (ResourceKind.TOPIC, TOPIC, KEY)]
    assert [change.value for change in changes] == [VALUE, None]
    first, second = changes
    assert history.config_at(ResourceKind.TOPIC, TOPIC, first.time_ns - 1).get(KEY) is None
    if first.time_ns < second.time_ns:
        assert history.config_at(ResourceKind.TOPIC, TOPIC, first.time_ns)[KEY] == VALUE
    assert history.config_at(ResourceKind.TOPIC, TOPIC, second.time_ns).get(KEY) is None


def test_the_topic_was_deleted_and_created_again(story: Story, history: History) -> None:
    first, second = (life for life in history.topics if life.topic == TOPIC)
    assert [first.topic_id, second.topic_id] == story.topic_ids
    assert first.deleted is not None
    assert second.deleted is None
    assert first.created.offset < first.deleted.offset < second.created.offset
    assert history.topic_at(TOPIC, second.created.time_ns) == second
    assert history.partition_at(first.topic_id, 0, second.created.time_ns) is None
    assert history.config_at(ResourceKind.TOPIC, TOPIC, second.created.time_ns - 1) == {}


def test_brokers_were_fenced_and_came_back_as_other_processes(history: History) -> None:
    for broker in (1, 2):
        changes = [c for c in history.of(BrokerChange) if c.broker == broker]
        first, second = dict.fromkeys(change.incarnation for change in changes)
        # A broker registers once more if its first request times out.
        for incarnation, last in ((first, BrokerEvent.FENCED), (second, BrokerEvent.UNFENCED)):
            events = [c.event for c in changes if c.incarnation == incarnation and c.event in STARTS]
            assert (events[0], events[-1]) == (BrokerEvent.REGISTERED, last)
            assert BrokerEvent.UNFENCED in events


def test_leaders_of_the_quorum_follow_each_other(story: Story, history: History) -> None:
    leads = [c for c in history.of(ControllerChange) if c.event is ControllerEvent.LEADS]
    assert [c.controller_epoch for c in leads] == sorted({c.controller_epoch for c in leads})
    assert len(leads) > 1 if len(story.cluster.controllers) > 1 else len(leads) == 1


def test_the_tool_of_the_release_reads_the_same_records(story: Story, tmp_path: Path) -> None:
    """Compares the log, and the oldest and the newest snapshot, of a controller and of a broker."""
    counts: Counter[str] = Counter()
    for node in (story.cluster.controllers[0], story.cluster.brokers[0]):
        copy = tmp_path / str(node)  # because the node writes on
        shutil.copytree(story.cluster.log_directories(node)[0] / METADATA_LOG, copy)
        for path, entries in _files(copy):
            dumped = dump(story.cluster.release, path)
            assert len(entries) == len(dumped)
            for ours, theirs in zip(entries, dumped, strict=True):
                assert isinstance(ours, Record)
                assert differences(ours, theirs) == []
                counts[ours.kind] += 1
    print(story.cluster.release.version, sum(counts.values()), dict(counts))
    assert {"PartitionRecord", "PartitionChangeRecord", "ConfigRecord", "RemoveTopicRecord"} <= counts.keys()
    assert {"LeaderChangeMessage", "SnapshotHeaderRecord", "SnapshotFooterRecord"} <= counts.keys()


def _files(copy: Path) -> Iterator[tuple[Path, list[Entry]]]:
    log = MetadataLogReader().read_folder(0, copy)
    (segment,) = copy.glob("*.log")
    yield segment, [entry for batch in log.batches for entry in batch.entries]
    for snapshot in (log.snapshots[0], log.snapshots[-1]):
        name = f"{snapshot.end_offset:020}-{snapshot.epoch:010}.checkpoint"
        yield copy / name, list(snapshot.entries)


def test_a_cluster_that_begins_with_a_snapshot_ends_in_the_same_state(story: Story, history: History) -> None:
    """As if all nodes had been wiped: every log begins at the node's own snapshot."""
    logs = [_trimmed(log) for log in metadata_logs(story.cluster)]
    voters = voters_of(logs) or set(story.cluster.controllers)
    later = fold(logs, voters)
    assert later.start > 0
    assert (later.unknown, later.problems) == ((), ())
    _, topic_id = story.topic_ids
    assert _state(later.partition(topic_id, 0)[-1]) == _state(history.partition(topic_id, 0)[-1])
    assert later.features_at(EVER) == history.features_at(EVER)
    for topic in (life.topic for life in history.topics if life.deleted is None):
        settings = [each.config_at(ResourceKind.TOPIC, topic, EVER) for each in (later, history)]
        assert settings[0] == settings[1]
    for broker in story.cluster.brokers:
        assert _registration(later, broker) == _registration(history, broker)


def _state(state: PartitionChange) -> PartitionChange:
    return replace(state, time_ns=0, offset=0, controller_epoch=0, from_snapshot=False, created=False)


def _registration(history: History, broker: int) -> BrokerChange:
    found = history.broker_at(broker, EVER)
    assert found is not None
    event = BrokerEvent.REGISTERED
    return replace(found, event=event, time_ns=0, offset=0, controller_epoch=0, from_snapshot=False)


def _trimmed(log: NodeLog) -> NodeLog:
    newest = log.snapshots[-1]
    batches = tuple(batch for batch in log.batches if batch.base_offset >= newest.end_offset)
    return replace(log, batches=batches, snapshots=(newest,))


def test_a_bundle_gives_back_the_same_history(history: History, tmp_path: Path) -> None:
    write_history(tmp_path, history)
    read = history_in(tmp_path)
    assert read is not None
    assert read.changes == history.changes
    assert read.elections() == history.elections()
