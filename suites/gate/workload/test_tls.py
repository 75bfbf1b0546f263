"""A secured cluster of real brokers: the clients it accepts and rejects, and the proof that all records use TLS."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509 import load_pem_x509_certificate

from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.admin.client import AdminView
from harness.kafka.settings.tls import Authority
from harness.model.scenario.scenario import ClusterShape, Producer, Reader, Topic
from harness.model.secured import REFUSED, unproven
from harness.model.waiting import wait_for
from harness.run import broker_state
from harness.run.tls_probe import answer_to_plaintext, evidence, look, spoken
from harness.workload.access import Access
from harness.workload.drain.drain import DrainPlan, drain
from suites.gate.playing import Play

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

SHAPE = ClusterShape(secure=True, isolated_client=True)
TOPICS = (Topic(name="plain", partitions=2),)
PRODUCERS = (Producer(name="plain", topics=("plain",)),)
READERS = (
    Reader(name="apart", topics=("plain",), isolated_client=True),
    Reader(name="grouped", topics=("plain",), group="g"),
)


def test_every_listener_for_records_refuses_plaintext_and_a_wrong_password(cluster: Cluster) -> None:
    rows = look(cluster)
    assert [row.broker for row in rows] == [1, 2, 3] * 2
    assert {row.tls for row in rows} <= {"TLSv1.3", "TLSv1.2"}
    assert {row.plaintext for row in rows} == {row.wrong_password for row in rows} == {REFUSED}
    assert all("invalid credentials" in (row.said or ())[1] for row in rows)


def test_observers_have_a_listener_that_is_plain(cluster: Cluster) -> None:
    assert answer_to_plaintext(cluster.direct_address(1))[0] == "answered"
    tls, _ = spoken(cluster.direct_address(1), cluster.client_settings()["ssl.ca.location"])
    assert tls is None


def test_all_records_are_written_and_read_over_tls_also_after_the_death_of_a_broker(
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
        copies=broker_state.copies_of(admin.snapshot("healed", ["plain"], [])),
        run=load.run,  # type: ignore[attr-defined]
        seed=1,
        access=access,
    )
    bundle = BundleWriter(tmp_path / "drained")
    reads = drain(plan, bundle, load.numbers, print)  # type: ignore[attr-defined]
    bundle.close()
    assert [row for row in reads if not row.reached] == []
    drained = [*{row.reader for row in reads}, "producer sentinel"]
    assert unproven(evidence(look(cluster), access.traffic), cluster.brokers, drained) == []
    lived = load._access.traffic  # type: ignore[attr-defined]
    assert (
        unproven(evidence(look(cluster), lived), cluster.brokers, ["producer plain", "reader apart", "reader grouped"])
        == []
    )


def test_the_statistics_of_a_client_on_the_plain_listener_are_no_proof(
    cluster: Cluster, admin: AdminView, play: Play
) -> None:
    """The near miss: the client reads the same records."""
    plain = Access({"security.protocol": "plaintext"})
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": cluster.bootstrap_direct(), "group.id": "x", "statistics.interval.ms": 100}
    consumer = Consumer({**settings, **plain.of("spy"), "auto.offset.reset": "earliest"})
    consumer.subscribe(["plain"])
    try:
        wait_for(
            lambda: (consumer.consume(100, 0.2), plain.traffic.of("spy"))[1],
            until=bool,
            deadline_s=20,
            what="statistics of a client",
        )
    finally:
        consumer.close()
    reported = evidence(look(cluster), plain.traffic)
    assert unproven(reported, cluster.brokers, ["spy"]) == [
        "the statistics of client spy show no sasl_ssl",
        "client spy also used plaintext",
    ]


def test_only_the_owner_can_read_the_tls_files_of_a_cluster(cluster: Cluster) -> None:
    files = [path for path in cluster.directory.rglob("*") if path.parent.name == "tls" and path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert len(files) == 2 + 2 * len(cluster.brokers)
    assert not any("PRIVATE KEY" in path.read_text() for path in files if path.name != "key.pem")
    assert replace(SHAPE, secure=False) != SHAPE  # so that no plaintext scenario shares this cluster


BAD = Topic(name="bad", partitions=1, replicas=1, config={"min.insync.replicas": "1"})


@pytest.fixture
def bad(admin: AdminView) -> Iterator[str]:
    admin.create_topics([BAD])
    yield BAD.name
    admin.delete_topics([BAD.name])


def contract(cluster: Cluster, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from harness.commands.main import main; main()", "contract"]
    command += ["--bootstrap", cluster.bootstrap(), "--json", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def kafkas_own(cluster: Cluster) -> Path:
    """The client.properties that the run provides for Kafka's command-line tools."""
    return cluster.directory / "tls" / "client.properties"


def test_the_contract_command_reads_a_topic_of_a_secured_cluster(cluster: Cluster, bad: str) -> None:
    done = contract(cluster, "--command-config", str(kafkas_own(cluster)), "--topic", bad)
    assert (done.returncode, done.stderr) == (0, "")
    (reported,) = json.loads(done.stdout)
    assert {"power_of_one", "disk_of_one", "leader_dies"} <= set(reported["avoidable"])
    assert reported["settings"]["elr"]  # an ApiVersions request over TLS, without SASL


def test_the_contract_command_accepts_a_trust_store_of_keytool(cluster: Cluster, bad: str, tmp_path: Path) -> None:
    certificate = load_pem_x509_certificate(Path(cluster.client_settings()["ssl.ca.location"]).read_bytes())
    store = tmp_path / "trust.p12"
    trusted = [PKCS12Certificate(certificate, b"ca")]
    store.write_bytes(serialize_java_truststore(trusted, BestAvailableEncryption(b"secret")))
    lines = [line for line in kafkas_own(cluster).read_text().splitlines() if "truststore" not in line]
    lines += [f"ssl.truststore.location={store}", "ssl.truststore.password=secret"]  # without its type, as is common
    path = tmp_path / "client.properties"
    path.write_text("\n".join(lines))
    done = contract(cluster, "--command-config", str(path), "--topic", bad)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)[0]["settings"]["elr"]


def test_a_wrong_password_is_reported_in_one_sentence(cluster: Cluster, bad: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    settings = cluster.client_settings()
    path.write_text(kafkas_own(cluster).read_text().replace(settings["sasl.password"], "wrong"))
    done = contract(cluster, "--command-config", str(path))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "does not let this client in" in done.stderr
    assert "invalid credentials" in done.stderr


def test_a_certificate_that_the_client_does_not_trust_is_reported_in_one_sentence(
    cluster: Cluster, bad: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(Authority().pem)
    path = tmp_path / "client.properties"
    path.write_text(kafkas_own(cluster).read_text().replace(cluster.client_settings()["ssl.ca.location"], str(other)))
    done = contract(cluster, "--command-config", str(path))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "certificate verify failed" in done.stderr
