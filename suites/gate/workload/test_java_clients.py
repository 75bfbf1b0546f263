"""The release's own Java clients in processes of their own: without a broker, and with real brokers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from confluent_kafka import KafkaException

from harness import clusters
from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.release.cache import default_cache
from harness.kafka.release.java_clients import with_java_clients
from harness.kafka.release.release import resolve
from harness.model.scenario.scenario import ClusterShape, Producer, Reader, Scenario, Topic, Transactions
from harness.model.waiting import wait_for
from harness.run import broker_state
from harness.workload.java.java_process import DIED, JavaClients, clients_of
from harness.workload.java.java_producer import JavaProducer
from harness.workload.load import Load
from harness.workload.producers.outcomes import NEVER_SENT
from suites.gate.cluster_probes import RELEASES

pytestmark = pytest.mark.kafka

NOBODY = {"bootstrap.servers": "127.0.0.1:9", "max.block.ms": 300, "client.id": "t"}
TOPICS = (Topic(name="t", partitions=2), Topic(name="x", partitions=2, config={"segment.bytes": "1048576"}))
PRODUCERS = (
    Producer(name="plain", topics=("t",), client="java", rate_per_s=500, keyed=True, headers=True),
    Producer(
        name="txn", topics=("x",), client="java", rate_per_s=500, transactions=Transactions(records=20, offsets_of="o")
    ),
)
READERS = (
    Reader(name="assigned", topics=("t", "x"), client="java"),
    Reader(name="grouped", topics=("t",), client="java", group="g"),
    Reader(name="librdkafka", topics=("t", "x")),
)


@pytest.fixture(scope="module", params=RELEASES)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def java(version: str) -> JavaClients:
    release = resolve(version, maven_repo=None, cache=default_cache(), progress=print)
    release = with_java_clients(release, maven_repo=None, cache=default_cache(), progress=print)
    found = clients_of(release)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def cluster(version: str) -> Iterator[Cluster]:
    release = resolve(version, maven_repo=None, cache=default_cache(), progress=print)
    running = clusters.start(release, ClusterShape(), backend="processes", progress=print)
    yield running
    running.stop()


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_record_without_topic_metadata_was_never_sent(java: JavaClients) -> None:
    reported: list[tuple[str, bytes | None]] = []
    producer = JavaProducer(java, NOBODY, lambda _: None)
    taken = producer.produce_batch(
        "t",
        [{"value": b"v1"}, {"value": b"v2"}],
        partition=0,
        on_delivery=lambda e, m: reported.append((e.name() if e else "", m.value())),
    )
    assert taken == 2
    assert producer.flush(20) == 0
    assert reported == [(f"{NEVER_SENT}TimeoutException", b"v1"), (f"{NEVER_SENT}TimeoutException", b"v2")]
    producer.discard()
    assert gone(producer.pid)


def test_settings_that_exclude_each_other_are_an_error(java: JavaClients) -> None:
    with pytest.raises(KafkaException, match="ConfigException: Must set acks to all"):
        JavaProducer(java, {**NOBODY, "enable.idempotence": True, "acks": "1"}, lambda _: None)


def test_a_client_that_has_died_raises_and_accepts_no_record(java: JavaClients) -> None:
    producer = JavaProducer(java, NOBODY, lambda _: None)
    producer.kill()
    with pytest.raises(KafkaException, match=DIED):
        producer.poll(5)
    message: dict[str, Any] = {"value": b"v"}
    assert producer.produce_batch("t", [message], partition=0, on_delivery=lambda *_: None) == 0
    assert message["_error"].fatal()
    assert gone(producer.pid)


def test_records_of_java_clients_are_acknowledged_committed_and_read(
    java: JavaClients, cluster: Cluster, tmp_path: Path
) -> None:
    scenario = Scenario(name="p", title="", property="", topics=TOPICS, producers=PRODUCERS, readers=READERS)
    bundle = BundleWriter(tmp_path / "bundle")
    with broker_state.observer(cluster) as admin:
        ids = admin.create_topics(TOPICS)
    load = Load(scenario, bootstrap=cluster.bootstrap(), topic_ids=ids, bundle=bundle, run=5, seed=1, java=java)
    load.start()
    try:
        load.wait_flowing(60)
        mark = load.mark()
        wait_for(
            lambda: [
                *load.unserved_since(mark),
                *([] if load.stats()["transactions"]["txn"].get("aborted") else ["-"]),
            ],
            until=lambda lacking: not lacking,
            deadline_s=60,
            what="progress of every client",
        )
    finally:
        load.stop_producers()
        load.stop_readers()
        bundle.close()
    assert load.doubts() == []
    ledger = ds.dataset(bundle.path / "ledger", format="parquet").to_table()
    assert set(ledger.filter(pc.equal(ledger["topic"], "t"))["outcome"].to_pylist()) == {"acked"}
    seen = ds.dataset(bundle.path / "observations", format="parquet").to_table()
    plain = ledger.filter(pc.equal(ledger["topic"], "t"))
    wanted = set(zip(*(plain[c].to_pylist() for c in ("partition", "offset", "stream", "seq")), strict=True))
    for reader in ("assigned", "grouped", "librdkafka"):
        mine = seen.filter(pc.and_(pc.equal(seen["reader"], reader), pc.equal(seen["topic"], "t")))
        assert set(zip(*(mine[c].to_pylist() for c in ("partition", "offset", "stream", "seq")), strict=True)) == wanted
        assert set(mine["intact"].to_pylist()) == {True}
        assert None not in mine["leader_epoch"].to_pylist()
    reserved = [
        json.loads(line) for f in (bundle.path / "reservations").iterdir() for line in f.read_text().splitlines()
    ]
    assert {row["client"] for row in reserved} == {java.name}


HARNESS = """
import sys, time
from pathlib import Path
from harness.workload.java.java_process import JavaClients
from harness.workload.java.java_producer import JavaProducer
java = JavaClients(sys.argv[1], Path(sys.argv[2]), tuple(map(Path, sys.argv[3:])))
producer = JavaProducer(java, {"bootstrap.servers": "127.0.0.1:9"}, lambda _: None)
print(producer.pid, flush=True)
time.sleep(60)
"""


def test_no_java_client_outlives_a_harness_that_is_killed(java: JavaClients) -> None:
    given = [java.version, str(java.executable), *map(str, java.classpath)]
    with subprocess.Popen([sys.executable, "-c", HARNESS, *given], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        assert not gone(pid)
        os.kill(harness.pid, signal.SIGKILL)
    wait_for(lambda: gone(pid), until=bool, deadline_s=10, what="the client to end")
