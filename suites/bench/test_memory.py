"""Ten million records at full speed, with live readers and the drain of every copy, need less than 1 GiB of memory."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.admin.client import AdminView
from harness.model.scenario.scenario import Producer, Reader, Scenario, Topic
from harness.model.waiting import wait_for
from harness.run.broker_state import copies_of
from harness.workload.drain.drain import DrainPlan, drain
from harness.workload.load import Load

pytestmark = pytest.mark.kafka

RECORDS = int(os.environ.get("BENCH_MEMORY_RECORDS", "10000000"))
LIMIT_MIB = 1024
DEADLINE_S = 3600


def test_a_large_run_needs_little_memory(
    cluster: Cluster, admin: AdminView, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = (Topic(name="large", partitions=6), Topic(name="larger", partitions=6))
    names = tuple(topic.name for topic in topics)
    scenario = Scenario(
        name="memory",
        title="",
        property="",
        topics=topics,
        producers=tuple(Producer(name=f"flat-{name}", topics=(name,)) for name in names),
        readers=(Reader(name="live", topics=names), Reader(name="grouped", topics=names, group="readers")),
    )
    bundle = BundleWriter(tmp_path)
    ids = admin.create_topics(topics)
    load = Load(scenario, bootstrap=cluster.bootstrap(), topic_ids=ids, bundle=bundle, run=1, seed=1)
    load.start()
    wait_for(
        lambda: load.stats()["acked"], until=lambda n: n >= RECORDS, deadline_s=DEADLINE_S, what="acks", interval_s=1
    )
    load.stop_producers()
    load.stop_readers()
    copies = copies_of(admin.snapshot("healed", names, []))
    plan = DrainPlan(bootstrap=cluster.bootstrap_direct(), targets=load.targets, copies=copies, run=1, seed=1)
    rows = drain(plan, bundle, load.numbers, print)
    bundle.close()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    with capsys.disabled():
        print(f"\n{load.stats()['acked']} records, {len(rows)} reads: peak {peak_mib} MiB")
    assert load.doubts() == []
    assert [row for row in rows if not row.reached] == []
    assert peak_mib < LIMIT_MIB
