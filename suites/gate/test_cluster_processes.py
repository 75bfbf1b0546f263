"""The process backend against real Kafka: what each operation does to brokers and links; nothing outlives it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from harness import clusters
from harness.clusters.processes import ProcessCluster, start_processes
from harness.clusters.state import runs
from harness.kafka.admin import AdminView
from harness.kafka.cache import default_cache
from harness.kafka.release import Release, resolve
from harness.model.errors import BadInput, HarnessFailure, HarnessTimeout
from harness.model.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

RELEASE = "4.3.1"
TOPIC = "probe"
ISR_S = 30.0


def _quiet(client: dict[str, Any]) -> dict[str, Any]:
    return {"log_level": 0, **client}


def _release(version: str = RELEASE) -> Release:
    return resolve(version, maven_repo=None, cache=default_cache(), progress=print)


def _start(root: Path, shape: ClusterShape, *, version: str = RELEASE, keep: bool = False) -> ProcessCluster:
    return start_processes(_release(version), shape, root=root, keep=keep, progress=print, cache=default_cache())


def observer(cluster: ProcessCluster) -> AdminView:
    return AdminView({broker: cluster.direct_address(broker) for broker in cluster.brokers})


def create_topic(cluster: ProcessCluster, name: str = TOPIC) -> None:
    """One partition, led by broker 1, replicated to all."""
    with observer(cluster) as admin:
        admin.create_topics([Topic(name=name, assignment=(cluster.brokers,))])


def isr(cluster: ProcessCluster, topic: str = TOPIC) -> tuple[int, set[int]]:
    """Leader and ISR of the topic's only partition; (-1, {}) while nobody answers."""
    with observer(cluster) as admin:
        states = admin.partitions([topic])
    return (states[0].leader, set(states[0].isr)) if states else (-1, set())


def produce(address: str, topic: str = TOPIC, deadline_s: float = 20) -> KafkaError | None:
    """One record with acks=all; the error it ended with."""
    ended: list[KafkaError | None] = []
    settings = {"bootstrap.servers": address, "delivery.timeout.ms": int(deadline_s * 1000), "acks": "all"}
    producer = Producer(_quiet(settings | {"socket.timeout.ms": 1000}))
    producer.produce(topic, b"value", on_delivery=lambda error, _: ended.append(error))
    producer.flush(deadline_s + 5)
    return ended[0] if ended else KafkaError(KafkaError._TIMED_OUT)


