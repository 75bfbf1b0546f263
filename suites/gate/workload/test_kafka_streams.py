"""An application of the release's own Kafka Streams on real brokers: it copies records, is killed, and continues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from harness import clusters
from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.release.cache import default_cache
from harness.kafka.release.kafka_streams import with_kafka_streams
from harness.kafka.release.release import resolve
from harness.model.scenario.scenario import (
    ClusterShape,
    Moment,
    Processing,
    Producer,
    Reader,
    Scenario,
    Topic,
    Transactions,
)
from harness.model.waiting import wait_for
from harness.run import broker_state
from harness.workload.consumers.processing import ProcessorDeath
from harness.workload.java.java_process import JavaClients, clients_of
from harness.workload.load import Load
from suites.gate.cluster_probes import RELEASES

pytestmark = pytest.mark.kafka

Made = dict[str, Any]


@pytest.fixture(scope="module", params=RELEASES)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def java(version: str) -> JavaClients:
    release = resolve(version, maven_repo=None, cache=default_cache(), progress=print)
    found = clients_of(with_kafka_streams(release, maven_repo=None, cache=default_cache(), progress=print))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def cluster(version: str) -> Iterator[Cluster]:
    release = resolve(version, maven_repo=None, cache=default_cache(), progress=print)
    running = clusters.start(release, ClusterShape(), backend="processes", progress=print)
    yield running
    running.stop()


def played(java: JavaClients, cluster: Cluster, folder: Path, commits: str, moments: tuple[Moment, ...]) -> Made:
    """Copies `given` to `made`, with a kill at each of these moments, until every record is copied."""
    topics = tuple(Topic(name=f"{name}_{commits}", partitions=2) for name in ("given", "made"))
    given, made = (topic.name for topic in topics)
    copier = Producer(
        name="copier",
        topics=(made,),
        client="streams",
        when="input",
        processes=Processing(reads=(given,), group=f"copies_{commits}", commits=commits),
        transactions=Transactions(abort_share=0) if commits == "transaction" else None,
    )
    producers = (Producer(name="steady", topics=(given,), when="steps"), copier)
    readers = (Reader(name="reader", topics=(made,)),)
    scenario = Scenario(name="p", title="", property="", topics=topics, producers=producers, readers=readers)
    bundle = BundleWriter(folder)
    with broker_state.observer(cluster) as admin:
        ids = admin.create_topics(topics)
    load = Load(scenario, bootstrap=cluster.bootstrap(), topic_ids=ids, bundle=bundle, run=5, seed=1, java=java)
    load.start()
    deaths: list[ProcessorDeath] = []
    try:
        _some(load, given)
        for moment in moments:
            _caught_up(load, f"copies_{commits}")
            deaths.append(load.crash_processor(f"copies_{commits}", moment, 40, zombie=False))
            _some(load, given)
            wait_for(lambda: deaths[-1].between, until=bool, deadline_s=30, what=f"a death at {moment}")
        _caught_up(load, f"copies_{commits}")
    finally:
        load.stop_producers()
        wait_for(
            lambda: load.stats()["read"]["reader"], until=bool, deadline_s=30, what="a first record for the reader"
        )
        load.stop_readers()
        bundle.close()
    assert load.doubts() == []
    assert load.stats()["incarnations"]["copier"] == 1 + len(moments)
    return {"deaths": deaths, **{name: _table(bundle, name) for name in ("ledger", "processed", "observations")}}


def _some(load: Load, topic: str) -> None:
    for partition in range(2):
        assert load.burst("steady", topic, partition, 20, 30).acked == 20


def _caught_up(load: Load, group: str) -> None:
    wait_for(
        lambda: load.behind(group, load.highest_acked()),
        until=lambda lag: not lag,
        deadline_s=60,
        what="the copy to be complete",
    )


def _table(bundle: BundleWriter, name: str) -> Any:
    return ds.dataset(bundle.path / name, format="parquet").to_table()


def _made_of(seen: Made) -> Counter[tuple[int, int]]:
    """How many times a reader got the output of each input record, by the partition and offset of the input."""
    columns = [seen["processed"][c].to_pylist() for c in ("stream", "seq", "partition", "offset")]
    of = {(stream, seq): (partition, offset) for stream, seq, partition, offset in zip(*columns, strict=True)}
    read = zip(*(seen["observations"][c].to_pylist() for c in ("stream", "seq", "intact")), strict=True)
    return Counter(of[stream, seq] for stream, seq, intact in read if intact)


def _wanted(seen: Made, topic: str) -> set[tuple[int, int]]:
    ledger = seen["ledger"]
    mine = ledger.filter(pc.and_(pc.equal(ledger["topic"], topic), pc.equal(ledger["outcome"], "acked")))
    return set(zip(mine["partition"].to_pylist(), mine["offset"].to_pylist(), strict=True))


def test_with_exactly_once_each_record_is_copied_once_whenever_the_application_is_killed(
    java: JavaClients, cluster: Cluster, tmp_path: Path
) -> None:
    seen = played(java, cluster, tmp_path / "bundle", "transaction", ("produced", "offsets", "commit"))
    assert [sum(end - first for first, end in d.between.values()) for d in seen["deaths"]] == [40] * 3
    assert _made_of(seen) == Counter(_wanted(seen, "given_transaction"))


def test_with_at_least_once_uncommitted_records_are_copied_twice(
    java: JavaClients, cluster: Cluster, tmp_path: Path
) -> None:
    seen = played(java, cluster, tmp_path / "bundle", "after", ("produced",))
    (death,) = seen["deaths"]
    twice = {(p, offset) for (_, p), (first, end) in death.between.items() for offset in range(first, end)}
    made = _made_of(seen)
    assert set(made) == _wanted(seen, "given_after")
    assert {of for of, count in made.items() if count == 2} == twice
    assert max(made.values()) == 2
