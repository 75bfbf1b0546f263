"""A backend (--backend) with real Kafka: the effect of each operation on brokers and links."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.clusters.metadata_history import history_of_cluster
from harness.clusters.nodes.jvm_cluster import TOXIPROXY, JvmCluster
from harness.kafka.storage.bootstrap_records import FIRST_PRODUCER_ID, SHARED_MAX
from harness.model.errors import BadInput, HarnessFailure, HarnessTimeout
from harness.model.history.changes import BrokerChange, BrokerEvent
from harness.model.link import CutMode
from harness.model.scenario.scenario import ClusterShape
from harness.model.waiting import wait_for
from harness.run import broker_state
from suites.gate.cluster_probes import TOPIC, create_topic, isr, produce, quiet, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    with start(tmp_path_factory.mktemp("runs"), ClusterShape(controllers=3), backend=backend) as cluster:
        create_topic(cluster)
        yield cluster
        assert cluster.unexpected_exits() == []


@pytest.fixture
def cluster(shared: JvmCluster) -> Iterator[JvmCluster]:
    """Three brokers and three controllers. They are healed, and every ISR is full, before and after each test."""
    yield shared
    shared.heal()
    for node in (*shared.controllers, *shared.brokers):
        shared.wait_started(node, 60)
    whole = set(shared.brokers)
    wait_for(lambda: isr(shared), until=lambda seen: seen[1] == whole, deadline_s=30, what="a full ISR")
    assert shared.links.active() == []


def test_clients_connect_to_proxies_and_observers_to_brokers(cluster: JvmCluster) -> None:
    through = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap()})).list_topics(timeout=10).brokers
    direct = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_direct()})).list_topics(timeout=10).brokers
    proxies = {f"{broker.host}:{broker.port}" for broker in through.values()}
    assert proxies == set(cluster.bootstrap().split(","))
    advertised: set[tuple[object, ...]] = {(b.id, b.host, b.port) for b in direct.values()}
    assert advertised == {(broker, *cluster.direct_address(broker)) for broker in cluster.brokers}
    assert produce(cluster.bootstrap()) is None


def test_broker_epochs_and_producer_ids_begin_above_127(cluster: JvmCluster) -> None:
    begin_above_127(cluster)


def test_a_killed_broker_restarts_on_its_disk(cluster: JvmCluster) -> None:
    assert produce(cluster.bootstrap()) is None
    before = cluster.pid(2)
    cluster.kill(2)
    assert not cluster.running(2)
    assert not psutil.pid_exists(before)
    cluster.start(2)
    cluster.start(2)  # running already: nothing happens
    cluster.wait_started(2, 60)
    assert cluster.running(2)
    assert (cluster.log_directories(2)[0] / f"{TOPIC}-0").is_dir()
    assert cluster.unexpected_exits() == []


def test_a_cluster_survives_the_kill_of_all_brokers_at_once(cluster: JvmCluster) -> None:
    cluster.kill(*cluster.brokers)
    assert [cluster.running(broker) for broker in cluster.brokers] == [False] * 3
    cluster.kill(*cluster.brokers)  # all have ended already: nothing happens
    cluster.heal()
    for broker in cluster.brokers:
        cluster.wait_started(broker, 60)
    assert produce(cluster.bootstrap()) is None


def test_termination_is_a_controlled_shutdown(cluster: JvmCluster) -> None:
    cluster.terminate(3)
    assert not cluster.running(3)
    assert "shut down completed" in cluster.server_log(3).read_text("utf-8")
    assert cluster.unexpected_exits() == []


def test_a_paused_broker_answers_only_after_it_was_resumed(cluster: JvmCluster) -> None:
    cluster.pause(1)
    assert cluster.paused(1)
    assert cluster.running(1)
    wait_for(lambda: isr(cluster), until=lambda seen: seen[0] in (2, 3), deadline_s=30, what="a new leader")
    with pytest.raises(HarnessTimeout, match="b1 to shut down"):
        cluster.terminate(1, deadline_s=0.3)  # a stopped process cannot handle a signal
    cluster.resume(1)
    assert not cluster.paused(1)
    wait_for(lambda: cluster.running(1), until=lambda up: not up, deadline_s=30, what="the signal to arrive")


def test_another_controller_takes_over_from_a_killed_one(cluster: JvmCluster) -> None:
    active = quorum(cluster)
    cluster.kill(active)
    cluster.kill(active)  # it has ended already: nothing happens
    wait_for(lambda: quorum(cluster), until=lambda leader: leader not in (active, -1), deadline_s=30, what="a new one")
    create_topic(cluster, "made-by-two-controllers")
    assert produce(cluster.bootstrap(), "made-by-two-controllers") is None


@pytest.mark.parametrize("mode", ["silent", "refusing"])
def test_a_cut_follower_leaves_the_isr_and_returns(cluster: JvmCluster, mode: CutMode) -> None:
    leader = isr(cluster)[0]
    follower = next(broker for broker in cluster.brokers if broker != leader)
    cluster.links.cut(f"b{follower}", f"b{leader}", mode)
    assert cluster.links.active()[0].startswith(f"b{follower} > b{leader} ")
    assert produce(cluster.bootstrap()) is None  # an idle topic never shrinks its ISR
    left = set(cluster.brokers) - {follower}
    wait_for(lambda: isr(cluster), until=lambda seen: seen == (leader, left), deadline_s=15, what="the ISR to shrink")
    cluster.links.heal(f"b{follower}", f"b{leader}")
    assert cluster.links.active() == []


def test_requests_arrive_while_their_answers_are_lost(cluster: JvmCluster) -> None:
    consumer = Consumer(quiet({"bootstrap.servers": cluster.bootstrap_direct(), "group.id": "ends"}))
    place = TopicPartition(TOPIC, 0)
    _, before = consumer.get_watermark_offsets(place, timeout=10)
    lost = _LiveProducer(cluster.bootstrap(), deadline_s=4)
    assert lost.produce() is None
    for broker in cluster.brokers:
        cluster.links.cut("client", f"b{broker}", "silent", "answers")
    error = lost.produce()
    assert error is not None
    assert error.code() == KafkaError._MSG_TIMED_OUT
    _, after = consumer.get_watermark_offsets(place, timeout=10)
    consumer.close()
    assert after == before + 2  # the second record arrived, and only its answer was lost


def begin_above_127(cluster: JvmCluster) -> None:
    """Every broker's first epoch is above 127, and so is the first block of producer ids that is left to give."""
    history = history_of_cluster(cluster)
    registered = [broker for broker in history.of(BrokerChange) if broker.event is BrokerEvent.REGISTERED]
    assert {broker.broker for broker in registered} == set(cluster.brokers)
    assert all(broker.broker_epoch > SHARED_MAX for broker in registered)
    assert [block.next_id for block in history.producer_ids][:1] == [FIRST_PRODUCER_ID]
    assert (history.start, history.unknown) == (0, ())


