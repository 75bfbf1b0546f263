"""Starts clusters for tests, and looks at them: topics, ISR, a single record, processes and containers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import KafkaError, Producer

from harness import clusters
from harness.clusters.containers.engine import RUN_LABEL, engine
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.client import AdminView
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import Release, resolve
from harness.kafka.release.tier_needs import equipped
from harness.model.backend import PROCESSES
from harness.model.limits import NO_LIMITS, Limits
from harness.model.scenario.scenario import ClusterShape, Topic

RELEASE = "4.4.0"
RELEASES = (RELEASE, "4.3.1", "3.9.2")  # for tests of what the harness and a release say to each other
WITH_TEST_JARS = "4.3.1"  # 4.4.0 is published without them, and LocalTieredStorage is in them
TOPIC = "probe"


def quiet(client: dict[str, Any]) -> dict[str, Any]:
    return {"log_level": 0, **client}


def start(
    root: Path,
    shape: ClusterShape,
    *,
    backend: str,
    version: str = RELEASE,
    release: Release | None = None,
    limits: Limits = NO_LIMITS,
) -> JvmCluster:
    """A cluster of `release`; without one, of the published `version` with what a tier of the shape needs."""
    cache = default_cache()
    if release is None:
        published = resolve(version, maven_repo=None, cache=cache, progress=print)
        release = equipped(published, [shape], maven_repo=None, cache=cache, progress=print)
    started = clusters.start(release, shape, root=root, backend=backend, progress=print, cache=cache, limits=limits)
    assert isinstance(started, JvmCluster)
    return started


def observer(cluster: JvmCluster) -> AdminView:
    return AdminView({broker: cluster.direct_address(broker) for broker in cluster.brokers})


def create_topic(cluster: JvmCluster, name: str = TOPIC) -> None:
    """A topic of one partition, led by the first broker and replicated to all brokers."""
    with observer(cluster) as admin:
        admin.create_topics([Topic(name=name, assignment=(cluster.brokers,))])


def isr(cluster: JvmCluster, topic: str = TOPIC) -> tuple[int, set[int]]:
    """Leader and ISR of the topic's only partition; (-1, {}) while no broker answers."""
    with observer(cluster) as admin:
        states = admin.partitions([topic])
    return (states[0].leader, set(states[0].isr)) if states else (-1, set())


def produce(address: str, topic: str = TOPIC, deadline_s: float = 20) -> KafkaError | None:
    """Sends one record with acks=all. Returns its error, None on success."""
    ended: list[KafkaError | None] = []
    settings = {"bootstrap.servers": address, "delivery.timeout.ms": int(deadline_s * 1000), "acks": "all"}
    producer = Producer(quiet(settings | {"socket.timeout.ms": 1000}))
    producer.produce(topic, b"value", on_delivery=lambda error, _: ended.append(error))
    producer.flush(deadline_s + 5)
    return ended[0] if ended else KafkaError(KafkaError._TIMED_OUT)


def living(backend: str, directory: Path) -> list[Any]:
    """Everything that a run has apart from files: processes, or containers and networks."""
    if backend == PROCESSES:
        return processes_of(directory)
    client = engine()
    try:
        wanted = {"label": f"{RUN_LABEL}={directory.name}"}
        containers = client.containers.list(all=True, filters=wanted, ignore_removed=True)
        return [found.name for found in (*containers, *client.networks.list(filters=wanted))]
    finally:
        client.close()


def processes_of(directory: Path) -> list[int]:
    """Living processes with the directory in their command."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(str(directory) in part for part in command):
            found.append(process.pid)
    return found
