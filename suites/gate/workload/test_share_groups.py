"""Share groups (KIP-932) on real brokers: settings of a group, deliveries to its members, a death, a delivery limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from harness import clusters
from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.release.cache import default_cache
from harness.kafka.release.java_clients import with_java_clients
from harness.kafka.release.release import Release, resolve
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape, Producer, Reader, Scenario, Topic
from harness.model.waiting import wait_for
from harness.run import broker_state, share_groups
from harness.workload.java.java_process import clients_of
from harness.workload.load import Load
from suites.gate.cluster_probes import RELEASE

pytestmark = pytest.mark.kafka

EVERY, LIMIT = 50, 3
MEMBER = Reader(name="one", topics=("t",), client="java", group="jobs", protocol="share")
FAILING = replace(
    MEMBER,
    name="failing",
    group="failing",
    releases_every=EVERY,
    group_config={"share.delivery.count.limit": str(LIMIT), "share.record.lock.duration.ms": "15000"},
)
SCENARIO = Scenario(
    name="p",
    title="",
    property="",
    topics=(Topic(name="t", partitions=2),),
    producers=(Producer(name="plain", topics=("t",), rate_per_s=300),),
    readers=(MEMBER, replace(MEMBER, name="two"), FAILING),
)


@pytest.fixture(scope="module")
def release() -> Release:
    found = resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=print)
    return with_java_clients(found, maven_repo=None, cache=default_cache(), progress=print)


@pytest.fixture(scope="module")
def cluster(release: Release) -> Iterator[Cluster]:
    running = clusters.start(release, ClusterShape(), backend="processes", progress=print)
    yield running
    running.stop()


def test_a_setting_that_brokers_reject_is_bad_input(cluster: Cluster) -> None:
    short = {"share.record.lock.duration.ms": "1"}
    with broker_state.observer(cluster) as admin, pytest.raises(BadInput, match="Kafka refuses"):
        admin.alter_group_config("other", short)


def test_every_record_is_accepted_or_archived_although_a_member_dies(
    release: Release, cluster: Cluster, tmp_path: Path
) -> None:
    bundle = BundleWriter(tmp_path / "bundle")
    with broker_state.observer(cluster) as admin:
        ids = admin.create_topics(SCENARIO.topics)
        share_groups.set_up(admin, SCENARIO)
        java = clients_of(release)
        load = Load(SCENARIO, bootstrap=cluster.bootstrap(), topic_ids=ids, bundle=bundle, run=5, seed=1, java=java)
        load.start()
        try:
            load.wait_flowing(60)
            mark = load.mark()
            wait_for(
                lambda: load.unserved_since(mark), until=lambda lacking: not lacking, deadline_s=60, what="members"
            )
            death = load.crash_member("jobs", 1, frozen=False)
            wait_for(lambda: death.between, until=bool, deadline_s=30, what="a member to die with unanswered records")
            acked = load.highest_acked()
            wait_for(
                lambda: load.behind("jobs", acked), until=lambda lag: not lag, deadline_s=60, what="the other member"
            )
        finally:
            load.stop_producers()
            rows = share_groups.drained(admin, SCENARIO)
            load.stop_readers()
            bundle.close()
    assert load.doubts() == []
    assert [(r.group, r.partition, r.lag) for r in rows] == [
        ("jobs", 0, 0),
        ("jobs", 1, 0),
        ("failing", 0, 0),
        ("failing", 1, 0),
    ]
    sent = {(r["partition"], r["offset"]) for r in _rows(bundle, "ledger")}
    given = _rows(bundle, "deliveries")
    accepted = Counter(
        (r["group"], r["partition"], r["offset"]) for r in given if (r["answer"], r["outcome"]) == ("accept", "acked")
    )
    assert set(accepted.values()) == {1}
    assert {place[1:] for place in accepted if place[0] == "jobs"} == sent
    archived = {place for place in sent if place[1] % EVERY == EVERY - 1}
    assert archived
    assert {place[1:] for place in accepted if place[0] == "failing"} == sent - archived
    times = Counter(
        (r["partition"], r["offset"]) for r in given if r["group"] == "failing" and r["answer"] == "release"
    )
    assert times == dict.fromkeys(archived, LIMIT)
    assert sum(r["answer"] is None for r in given) == sum(end - first for first, end in (death.between or {}).values())


def _rows(bundle: BundleWriter, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ds.dataset(bundle.path / table, format="parquet").to_table().to_pylist()
    return found