def quorum(cluster: JvmCluster) -> int:
    """The active controller."""
    with broker_state.observer(cluster) as admin:
        return admin.quorum().leader


class _LiveProducer:
    """A producer that keeps its connections open, so that a cut has to affect existing ones."""

    def __init__(self, address: str, deadline_s: float) -> None:
        settings = {"bootstrap.servers": address, "acks": "all", "enable.idempotence": True}
        self._deadline_s = deadline_s
        self._producer = Producer(quiet(settings | {"delivery.timeout.ms": int(deadline_s * 1000)}))

    def produce(self) -> KafkaError | None:
        ended: list[KafkaError | None] = []
        self._producer.produce(TOPIC, b"value", on_delivery=lambda error, _: ended.append(error))
        self._producer.flush(self._deadline_s + 5)
        return ended[0]


@pytest.mark.parametrize("mode", ["silent", "refusing"])
def test_a_cut_affects_existing_connections(cluster: JvmCluster, mode: CutMode) -> None:
    producer = _LiveProducer(cluster.bootstrap(), deadline_s=3)
    assert producer.produce() is None
    for broker in cluster.brokers:
        cluster.links.cut("client", f"b{broker}", mode)
    error = producer.produce()
    assert error is not None
    assert error.code() == KafkaError._MSG_TIMED_OUT
    assert produce(cluster.bootstrap_direct()) is None
    cluster.links.heal_all()
    assert produce(cluster.bootstrap()) is None


def test_a_slow_link_delays_its_traffic(cluster: JvmCluster) -> None:
    def seconds() -> float:
        producer = _LiveProducer(cluster.bootstrap(), deadline_s=20)
        assert producer.produce() is None  # it is connected and knows the leader
        started = time.monotonic()
        assert producer.produce() is None
        return time.monotonic() - started

    for broker in cluster.brokers:
        cluster.links.slow("client", f"b{broker}", latency_ms=500, jitter_ms=50, direction="answers")
    assert seconds() > 0.4
    cluster.links.heal_all()
    assert seconds() < 0.4


