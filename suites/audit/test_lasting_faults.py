"""Faults that last on real brokers: a stuck replica, a hanging transaction, and offsets that a tool reset.

All tests share one cluster and one auditor; each has topics of its own. The transaction hangs from the start on.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.client import AdminView
from harness.kafka.release.java import find_java
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.auditing import AuditorProcess, auditing, bootstrap, controllers
from suites.gate.cluster_probes import observer, quiet, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SHAPE = ClusterShape(
    config={
        # One fetch of the follower takes more than one of the smaller segments (KAFKA-17375).
        "replica.fetch.max.bytes": "8388608",
        "replica.fetch.response.max.bytes": "16777216",
        # The coordinator never looks for transactions that are older than their timeout.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
        "transaction.max.timeout.ms": "10000",
    }
)
RULES = "[replica_stuck]\nstuck_s = 15\n[hanging_transaction]\nslack_s = 15\n[stable_offset_stands]\nslack_s = 15\n"
GROUP = "readers"
PAID, READ = "paid", "read"
MIB = 1 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    with start(tmp_path_factory.mktemp("runs"), SHAPE, backend=backend) as started:
        yield started


@pytest.fixture(scope="module")
def admin(cluster: JvmCluster) -> Iterator[AdminView]:
    with observer(cluster) as view:
        yield view


@pytest.fixture(scope="module", autouse=True)
def hanging(cluster: JvmCluster, admin: AdminView) -> Producer:
    """The client of a transaction that never ends, with 3 records."""
    admin.create_topics([Topic(name=PAID, partitions=1)])
    settings = {"transactional.id": "pays", "transaction.timeout.ms": 10_000}
    producer = Producer(quiet({"bootstrap.servers": cluster.bootstrap_direct(), **settings}))
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(PAID, b"open", partition=0)
    assert producer.flush(60) == 0
    return producer


@pytest.fixture(scope="module")
def auditor(
    cluster: JvmCluster, hanging: Producer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AuditorProcess]:
    folder = tmp_path_factory.mktemp("audit")
    rules = folder / "rules.toml"
    rules.write_text(RULES)
    options = (*bootstrap(cluster), *controllers(cluster), "--groups", GROUP, "--rules", str(rules))
    with auditing(folder, *options) as started:
        yield started


def produce(cluster: JvmCluster, topic: str, count: int, value_bytes: int = 1000) -> None:
    producer = Producer(quiet({"bootstrap.servers": cluster.bootstrap_direct(), "acks": "all", "linger.ms": 5}))
    for _ in range(count):
        producer.produce(topic, bytes(value_bytes), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def isr(admin: AdminView, name: str, wanted: set[int]) -> None:
    wait_for(
        lambda: [set(state.isr) for state in admin.partitions([name])],
        until=lambda seen: seen == [wanted],
        deadline_s=60,
        what=f"the ISR {wanted} of {name}",
    )


def ranges(row: dict[str, object]) -> list[tuple[str, int, int, int]]:
    places = row["places"]
    assert isinstance(places, list)
    return [(p["topic"], p["partition"], p["first_offset"], p["end_offset"]) for p in places]


def test_a_replica_that_gave_up_is_named_and_one_that_catches_up_is_not(
    cluster: JvmCluster, admin: AdminView, auditor: AuditorProcess
) -> None:
    shrunk = Topic(name="shrunk", assignment=((1, 2, 3),), config={"segment.bytes": str(16 * MIB)})
    other = Topic(name="other", assignment=((1, 2, 3),), config={"segment.bytes": str(16 * MIB)})
    admin.create_topics([shrunk, other])
    produce(cluster, "shrunk", 100)
    cluster.kill(3)
    for name in ("shrunk", "other"):
        isr(admin, name, {1, 2})
    produce(cluster, "shrunk", 14_000)
    produce(cluster, "other", 14_000)
    admin.alter_topic_config("shrunk", {"segment.bytes": str(MIB)})
    cluster.start(3)
    cluster.wait_started(3, 90)
    isr(admin, "other", {1, 2, 3})
    row = auditor.row("opened", deadline_s=120, rule="replica_stuck")
    stopped = admin.replica_offsets(["shrunk"])["shrunk", 0, 3][1]
    assert ranges(row) == [("shrunk", 0, stopped, 14_100)]
    assert row["what"].startswith("Broker 3 is up, but its replica of shrunk/0 has not returned to the ISR")
    assert auditor.events("replica_stuck") == ["opened"]
    admin.delete_topics(["shrunk"])
    auditor.row("ended", deadline_s=60, rule="replica_stuck")


def test_offsets_that_the_tool_reset_or_deleted(cluster: JvmCluster, admin: AdminView, auditor: AuditorProcess) -> None:
    admin.create_topics([Topic(name=READ, partitions=1)])
    produce(cluster, READ, 1000, 10)
    wait_for(lambda: committed(cluster, 700), until=bool, deadline_s=60, what="the coordinator to take a commit")
    wait_for(
        lambda: auditor.status()["vitals"],
        until=lambda vitals: "groups" in vitals["covered_now"] and vitals["round_ended_ns"] is not None,
        deadline_s=30,
        what="looks at the group",
        interval_s=6.0,  # two looks at groups
    )
    reset(cluster, "--reset-offsets", "--to-offset", "200", "--execute")
    row = auditor.row("opened", deadline_s=60, rule="commit_back")
    assert (ranges(row), row["cause"]) == ([(READ, 0, 200, 700)], f"group {GROUP}")
    reset(cluster, "--reset-offsets", "--to-offset", "700", "--execute")
    auditor.row("ended", deadline_s=60, rule="commit_back")
    reset(cluster, "--delete-offsets")
    row = auditor.row("opened", deadline_s=60, rule="commit_removed")
    assert (row["places"][0]["topic"], row["severity"]) == (READ, "danger")


def committed(cluster: JvmCluster, offset: int) -> bool:
    """Commits once; whether it was accepted. A coordinator loads the new topic of offsets first."""
    client = quiet({"bootstrap.servers": cluster.bootstrap_direct(), "group.id": GROUP, "enable.auto.commit": False})
    consumer = Consumer(client)
    try:
        consumer.commit(offsets=[TopicPartition(READ, 0, offset)], asynchronous=False)
    except KafkaException:
        return False
    finally:
        consumer.close()
    return True


def reset(cluster: JvmCluster, *options: str) -> None:
    """Kafka's own kafka-consumer-groups."""
    java = find_java(cluster.release.version).executable
    classes = ":".join(map(str, cluster.release.classpath))
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    about = ("--bootstrap-server", cluster.bootstrap_direct(), "--group", GROUP, "--topic", READ)
    command = [str(java), "-XX:TieredStopAtLevel=1", "-cp", classes, tool, *about, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_transaction_that_nobody_ends(cluster: JvmCluster, admin: AdminView, auditor: AuditorProcess) -> None:
    produce(cluster, PAID, 5)  # the high watermark moves, and the last stable offset does not
    assert admin.last_stable_offset([PAID])[PAID, 0] == 0
    row = auditor.row("opened", deadline_s=150, rule="hanging_transaction")
    assert (row["cause"], row["places"][0]["topic"]) == ("transactional.id pays", PAID)
    assert "state Ongoing" in row["what"]
    stands = auditor.row("opened", deadline_s=90, rule="stable_offset_stands")
    assert ranges(stands) == [(PAID, 0, 0, admin.high_watermark([PAID])[PAID, 0])]