def processes_of(directory: Path) -> list[int]:
    """Living processes that name a directory."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(str(directory) in part for part in command):
            found.append(process.pid)
    return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with _start(tmp_path_factory.mktemp("runs"), ClusterShape(controllers=3)) as cluster:
        create_topic(cluster)
        yield cluster
        assert cluster.unexpected_exits() == []


@pytest.fixture
def cluster(shared: ProcessCluster) -> Iterator[ProcessCluster]:
    """Three brokers, three controllers, whole before and after each test."""
    yield shared
    shared.heal()
    for node in (*shared.controllers, *shared.brokers):
        shared.wait_started(node, 60)
    whole = set(shared.brokers)
    wait_for(lambda: isr(shared), until=lambda seen: seen[1] == whole, deadline_s=ISR_S, what="a full ISR")
    assert shared.links.active() == []


def test_clients_get_the_proxies_and_observers_the_brokers(cluster: ProcessCluster) -> None:
    through = AdminClient(_quiet({"bootstrap.servers": cluster.bootstrap()})).list_topics(timeout=10).brokers
    direct = AdminClient(_quiet({"bootstrap.servers": cluster.bootstrap_direct()})).list_topics(timeout=10).brokers
    proxies = {f"{broker.host}:{broker.port}" for broker in through.values()}
    assert proxies == set(cluster.bootstrap().split(","))
    assert {(b.id, b.host, b.port) for b in direct.values()} == {
        (broker, *cluster.direct_address(broker)) for broker in cluster.brokers
    }
    assert produce(cluster.bootstrap()) is None


def test_a_killed_broker_comes_back_on_its_disk(cluster: ProcessCluster) -> None:
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


def test_all_brokers_killed_at_once(cluster: ProcessCluster) -> None:
    cluster.kill(*cluster.brokers)
    assert [cluster.running(broker) for broker in cluster.brokers] == [False] * 3
    cluster.kill(*cluster.brokers)  # nobody is left: nothing happens
    cluster.heal()
    for broker in cluster.brokers:
        cluster.wait_started(broker, 60)
    assert produce(cluster.bootstrap()) is None


def test_termination_is_a_controlled_shutdown(cluster: ProcessCluster) -> None:
    cluster.terminate(3)
    assert not cluster.running(3)
    assert "shut down completed" in cluster.server_log(3).read_text("utf-8")
    assert cluster.unexpected_exits() == []


def test_a_paused_broker_stands_still_until_it_is_resumed(cluster: ProcessCluster) -> None:
    cluster.pause(1)
    assert cluster.paused(1)
    assert cluster.running(1)
    wait_for(lambda: isr(cluster), until=lambda seen: seen[0] in (2, 3), deadline_s=30, what="a new leader")
    with pytest.raises(HarnessTimeout, match="b1 to shut down"):
        cluster.terminate(1, deadline_s=0.3)  # a stopped process cannot handle a signal
    cluster.resume(1)
    assert not cluster.paused(1)
    wait_for(lambda: cluster.running(1), until=lambda up: not up, deadline_s=30, what="the signal to arrive")


def test_the_active_controller_killed(cluster: ProcessCluster) -> None:
    cluster.kill(cluster.controllers[0])
    cluster.kill(cluster.controllers[0])
    create_topic(cluster, "made-by-two-controllers")


@pytest.mark.parametrize("mode", ["silent", "refusing"])
def test_a_cut_follower_leaves_the_isr_and_comes_back(cluster: ProcessCluster, mode: str) -> None:
    leader = isr(cluster)[0]
    follower = next(broker for broker in cluster.brokers if broker != leader)
    cluster.links.cut(f"b{follower}", f"b{leader}", mode)  # type: ignore[arg-type]
    assert cluster.links.active()[0].startswith(f"b{follower} > b{leader} ")
    assert produce(cluster.bootstrap()) is None  # an idle topic never shrinks its ISR
    left = set(cluster.brokers) - {follower}
    wait_for(lambda: isr(cluster), until=lambda seen: seen == (leader, left), deadline_s=15, what="the ISR to shrink")
    cluster.links.heal(f"b{follower}", f"b{leader}")
    assert cluster.links.active() == []


def test_answers_can_be_lost_while_requests_arrive(cluster: ProcessCluster) -> None:
    consumer = Consumer(_quiet({"bootstrap.servers": cluster.bootstrap_direct(), "group.id": "ends"}))
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
    assert after == before + 2  # the second one has arrived, only its answer has not


class _LiveProducer:
    """Keeps its connections, so that a cut has to affect those, too."""

    def __init__(self, address: str, deadline_s: float) -> None:
        settings = {"bootstrap.servers": address, "acks": "all", "enable.idempotence": True}
        self._deadline_s = deadline_s
        self._producer = Producer(_quiet(settings | {"delivery.timeout.ms": int(deadline_s * 1000)}))

    def produce(self) -> KafkaError | None:
        ended: list[KafkaError | None] = []
        self._producer.produce(TOPIC, b"value", on_delivery=lambda error, _: ended.append(error))
        self._producer.flush(self._deadline_s + 5)
        return ended[0]


@pytest.mark.parametrize("mode", ["silent", "refusing"])
def test_a_cut_affects_connections_that_exist(cluster: ProcessCluster, mode: str) -> None:
    producer = _LiveProducer(cluster.bootstrap(), deadline_s=3)
    assert producer.produce() is None
    for broker in cluster.brokers:
        cluster.links.cut("client", f"b{broker}", mode)  # type: ignore[arg-type]
    error = producer.produce()
    assert error is not None
    assert error.code() == KafkaError._MSG_TIMED_OUT
    assert produce(cluster.bootstrap_direct()) is None
    cluster.links.heal_all()
    assert produce(cluster.bootstrap()) is None


def test_a_slow_link_delays_what_it_carries(cluster: ProcessCluster) -> None:
    def seconds() -> float:
        producer = _LiveProducer(cluster.bootstrap(), deadline_s=20)
        assert producer.produce() is None  # connected, and knows the leader
        started = time.monotonic()
        assert producer.produce() is None
        return time.monotonic() - started

    for broker in cluster.brokers:
        cluster.links.slow("client", f"b{broker}", latency_ms=500, jitter_ms=50, direction="answers")
    assert seconds() > 0.4
    cluster.links.heal_all()
    assert seconds() < 0.4


def test_every_replica_serves_its_own_copy(cluster: ProcessCluster) -> None:
    """KIP-392: client.rack names the broker; its statistics say who served."""
    assert produce(cluster.bootstrap()) is None
    for broker in cluster.brokers:
        served: set[int] = set()

        def statistics(text: str, served: set[int] = served) -> None:
            partition = json.loads(text)["topics"].get(TOPIC, {}).get("partitions", {}).get("0", {})
            served.add(partition.get("broker", -1))

        settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_direct(), "group.id": "copies"}
        settings |= {"client.rack": f"r{broker}"}
        consumer = Consumer(_quiet(settings | {"statistics.interval.ms": 100, "stats_cb": statistics}))
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        wait_for(
            lambda consumer=consumer, served=served: (consumer.poll(0.1), set(served))[1],
            until=lambda seen, broker=broker: broker in seen,
            deadline_s=20,
            what=f"a fetch from broker {broker}",
        )
        consumer.close()


def test_a_process_that_dies_unasked_is_noticed(tmp_path: Path) -> None:
    with _start(tmp_path, ClusterShape(brokers=1)) as cluster:
        cluster.kill(101)
        assert cluster.unexpected_exits() == []  # this one was asked for
        psutil.Process(cluster.pid(1)).kill()
        found = wait_for(cluster.unexpected_exits, until=bool, deadline_s=10, what="the end to be noticed")
        assert [(exit_.name, exit_.status) for exit_ in found] == [("b1", "signal SIGKILL")]
        assert found[0].log_tail
        cluster.heal()
        cluster.wait_started(1, 60)
        toxiproxy = next(p for p in map(psutil.Process, processes_of(cluster.directory)) if "toxiproxy" in p.name())
        toxiproxy.kill()
        wait_for(
            lambda: [exit_.name for exit_ in cluster.unexpected_exits()],
            until=lambda names: names == ["b1", "toxiproxy"],
            deadline_s=10,
            what="the end to be noticed",
        )
        with pytest.raises(HarnessFailure, match="toxiproxy at"):
            cluster.links.heal_all()


@pytest.mark.parametrize("version", ["3.8.0", "3.9.1"])
def test_older_releases(version: str, tmp_path: Path) -> None:
    with _start(tmp_path, ClusterShape(controllers=3), version=version) as cluster:
        create_topic(cluster)
        assert produce(cluster.bootstrap()) is None
        cluster.kill(1)
        wait_for(lambda: isr(cluster), until=lambda seen: seen[0] in (2, 3), deadline_s=30, what="a new leader")
        cluster.start(1)
        wait_for(lambda: isr(cluster), until=lambda seen: len(seen[1]) == 3, deadline_s=60, what="a full ISR")
    assert list(tmp_path.iterdir()) == []


def test_two_clusters_at_once_and_features_at_format(tmp_path: Path) -> None:
    shape = ClusterShape(brokers=1, features={"eligible.leader.replicas.version": 0}, config={"num.partitions": "2"})
    with _start(tmp_path, shape) as one, _start(tmp_path, shape) as two:
        assert one.state.slot != two.state.slot
        create_topic(one, "only-here")
        topics = AdminClient(_quiet({"bootstrap.servers": two.bootstrap()})).list_topics(timeout=10).topics
        assert "only-here" not in topics
        one.links.cut("client", "b1", "refusing")
        assert two.links.active() == []
        assert AdminClient(_quiet({"bootstrap.servers": two.bootstrap()})).list_topics(timeout=10).brokers
        one.kill(1)
        assert two.running(1)
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    shape = ClusterShape(brokers=1, config={"log.retention.bytes": "many"})
    with pytest.raises(HarnessFailure, match=r"ended before it had started.*log\.retention\.bytes"):
        _start(tmp_path, shape)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadInput, match=r"no\.such\.feature"):
        _start(tmp_path, ClusterShape(brokers=1, features={"no.such.feature": 1}))


HARNESS = """
import sys, time
from pathlib import Path
from harness import clusters
from harness.kafka.admin import AdminView
from harness.kafka.cache import default_cache
from harness.kafka.release import resolve
from harness.model.scenario import ClusterShape

