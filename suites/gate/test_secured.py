"""A secured cluster of real brokers: who is let in, who is not, and that all records go by TLS."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness import truth
from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.admin import AdminView
from harness.model.scenario import ClusterShape, Producer, Reader, Topic
from harness.model.secured import REFUSED, unproven
from harness.model.waiting import wait_for
from harness.secured_looks import answer_to_plaintext, evidence, look, spoken
from harness.workload.access import Access
from harness.workload.drain import DrainPlan, drain
from suites.gate.playing import Play

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

SHAPE = ClusterShape(secure=True, lone=True)
TOPICS = (Topic(name="plain", partitions=2),)
PRODUCERS = (Producer(name="plain", topics=("plain",)),)
READERS = (Reader(name="apart", topics=("plain",), lone=True), Reader(name="grouped", topics=("plain",), group="g"))


def test_every_listener_for_records_refuses_plaintext_and_a_wrong_password(cluster: Cluster) -> None:
    rows = look(cluster)
    assert [row["broker"] for row in rows] == [1, 2, 3] * 2
    assert {row["tls"] for row in rows} <= {"TLSv1.3", "TLSv1.2"}
    assert {row["plaintext"] for row in rows} == {row["wrong_password"] for row in rows} == {REFUSED}
    assert all("invalid credentials" in row["said"][1] for row in rows)


def test_observers_have_a_listener_that_is_plain(cluster: Cluster) -> None:
    assert answer_to_plaintext(cluster.direct_address(1))[0] == "answered"
    tls, _ = spoken(cluster.direct_address(1), cluster.client_settings()["ssl.ca.location"])
    assert tls is None


def test_records_go_by_tls_there_and_back_over_a_death_of_a_broker(
    cluster: Cluster, admin: AdminView, play: Play, tmp_path: Path
) -> None:
    play(("die", {"do": "kill", "node": "leader(plain/0)", "for_s": 1}))
    load, access = play.stage.load, Access(cluster.client_settings())
    load.stop_producers()  # type: ignore[attr-defined]
    load.stop_readers()  # type: ignore[attr-defined]
    assert load.doubts() == []  # type: ignore[attr-defined]
    plan = DrainPlan(
        bootstrap=cluster.bootstrap(),
        targets=load.targets,  # type: ignore[attr-defined]
        copies=truth.copies_of(admin.snapshot("healed", ["plain"], [])),
        run=load.run,  # type: ignore[attr-defined]
        seed=1,
        access=access,
    )
    bundle = BundleWriter(tmp_path / "drained")
    reads = drain(plan, bundle, load.numbers, print)  # type: ignore[attr-defined]
    bundle.close()
    assert [row for row in reads if not row["reached"]] == []
    drained = [*{row["reader"] for row in reads}, "sentinel"]
    assert unproven(evidence(look(cluster), access.ways), cluster.brokers, drained) == []
    lived = load._access.ways  # type: ignore[attr-defined]
    assert unproven(evidence(look(cluster), lived), cluster.brokers, ["plain", "apart", "grouped"]) == []


def test_a_client_of_the_plain_listener_gives_itself_away(cluster: Cluster, admin: AdminView, play: Play) -> None:
    """The near miss: it reads the same records, and is no proof."""
    plain = Access({"security.protocol": "plaintext"})
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": cluster.bootstrap_direct(), "group.id": "x", "statistics.interval.ms": 100}
    consumer = Consumer({**settings, **plain.of("spy"), "auto.offset.reset": "earliest"})
    consumer.subscribe(["plain"])
    try:
        wait_for(
            lambda: (consumer.consume(100, 0.2), plain.ways.of("spy"))[1],
            until=bool,
            deadline_s=20,
            what="statistics of a client",
        )
    finally:
        consumer.close()
    told = evidence(look(cluster), plain.ways)
    assert unproven(told, cluster.brokers, ["spy"]) == [
        "no statistics of client spy tell of sasl_ssl",
        "client spy went by plaintext, too",
    ]


def test_files_go_with_the_cluster(cluster: Cluster) -> None:
    files = [path for path in cluster.directory.rglob("*") if path.parent.name == "tls" and path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert len(files) == 2 + 2 * len(cluster.brokers)
    assert not any("PRIVATE KEY" in path.read_text() for path in files if path.name != "key.pem")
    assert replace(SHAPE, secure=False) != SHAPE  # so that no plain scenario is given this cluster