def test_every_replica_serves_its_own_copy(cluster: JvmCluster) -> None:
    """client.rack chooses the broker (KIP-392), and the client's statistics show which broker served the fetch."""
    assert produce(cluster.bootstrap()) is None
    for broker in cluster.brokers:
        served: set[int] = set()

        def statistics(text: str, served: set[int] = served) -> None:
            partition = json.loads(text)["topics"].get(TOPIC, {}).get("partitions", {}).get("0", {})
            served.add(partition.get("broker", -1))

        settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_direct(), "group.id": "copies"}
        settings |= {"client.rack": f"r{broker}"}
        consumer = Consumer(quiet(settings | {"statistics.interval.ms": 100, "stats_cb": statistics}))
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        wait_served(consumer, served, broker)
        consumer.close()


def wait_served(consumer: Consumer, served: set[int], broker: int) -> None:
    def poll() -> set[int]:
        consumer.poll(0.1)
        return served

    wait_for(poll, until=lambda seen: broker in seen, deadline_s=20, what=f"a fetch from broker {broker}")


def test_an_unexpected_exit_is_noticed(tmp_path: Path, backend: str) -> None:
    with start(tmp_path, ClusterShape(brokers=1), backend=backend) as cluster:
        cluster.kill(101)
        assert cluster.unexpected_exits() == []  # the harness asked for this one
        psutil.Process(cluster.pid(1)).kill()
        found = wait_for(cluster.unexpected_exits, until=bool, deadline_s=10, what="the end to be noticed")
        assert [(exit_.name, exit_.status) for exit_ in found] == [("b1", "signal SIGKILL")]
        assert found[0].log
        cluster.heal()
        cluster.wait_started(1, 60)
        psutil.Process(cluster._runner.status()[TOXIPROXY].pid).kill()
        wait_for(
            lambda: [exit_.name for exit_ in cluster.unexpected_exits()],
            until=lambda names: names == ["b1", "toxiproxy"],
            deadline_s=10,
            what="the end to be noticed",
        )
        with pytest.raises(HarnessFailure, match="toxiproxy at"):
            cluster.links.heal_all()


@pytest.mark.parametrize("version", ["3.8.0", "3.9.1"])
def test_older_releases(version: str, tmp_path: Path, backend: str) -> None:
    with start(tmp_path, ClusterShape(controllers=3), backend=backend, version=version) as cluster:
        create_topic(cluster)
        begin_above_127(cluster)
        assert produce(cluster.bootstrap()) is None
        cluster.kill(1)
        wait_for(lambda: isr(cluster), until=lambda seen: seen[0] in (2, 3), deadline_s=30, what="a new leader")
        cluster.start(1)
        wait_for(lambda: isr(cluster), until=lambda seen: len(seen[1]) == 3, deadline_s=60, what="a full ISR")
    assert list(tmp_path.iterdir()) == []


def test_two_clusters_at_once_and_features_at_format(tmp_path: Path, backend: str) -> None:
    shape = ClusterShape(brokers=1, features={"eligible.leader.replicas.version": 0}, config={"num.partitions": "2"})
    with start(tmp_path, shape, backend=backend) as one, start(tmp_path, shape, backend=backend) as two:
        assert one.state.slot != two.state.slot
        create_topic(one, "only-here")
        topics = AdminClient(quiet({"bootstrap.servers": two.bootstrap()})).list_topics(timeout=10).topics
        assert "only-here" not in topics
        one.links.cut("client", "b1", "refusing")
        assert two.links.active() == []
        assert AdminClient(quiet({"bootstrap.servers": two.bootstrap()})).list_topics(timeout=10).brokers
        one.kill(1)
        assert two.running(1)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_start_says_why_and_leaves_nothing(tmp_path: Path, backend: str) -> None:
    shape = ClusterShape(brokers=1, config={"queued.max.requests": "many"})
    with pytest.raises(HarnessFailure, match=r"ended before it had started.*queued\.max\.requests"):
        start(tmp_path, shape, backend=backend)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadInput, match=r"no\.such\.feature"):
        start(tmp_path, ClusterShape(brokers=1, features={"no.such.feature": 1}), backend=backend)
