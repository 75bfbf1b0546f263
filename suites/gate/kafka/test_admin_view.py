"""The answers of the observer (AdminView), checked on real brokers of three releases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness import clusters
from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView
from harness.kafka.admin.positions import Position, Replica, SampledTopic, positions
from harness.kafka.admin.wire import Connection
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.kafka.storage.segment_scan import lineages_of, scrub
from harness.kafka.storage.uuids import kafka_uuid
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from harness.run import broker_state
from suites.gate.cluster_probes import RELEASES

pytestmark = pytest.mark.kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ISR_DEADLINE_S = 60.0


@pytest.fixture(scope="module", params=[*RELEASES, "3.8.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    release = resolve(request.param, maven_repo=None, cache=default_cache(), progress=print)
    running = clusters.start(release, ClusterShape(controllers=3), progress=print)
    yield running
    running.stop()


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminView]:
    """An observer of a healthy cluster, which is healed again after the test."""
    with broker_state.observer(cluster) as view:
        yield view
        cluster.heal()
        wait_for(view.brokers_up, until=lambda up: up == list(cluster.brokers), deadline_s=60, what="every broker")


@pytest.fixture
def topic(admin: AdminView, request: pytest.FixtureRequest) -> str:
    """A topic of one partition, led by broker 1."""
    name = str(request.node.originalname).removeprefix("test_")[:40]
    admin.create_topics([Topic(name=name, assignment=((1, 2, 3),), config={"min.insync.replicas": "1"})])
    return name


@pytest.fixture
def produce(cluster: Cluster) -> Callable[..., None]:
    def produced(topic: str, records: int, **config: Any) -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_direct(), "linger.ms": 5, **config})
        for number in range(records):
            producer.produce(topic, b"value %d" % number, partition=0)
        assert producer.flush(30) == 0

    return produced


def wait_healthy(admin: AdminView, topic: str) -> None:
    wait_for(
        lambda: admin.partitions([topic]),
        until=lambda states: bool(states) and all(len(s.isr) == len(s.replicas) and s.leader > 0 for s in states),
        deadline_s=ISR_DEADLINE_S,
        what="a full ISR",
    )


def test_recreated_topics_have_new_ids(admin: AdminView) -> None:
    wanted = Topic(name="coming", assignment=((3, 1, 2), (2, 3, 1)), config={"retention.ms": "123456"})
    first = admin.create_topics([wanted])
    states = admin.partitions(["coming", "never-made"])
    assert [(s.partition, s.leader, s.replicas) for s in states] == [(0, 3, (3, 1, 2)), (1, 2, (2, 3, 1))]
    settings = admin.topic_configs(["coming"])["coming"]
    assert settings["min.insync.replicas"] == "2"
    assert settings["retention.ms"] == "123456"
    with pytest.raises(BadInput, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([wanted])
    admin.delete_topics(["coming"])
    assert admin.partitions(["coming"]) == []
    admin.delete_topics(["coming"])
    assert admin.create_topics([wanted])["coming"] != first["coming"]


def test_settings_are_altered_one_at_a_time(admin: AdminView, topic: str) -> None:
    admin.alter_topic_config(topic, {"retention.ms": "777", "max.message.bytes": "4096"})
    admin.alter_topic_config(topic, {"retention.ms": None})
    settings = admin.topic_configs([topic])[topic]
    assert settings["max.message.bytes"] == "4096"
    assert settings["retention.ms"] == "604800000"
    with pytest.raises(BadInput, match="INVALID_CONFIG"):
        admin.alter_topic_config(topic, {"retention.ms": "soon"})
    assert {broker: settings["node.id"] for broker, settings in admin.broker_configs().items()} == {
        1: "1",
        2: "2",
        3: "3",
    }


def test_every_replica_reports_the_offsets_of_its_own_log(
    cluster: Cluster, admin: AdminView, topic: str, produce: Callable[..., None]
) -> None:
    produce(topic, 100)
    cluster.links.cut("b3", "b1", "refusing")
    produce(topic, 50, acks=1)
    logs = wait_for(
        lambda: admin.replica_offsets([topic]),
        until=lambda seen: seen.get((topic, 0, 2)) == (0, 150),
        deadline_s=20,
        what="the follower that still fetches",
    )
    assert logs == {(topic, 0, 1): (0, 150), (topic, 0, 2): (0, 150), (topic, 0, 3): (0, 100)}
    cluster.links.heal_all()
    wait_healthy(admin, topic)
    assert admin.delete_records({(topic, 0): 30}) == {(topic, 0): 30}
    logs = wait_for(
        lambda: admin.replica_offsets([topic]),
        until=lambda seen: {start for start, _ in seen.values()} == {30},
        deadline_s=20,
        what="the log start on every replica",
    )
    assert set(logs.values()) == {(30, 150)}


def test_each_broker_reports_all_offsets_of_its_replicas(
    cluster: Cluster, admin: AdminView, topic: str, produce: Callable[..., None]
) -> None:
    (state,) = admin.partitions([topic])
    topics = [SampledTopic(topic, state.topic_id, 2, tiered=False), SampledTopic(topic, kafka_uuid(uuid4()), 1, False)]
    replica = Replica(topic, state.topic_id, 0)
    assert set(sampled(cluster, topics)[2]) == {replica}, "what a broker does not have is left out"
    assert sampled(cluster, topics)[2][replica].high_watermark is None, "its log has no leader epoch yet"
    produce(topic, 100)
    admin.delete_records({(topic, 0): 30})
    known = Position(
        log_start=30, high_watermark=100, last_stable_offset=100, leader_epoch=state.leader_epoch, log_end=100
    )
    wait_for(
        lambda: sampled(cluster, topics),
        until=lambda seen: seen == {broker: {replica: known} for broker in cluster.brokers},
        deadline_s=20,
        what="the offsets of every replica",
    )


def sampled(cluster: Cluster, topics: list[SampledTopic]) -> dict[int, dict[Replica, Position]]:
    """What each broker reports of its replicas."""
    found = {}
    for broker in cluster.brokers:
        give_up_at = time.monotonic() + 5
        connection = Connection(cluster.direct_address(broker), give_up_at)
        found[broker] = positions(connection, topics, give_up_at)
        connection.close()
    return found


def test_open_transactions_are_seen(cluster: Cluster, admin: AdminView, topic: str) -> None:
    name, group = f"{topic}-txn", f"{topic}-group"
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_direct(), "group.id": group})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_direct(), "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"pending", partition=0)
    producer.flush()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 41)], consumer.consumer_group_metadata(), 20)

    assert admin.watermarks([topic]) == {(topic, 0): (1, 0)}
    assert [p.txn_start_offset for p in admin.producers([topic])] == [0]
    seen = admin.transactions([name, "never begun"])
    assert seen.keys() == {name}
    assert seen[name].state == "Ongoing"
    assert (topic, 0) in seen[name].partitions
    assert name in admin.transactions()
    assert admin.group_offsets(group, [(topic, 0)], stable=False) == {}
    with pytest.raises(HarnessTimeout, match="UNSTABLE_OFFSET_COMMIT"):
        admin.group_offsets(group, [(topic, 0)], deadline_s=0.5)

    producer.commit_transaction(20)
    assert admin.group_offsets(group, [(topic, 0)]) == {(topic, 0): 41}
    assert admin.group_offsets(group) == {(topic, 0): 41}
    assert admin.last_stable_offset([topic]) == admin.high_watermark([topic]) == {(topic, 0): 2}
    assert [p.txn_start_offset for p in admin.producers([topic])] == [None]
    consumer.close()


def test_a_paused_broker_is_missing_from_answers_and_delays_none(
    cluster: Cluster, admin: AdminView, topic: str, produce: Callable[..., None]
) -> None:
    produce(topic, 10)
    before = admin.partitions([topic])[0]
    cluster.pause(before.leader)
    started = time.monotonic()
    after = wait_for(
        lambda: admin.partitions([topic])[0],
        until=lambda state: state.leader_epoch > before.leader_epoch and state.leader > 0,
        deadline_s=30,
        what="another leader",
    )
    assert after.leader != before.leader
    for _ in range(10):
        asked = time.monotonic()
        admin.partitions([topic])
        assert time.monotonic() - asked < 1.0
    assert (topic, 0, before.leader) not in admin.replica_offsets([topic])
    assert before.leader not in admin.brokers_up(1.0)
    assert time.monotonic() - started < 60
    cluster.resume(before.leader)
    wait_healthy(admin, topic)


def test_the_next_controller_is_found_while_the_first_is_paused(cluster: Cluster, admin: AdminView, topic: str) -> None:
    first = admin.quorum()
    assert first.leader in cluster.controllers
    assert set(first.voters) == set(cluster.controllers)
    cluster.pause(first.leader)
    second = wait_for(admin.quorum, until=lambda q: q.leader != first.leader, deadline_s=30, what="another controller")
    assert second.leader_epoch > first.leader_epoch
    admin.alter_topic_config(topic, {"retention.ms": "999"})
    cluster.resume(first.leader)
    wait_for(
        admin.active_controller,
        until=lambda node: node == second.leader,
        deadline_s=20,
        what="the new one",
    )


def test_the_metadata_of_a_stale_broker_is_not_used(cluster: Cluster, admin: AdminView, topic: str) -> None:
    for controller in cluster.controllers:
        cluster.links.cut("b1", f"c{controller}", "silent")
    newest = wait_for(
        lambda: admin.partitions([topic])[0],
        until=lambda state: state.leader not in (1, -1),
        deadline_s=30,
        what="a leader other than the broker that is cut off",
    )
    reported = admin.partitions_by_broker([topic])
    assert reported[1].partitions[topic, 0].leader == 1
    assert reported[1].partitions[topic, 0].leader_epoch < newest.leader_epoch
    assert reported[1].metadata_offset < reported[2].metadata_offset
    assert admin.coordinator("group", "any") in (2, 3)
    cluster.links.heal_all()
    wait_healthy(admin, topic)


def test_elections_and_reassignments(
    cluster: Cluster, admin: AdminView, topic: str, produce: Callable[..., None]
) -> None:
    place = (topic, 0)
    produce(topic, 20)
    assert admin.elect_leaders("preferred", [place]) == {place: "ELECTION_NOT_NEEDED"}
    admin.reassign({place: (2, 3, 1)})
    wait_for(admin.reassignments, until=lambda moving: place not in moving, deadline_s=30, what="the reassignment")
    assert admin.elect_leaders("preferred", [place]) == {place: None}
    wait_for(lambda: admin.partitions([topic])[0].leader, until=lambda b: b == 2, deadline_s=20, what="broker 2")
    assert admin.offsets_by_epoch({place: 0})[place].end_offset == 20

    cluster.kill(3)
    wait_isr(admin, topic, {1, 2})
    cluster.kill(1)
    wait_isr(admin, topic, {2})
    produce(topic, 7, acks=1)
    cluster.kill(2)
    cluster.start(1, 3)
    state = wait_for(
        lambda: next(iter(admin.partitions([topic])), None),
        until=lambda s: s is not None and s.leader == -1,
        deadline_s=60,
        what="no leader",
    )
    assert state is not None
    if "eligible.leader.replicas.version" in admin.features():
        assert (state.isr, state.elr) == ((), (2,))
    else:
        assert (state.isr, state.elr) == ((2,), ())
    wait_for(admin.brokers_up, until=lambda up: up == [1, 3], deadline_s=60, what="the brokers 1 and 3")
    elected = wait_for(
        lambda: admin.elect_leaders("unclean", [place]),
        until=lambda answer: answer[place] is None,
        deadline_s=30,
        what="an unclean election",
    )
    assert elected == {place: None}
    cluster.start(2)
    wait_healthy(admin, topic)
    assert set(admin.replica_offsets([topic]).values()) == {(0, 20)}


def wait_isr(admin: AdminView, topic: str, isr: set[int]) -> None:
    wait_for(
        lambda: admin.partitions([topic])[0],
        until=lambda state: set(state.isr) == isr and state.leader == 2,
        deadline_s=30,
        what=f"an ISR of {isr}",
    )


class Table:
    """Collects the rows that the writer of evidence would get."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def append(self, columns: Mapping[str, Any]) -> None:
        length = len(columns["base_offset"])
        wide = {n: [v] * length if isinstance(v, str | int) else list(v) for n, v in columns.items()}
        self.rows += [dict(zip(wide, values, strict=True)) for values in zip(*wide.values(), strict=True)]