release = resolve("4.3.1", maven_repo=None, cache=default_cache(), progress=lambda line: None)
cluster = clusters.start(
    release, ClusterShape(brokers=1), root=Path(sys.argv[1]), keep=sys.argv[2] == "keep", progress=lambda line: None
)
try:
    print(cluster.directory, flush=True)
    time.sleep(600)
finally:
    cluster.close()
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[str], Path]]]:
    """Starts a harness with a cluster of its own as another process."""
    started: list[subprocess.Popen[str]] = []

    def start(keep: str) -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", HARNESS, str(tmp_path), keep], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        assert len(processes_of(directory)) >= 4  # supervisor, toxiproxy, broker, controller
        return process, directory

    yield start
    for process in started:
        process.kill()
        process.communicate()
    clusters.clean(root=tmp_path)


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_nothing_outlives_the_harness(
    harness: Callable[[str], tuple[subprocess.Popen[str], Path]], tmp_path: Path, signal_name: str
) -> None:
    process, directory = harness("leave")
    process.send_signal(signal.Signals[signal_name])
    process.wait(30)
    wait_for(lambda: processes_of(directory), until=lambda left: not left, deadline_s=15, what="processes to end")
    wait_for(lambda: list(tmp_path.iterdir()), until=lambda left: not left, deadline_s=15, what="files to go")


