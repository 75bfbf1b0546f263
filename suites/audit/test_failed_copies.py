"""KAFKA-17062 on a release that has the bug, and on one that has not: the auditor names the deleted records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.client import AdminView
from harness.kafka.storage.local_tier import LOG, ROOT, objects_of
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.auditing import auditing, bootstrap, controllers
from suites.gate.cluster_probes import RELEASE, observer, quiet, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

BAD = "3.8.0"
NAME = "copied"
MIB = 1 << 20
VALUE_BYTES = 10_000
KEPT_MIB = 20
OUTAGE_S = 30.0
SHAPE = ClusterShape(brokers=1, tier="local", config={"remote.log.manager.task.retry.backoff.max.ms": "1000"})
TOPIC = Topic(
    name=NAME,
    partitions=1,
    replicas=1,
    config={
        "remote.storage.enable": "true",
        "segment.bytes": str(MIB),
        "local.retention.bytes": "1",
        "retention.bytes": str(KEPT_MIB * MIB),
        "retention.ms": "-1",
        "min.insync.replicas": "1",
    },
)


def produce(cluster: JvmCluster, mib: int) -> int:
    """Returns the number of records."""
    producer = Producer(quiet({"bootstrap.servers": cluster.bootstrap_direct(), "acks": "all", "linger.ms": 5}))
    count = mib * MIB // VALUE_BYTES
    for _ in range(count):
        producer.produce(NAME, bytes(VALUE_BYTES), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    return count


@contextmanager
def without_a_folder(folder: Path) -> Iterator[None]:
    """No copy succeeds: a file is in the place of the folder, which holds what was copied before."""
    away = folder.with_name("away")
    folder.rename(away)
    folder.write_text("")
    try:
        yield
    finally:
        folder.unlink()
        away.rename(folder)


def start_of(admin: AdminView) -> int:
    (replica,) = admin.tiered_replicas([NAME]).values()
    return replica.log_start


def tiered(cluster: JvmCluster, admin: AdminView, segments: int) -> Path:
    """Waits for so many copies. Returns their folder."""
    assert cluster.tier_store is not None
    store = cluster.tier_store
    wait_for(
        lambda: len([one for one in objects_of(store, [NAME]) if one.kind == LOG]),
        until=lambda seen: seen >= segments,
        deadline_s=60,
        what=f"{segments} copies",
    )
    (folder,) = (store / ROOT).glob(f"{NAME}-*")
    return folder


def played(cluster: JvmCluster, admin: AdminView) -> int:
    """The recipe: 10 MiB in the tier, then 2 MiB more and no copy that succeeds. Returns the number of records."""
    count = produce(cluster, 10)
    folder = tiered(cluster, admin, 8)
    with without_a_folder(folder):
        count += produce(cluster, 2)
        time.sleep(OUTAGE_S)  # each failed copy counts once more
    return count


@pytest.mark.parametrize("version", [BAD, RELEASE])
def test_records_that_failed_copies_delete(version: str, tmp_path: Path, backend: str) -> None:
    with start(tmp_path, SHAPE, backend=backend, version=version) as cluster, observer(cluster) as admin:
        admin.create_topics([TOPIC])
        with auditing(tmp_path, *bootstrap(cluster), *controllers(cluster)) as auditor:
            count = played(cluster, admin)
            if version == BAD:
                wait_for(partial(start_of, admin), until=bool, deadline_s=90, what="records to be deleted")
                auditor.row("opened", rule="log_start_moved", deadline_s=60)
                found = wait_for(
                    lambda: (covered(auditor.status()), start_of(admin)),
                    until=lambda seen: seen[0] == (0, seen[1]),
                    deadline_s=60,
                    what="an alarm about all deleted records",
                    interval_s=1.0,
                )
                print(f"the log of {count} records begins at {found[1]}")
                assert found[1] < count
                return
            tiered(cluster, admin, 11)  # copying goes on
            looks = auditor.status()["vitals"]["looks"]
            wait_for(
                lambda: auditor.status()["vitals"]["looks"],
                until=lambda seen: seen > looks + 20,
                deadline_s=60,
                what="looks after the outage",
                interval_s=1.0,
            )
            assert start_of(admin) == 0
            opened = [row for row in auditor.read() if row["event"] == "opened"]
            assert [row["what"] for row in opened if row["severity"] != "notice"] == []


def covered(status: dict[str, Any]) -> tuple[int, int]:
    """The first and the end offset of the records that alarms about the log start name, without a gap."""
    places = sorted(
        (place["first_offset"], place["end_offset"])
        for alarm in status["alarms"]
        if alarm["rule"] == "log_start_moved" and alarm["severity"] in ("loss", "danger")
        for place in alarm["places"]
    )
    assert all(end == first for (_, end), (first, _) in pairwise(places)), places
    return places[0][0], places[-1][1]
