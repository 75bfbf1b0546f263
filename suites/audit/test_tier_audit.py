"""The auditor beside a real remote tier: gaps, objects that disappear, the probe, and a tier that works as it should.

All tests share one cluster with a tier in a folder; each has topics of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.audit.store.segments import DELETED, DELETING, FINISHED
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.client import AdminView
from harness.kafka.storage.local_tier import LOG, TierObject, objects_of, read_object
from harness.kafka.storage.remote_log_metadata import SEGMENT_STATES, decode
from harness.model.contract.internal_topics import TIER_METADATA
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.auditing import AuditorProcess, auditing, bootstrap, controllers
from suites.gate.cluster_probes import observer, quiet, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

VALUE_BYTES = 10_000
SEGMENT_RECORDS = 104  # about 1 MiB
SETTINGS = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.bytes": "1"}
CALM_S = 120.0  # without an alarm, while everything happens that a tier may do
RULES_OF_LOSS = {"tier_gap", "tier_object_missing", "tier_order", "log_start_moved", "high_watermark_back", "probe"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    with start(tmp_path_factory.mktemp("runs"), ClusterShape(tier="local"), backend=backend) as started:
        yield started


@pytest.fixture(scope="module")
def admin(cluster: JvmCluster) -> Iterator[AdminView]:
    with observer(cluster) as view:
        yield view


def store(cluster: JvmCluster) -> Path:
    assert cluster.tier_store is not None
    return cluster.tier_store


@pytest.fixture
def auditor(cluster: JvmCluster, tmp_path: Path) -> Iterator[AuditorProcess]:
    options = (*bootstrap(cluster), *controllers(cluster), "--tier-dir", str(store(cluster)))
    with auditing(tmp_path, *options) as started:
        yield started


def produce(cluster: JvmCluster, topic: str, count: int) -> None:
    producer = Producer(quiet({"bootstrap.servers": cluster.bootstrap_direct(), "acks": "all", "linger.ms": 5}))
    for _ in range(count):
        producer.produce(topic, bytes(VALUE_BYTES), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def create(admin: AdminView, name: str, **changed: str) -> None:
    config = {**SETTINGS, **{key.replace("_", "."): value for key, value in changed.items()}}
    admin.create_topics([Topic(name=name, assignment=((1, 2, 3),), config=config)])


def tiered(cluster: JvmCluster, admin: AdminView, topic: str, segments: int) -> list[TierObject]:
    """The logs of a topic in the tier, as soon as they are so many and no broker has them on its own disk."""

    def seen() -> tuple[int, int]:
        starts = [replica.local_log_start for replica in admin.tiered_replicas([topic]).values()]
        return len(logs(cluster, topic)), min(starts, default=0)

    wait_for(
        seen,
        until=lambda now: now[0] >= segments and now[1] >= segments * SEGMENT_RECORDS // 2,
        deadline_s=90,
        what=f"{segments} segments of {topic} in the tier alone",
        interval_s=1.0,
    )
    return logs(cluster, topic)


def logs(cluster: JvmCluster, topic: str) -> list[TierObject]:
    return [one for one in objects_of(store(cluster), [topic]) if one.kind == LOG]


def bounds(of: TierObject) -> tuple[int, int]:
    content = read_object(of)
    assert content is not None
    return of.base_offset, (content.last_offset or 0) + 1


def covering(auditor: AuditorProcess, *sources: str) -> None:
    wait_for(
        lambda: {*auditor.status()["vitals"]["covered_now"]},
        until=lambda covered: {*sources} <= covered,
        deadline_s=60,
        what=f"{sources} to be covered",
        interval_s=1.0,
    )


def ranges(row: dict[str, object]) -> list[tuple[str, int, int, int]]:
    places = row["places"]
    assert isinstance(places, list)
    return [(p["topic"], p["partition"], p["first_offset"], p["end_offset"]) for p in places]


# Objects


def test_an_object_that_someone_deleted_is_a_loss_and_ends_when_it_is_back(
    cluster: JvmCluster, admin: AdminView, auditor: AuditorProcess
) -> None:
    create(admin, "objects")
    produce(cluster, "objects", 4 * SEGMENT_RECORDS + 10)
    _, second, *_ = tiered(cluster, admin, "objects", 3)
    covering(auditor, "tier", "objects")
    lost, kept = bounds(second), second.path.read_bytes()
    second.path.unlink()
    row = auditor.row("opened", deadline_s=60, rule="tier_object_missing")
    assert (ranges(row), row["severity"]) == ([("objects", 0, *lost)], "loss")
    assert "no broker has all of them on its disk" in row["what"]
    second.path.write_bytes(kept)
    auditor.row("ended", deadline_s=60, rule="tier_object_missing")
    assert auditor.events("tier_gap") == []


# Gaps


def test_records_that_neither_the_tier_nor_a_broker_has_any_more(
    cluster: JvmCluster, admin: AdminView, auditor: AuditorProcess
) -> None:
    """A client with a write permission on the metadata of the tier marks a segment as deleted."""
    create(admin, "holed")
    produce(cluster, "holed", 4 * SEGMENT_RECORDS + 10)
    _, second, *_ = tiered(cluster, admin, "holed", 3)
    gap = bounds(second)
    covering(auditor, "tier", "offsets")
    forge_deletion(cluster, second.segment_id)
    second.path.unlink()
    row = auditor.row("opened", deadline_s=60, rule="tier_gap")
    assert (ranges(row), row["severity"]) == ([("holed", 0, *gap)], "loss")
    served = admin.fetch("holed", 0, gap[0], 1000)
    assert served is None or served.error is not None or not served.records  # the records are really gone


def forge_deletion(cluster: JvmCluster, segment_id: str) -> None:
    """Writes the two records of a deletion, which are the record of the finished copy with another state."""
    client = {"bootstrap.servers": cluster.bootstrap_direct(), "group.id": "unused", "log_level": 0}
    consumer = Consumer({**client, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    partitions = consumer.list_topics(TIER_METADATA, timeout=20).topics[TIER_METADATA].partitions
    consumer.assign([TopicPartition(TIER_METADATA, partition, 0) for partition in partitions])
    give_up_s = time.monotonic() + 60
    finished: tuple[int, bytes] | None = None
    while finished is None and time.monotonic() < give_up_s:
        message = consumer.poll(1.0)
        if message is None or message.error() or (value := message.value()) is None:
            continue
        if (record := decode(value)).segment_id == segment_id and record.state == FINISHED:
            finished = message.partition() or 0, value
    consumer.close()
    assert finished is not None
    partition, value = finished
    producer = Producer(quiet({"bootstrap.servers": cluster.bootstrap_direct(), "acks": "all"}))
    for state in (DELETING, DELETED):
        forged = value[:-2] + bytes([SEGMENT_STATES.index(state)]) + value[-1:]
        assert decode(forged).state == state
        producer.produce(TIER_METADATA, forged, partition=partition)
        assert producer.flush(20) == 0


# The probe


def test_the_probe_reads_from_leaders_followers_and_the_tier_and_names_what_the_tier_lost(
    cluster: JvmCluster, admin: AdminView, tmp_path: Path
) -> None:
    options = (*bootstrap(cluster), *controllers(cluster), "--probe", "probed")
    with auditing(tmp_path, *options) as auditor:
        admin.alter_topic_config("probed", {"segment.ms": "3000", "local.retention.ms": "1000"})
        wanted = {"read again from leader", "read again from follower", "read new from leader", "read again from tier"}
        wait_for(
            lambda: {what for what, count in auditor.status()["vitals"]["probe"].items() if count > 0},
            until=lambda seen: wanted <= seen,
            deadline_s=150,
            what="records read from leaders, followers and the tier",
            interval_s=2.0,
        )
        assert auditor.events("probe") == []
        segments = [one for one in logs(cluster, "probed") if one.partition == 0]
        first, *_ = (one for one in segments if one.base_offset > 0)
        lost = bounds(first)
        first.path.unlink()
        row = auditor.row("opened", deadline_s=240, rule="probe")
        assert (ranges(row), row["severity"]) == ([("probed", 0, *lost)], "loss")
        assert row["what"].startswith("The remote tier, by way of leader")
    admin.delete_topics(["probed"])


# A tier that works


def test_retention_deletions_and_elections_of_a_correct_tier_are_silent(
    cluster: JvmCluster, admin: AdminView, tmp_path: Path
) -> None:
    create(admin, "retained", retention_bytes=str(5 << 20))
    create(admin, "skipping")
    create(admin, "doomed")
    options = ("--tier-dir", str(store(cluster)), "--logs", str(cluster.server_log(1).parents[1]))
    with auditing(tmp_path, *bootstrap(cluster), *controllers(cluster), *options) as auditor:
        end_s, turn = time.monotonic() + CALM_S, 0
        while time.monotonic() < end_s or turn < 4:
            for name in ("retained", "skipping", *(["doomed"] if turn < 2 else [])):
                produce(cluster, name, 2 * SEGMENT_RECORDS)
            played(turn, cluster, admin)
            turn += 1
        moved = wait_for(partial(log_start, admin, "retained"), until=bool, deadline_s=60, what="retention in the tier")
        covering(auditor, "tier", "objects", "offsets", "replicas", "logs")
        print(f"{turn} turns; the log of retained begins at {moved}; {auditor.status()['vitals']['looks']} looks")
        alarms = [row for row in auditor.read() if row["event"] == "opened" and row["severity"] != "notice"]
    serious = [row["what"] for row in alarms if row["rule"] in RULES_OF_LOSS]
    assert serious == []
    assert {row["rule"] for row in alarms} <= {"topic_deleted"}


def played(turn: int, cluster: JvmCluster, admin: AdminView) -> None:
    """One of the usual events in the life of a tier."""
    match turn:
        case 0:  # the next copy begins above records that were never copied
            end = admin.high_watermark(["skipping"])["skipping", 0]
            admin.delete_records({("skipping", 0): end - 20})
        case 1:
            wait_for(lambda: logs(cluster, "doomed"), until=bool, deadline_s=60, what="copies of doomed")
            admin.delete_topics(["doomed"])
        case 2:
            leader = admin.partitions(["retained"])[0].leader
            cluster.kill(leader)
            wait_for(
                lambda: admin.partitions(["retained"])[0].leader,
                until=lambda now: now not in (leader, -1),
                deadline_s=60,
                what="another leader",
            )
            cluster.start(leader)
            cluster.wait_started(leader, 90)
        case 3:
            wait_for(
                lambda: [len(state.isr) for state in admin.partitions(["retained", "skipping"])],
                until=lambda sizes: sizes == [3, 3],
                deadline_s=90,
                what="all replicas in the ISR",
            )
            admin.elect_leaders("preferred", [("retained", 0), ("skipping", 0)])


def log_start(admin: AdminView, name: str) -> int:
    return max(replica.log_start for replica in admin.tiered_replicas([name]).values())