def test_nothing_outlives_harness_and_supervisor(
    harness: Callable[[str], tuple[subprocess.Popen[str], Path]], tmp_path: Path
) -> None:
    process, directory = harness("leave")
    (state,) = runs(tmp_path)
    assert state.supervisor is not None
    psutil.Process(state.supervisor.pid).kill()
    wait_for(lambda: processes_of(directory), until=lambda left: len(left) == 0, deadline_s=15, what="JVMs to end")
    process.kill()
    process.wait(10)
    assert [left.what for left in clusters.leftovers(tmp_path)] == ["remains of a run that crashed"]
    assert clusters.sweep(tmp_path) == [f"swept the remains of {state.run}"]
    assert list(tmp_path.iterdir()) == []


def test_a_kept_cluster_stays_until_it_is_cleaned(
    harness: Callable[[str], tuple[subprocess.Popen[str], Path]], tmp_path: Path
) -> None:
    process, directory = harness("keep")
    (state,) = runs(tmp_path)
    with pytest.raises(BadInput, match="is in use by process"):
        clusters.clean(state.run, tmp_path)
    process.kill()
    process.wait(10)
    assert clusters.sweep(tmp_path) == []
    time.sleep(1)  # there is nothing to see: it must NOT end
    assert len(processes_of(directory)) >= 4
    metadata = AdminClient(_quiet({"bootstrap.servers": state.bootstrap})).list_topics(timeout=10)
    assert list(metadata.brokers) == [1]
    assert [left.run for left in clusters.leftovers(tmp_path)] == [state.run]
    assert clusters.clean(state.run, tmp_path) == [f"ended {state.run}"]
    assert processes_of(directory) == []
    assert list(tmp_path.iterdir()) == []