def test_log_segments_on_disk_agree_with_the_brokers_answers(
    cluster: Cluster, admin: AdminView, topic: str, produce: Callable[..., None]
) -> None:
    for codec in CODECS:
        produce(topic, 40, **{"compression.type": codec, "enable.idempotence": True})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_direct(), "transactional.id": f"{topic}-txn"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"transactional", partition=0)
        producer.flush()
        end(20)
    wait_healthy(admin, topic)
    logs = wait_for(
        lambda: admin.replica_offsets([topic]),
        until=lambda seen: set(seen.values()) == {(0, 204)},
        deadline_s=20,
        what="204 offsets on three replicas",
    )
    directories = {broker: cluster.log_directories(broker) for broker in cluster.brokers}
    table = Table()
    seen = scrub(directories, [topic], table)
    assert (seen.replicas, seen.damage) == (3, [])
    by_broker = {b: [row for row in table.rows if row["broker"] == b] for b in cluster.brokers}
    for broker, rows in by_broker.items():
        assert rows[-1]["last_offset"] + 1 == logs[topic, 0, broker][1]
        assert sum(row["count"] for row in rows) == 204
        assert {row["codec"] for row in rows} == set(CODECS)
        assert [row["control"] for row in rows if row["control"]] == ["commit", "abort"]
        assert [row["transactional"] for row in rows[-4:]] == [True] * 4
        assert all(row["crc_ok"] for row in rows)
    assert len({tuple((r["base_offset"], r["digest"]) for r in rows) for rows in by_broker.values()}) == 1
    reported = admin.partitions([topic])[0]
    assert {row["topic_id"] for row in table.rows} == {reported.topic_id}
    lineages = lineages_of(directories, [topic])
    assert [lineage.epochs for lineage in lineages] == [((reported.leader_epoch, 0),)] * 3
    snapshot = admin.snapshot("drained", [topic], [])
    assert snapshot.partitions[0].topic_id == reported.topic_id
    assert snapshot.partitions[0].high_watermark == 204
    assert snapshot.brokers_up == (1, 2, 3)
