"""TLS of a run: valid certificates, files for their owner only, settings of nodes and clients, and the proof of use."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from harness.clusters.choosing import check_release
from harness.clusters.containers.subnets import Subnets
from harness.clusters.nodes.security import Security
from harness.clusters.processes.addresses import Addresses
from harness.evidence import BundleWriter
from harness.evidence.parsing import parse
from harness.faults.steps.registry import check_steps
from harness.kafka.release.release import Release
from harness.kafka.settings.image_variables import variable_of
from harness.kafka.settings.node_settings import Node, node_properties
from harness.kafka.settings.tls import Authority, Stores
from harness.model.documents.run import Secured
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape, Producer, Reader, Scenario
from harness.model.scenario.toml import from_plain
from harness.model.secured import producer_name, reader_name, unproven
from harness.run import tls_probe
from harness.run.tls_probe import answer_to_plaintext, spoken
from harness.workload.access import Access, bytes_by_protocol
from harness.workload.consumers.live_readers import LiveReader, ReadContext
from harness.workload.meters import Meters
from harness.workload.producers.recording_producer import ProducerContext, RecordingProducer, Target
from harness.workload.producers.streams import Numbers

SECURE = ClusterShape(secure=True)
RELEASE = Release("4.3.1", "", "", ())


def scenario(**more: Any) -> Scenario:
    plain = {"title": "t", "property": "g", "topics": {"a": {}}, "producers": {"p": {"topics": ["a"]}}, **more}
    return from_plain(plain, "s", check_steps)


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> Security:
    made = Security.of(tmp_path_factory.mktemp("run"), SECURE)
    assert made is not None
    return made


@pytest.fixture(scope="module")
def stores(security: Security, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return security.stores(tmp_path_factory.mktemp("b1"), 1, Addresses.of(0, SECURE))


@pytest.fixture
def server(stores: Stores) -> Iterator[tuple[str, int]]:
    """A TLS server with the stores of broker 1, for one connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stores.key)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            try:
                with listening.accept()[0] as plain, context.wrap_socket(plain, server_side=True) as secure:
                    secure.recv(1)
            except OSError:
                pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()
        thread.join(5)


def test_a_client_that_trusts_the_authority_connects_under_each_name(
    security: Security, server: tuple[str, int]
) -> None:
    assert spoken(server, str(security.trusted))[0] == "TLSv1.3"


def test_a_broker_of_another_authority_is_refused(server: tuple[str, int], tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(Authority().pem)
    tls, why = spoken(server, str(other))
    assert tls is None
    assert "certificate verify failed" in why


@pytest.mark.parametrize("name", ["kafka-1", "localhost", "127.16.1.1", "127.16.2.1", "127.0.0.1"])
def test_a_brokers_certificate_is_valid_at_each_of_its_addresses(security: Security, stores: Stores, name: str) -> None:
    assert greeted(security, stores, name) == ""


@pytest.mark.parametrize("name", ["kafka-2", "127.16.2.2"])
def test_a_brokers_certificate_is_invalid_at_other_addresses(security: Security, stores: Stores, name: str) -> None:
    assert "mismatch" in greeted(security, stores, name) or "not valid for" in greeted(security, stores, name)


def greeted(security: Security, stores: Stores, name: str) -> str:
    """Does a TLS handshake in memory and returns the client's error, or an empty text."""
    serving, asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(security.trusted))
    serving.load_cert_chain(stores.key)
    asking.load_cert_chain(
        stores.key
    )  # the same certificate serves as a client's, because brokers connect to each other
    serving.load_verify_locations(stores.trust)
    serving.verify_mode = ssl.CERT_REQUIRED
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(there, here, server_side=True)
    client = asking.wrap_bio(here, there, server_hostname=name)
    try:
        for _ in range(3):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLError as refused:
        return str(refused)
    return ""


def test_for_containers_the_certificate_holds_the_published_addresses(security: Security, tmp_path: Path) -> None:
    plan = Subnets(3, (1,), (101,), published={22001: 40001, 23001: 40002})
    stores = security.stores(tmp_path, 1, plan)
    assert greeted(security, stores, "127.0.0.1") == greeted(security, stores, "198.18.3.11") == ""
    assert security.stores(tmp_path, 1, plan) == stores  # a second call makes no new ones


def test_secret_files_are_readable_for_their_owner_only(security: Security, stores: Stores) -> None:
    files = [security.trusted, security.java, stores.key, stores.trust]
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600] * 4
    assert {path.parent.stat().st_mode & 0o777 for path in files} == {0o700}
    assert security.password not in repr(security) + repr(Access(security.client()))
    assert security.password in security.java.read_text()


def test_a_cluster_without_tls_has_no_keys_and_settings(tmp_path: Path) -> None:
    assert Security.of(tmp_path, ClusterShape()) is None
    assert list(tmp_path.iterdir()) == []
    node = Node(node=101, address="a", advertised=None, controllers=(101,), brokers=1, data=Path("/d"))
    reported = node_properties(RELEASE, node)["listener.security.protocol.map"]
    assert {pair.split(":")[1] for pair in reported.split(",")} == {"PLAINTEXT"}
    assert Access().of("any") == {}


def test_every_setting_can_be_given_to_an_image_as_a_variable(stores: Stores) -> None:
    node = Node(node=1, address="a", advertised=None, controllers=(101,), brokers=1, data=Path("/d"), stores=stores)
    reported = node_properties(RELEASE, node)
    assert (
        reported["listener.security.protocol.map"]
        == "REPL:SSL,CONTROLLER:PLAINTEXT,CLIENT:SASL_SSL,ISOLATED:SASL_SSL,DIRECT:PLAINTEXT"
    )
    assert reported["listener.name.repl.ssl.client.auth"] == "required"
    assert [key for key in reported if "ssl" in key + reported[key].lower() and variable_of(key) is None] == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"shape": {"secure": True, "tier": "local"}}, "secure with a tier"),
        ({"shape": {"secure": True}, "admin": {"ops": {"does": ["topics"]}}}, "the harness's admin client has no TLS"),
        (
            {
                "shape": {"secure": True},
                "readers": {"r": {"topics": ["a"], "group": "g"}},
                "steps": [{"do": "hold_frames", "node": "brokers", "apis": ["OffsetCommit"]}],
            },
            "requests sent by TLS cannot be read on their way",
        ),
    ],
)
def test_settings_that_contradict_a_secure_cluster_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        scenario(**more)
    del more["shape"]["secure"]
    if "tier" not in more["shape"]:
        scenario(**more)


def test_a_release_without_scram_users_is_refused() -> None:
    with pytest.raises(BadInput, match=r"shape: secure: Kafka 3\.4\.0 cannot store SCRAM users .* from 3\.5 on"):
        check_release(Release("3.4.0", "", "", ()), SECURE)
    check_release(Release("3.5.0", "", "", ()), SECURE)


def test_connections_are_counted_by_protocol() -> None:
    brokers = {
        "sasl_ssl://127.0.0.1:1/1": (10, 20, "learned"),
        "sasl_ssl://127.0.0.1:2/2": (1, 2, "learned"),
        "127.0.0.1:3/3": (5, 0, "learned"),
        "127.0.0.1:4/bootstrap": (0, 0, "configured"),
        "GroupCoordinator": (7, 7, "logical"),
    }
    reported = ", ".join(
        f'"{name}": {{"txbytes": {tx}, "rxbytes": {rx}, "source": "{source}"}}'
        for name, (tx, rx, source) in brokers.items()
    )
    statistics = f'{{"brokers": {{{reported}}}}}'
    assert bytes_by_protocol(statistics) == {"sasl_ssl": 33, "plaintext": 5}
    access = Access({"security.protocol": "SASL_SSL"})
    cast(Any, access.of("me")["stats_cb"])(statistics)
    assert access.traffic.seen() == {"me": {"sasl_ssl": 33, "plaintext": 5}}


SAID = "the listener h:1 of broker 1 did not refuse a request without TLS"


def secured(**more: Any) -> dict[str, Any]:
    row = {"broker": 1, "address": "h:1", "tls": "TLSv1.3", "cipher": "c"}
    row |= {"plaintext": "refused", "wrong_password": "refused"} | more
    names = {"protocol": "SASL_SSL", "between_brokers": "SSL"}
    return names | {"listeners": [row], "clients": {"p": {"sasl_ssl": 9}, "r": {"sasl_ssl": 9, "plaintext": 0}}}


@pytest.mark.parametrize(
    ("reported", "said"),
    [
        (secured(), []),
        (None, ["the bundle has no proof that records used TLS"]),
        (secured(broker=2), ["the listener of broker 1 was not checked"]),
        (secured(tls=None, cipher="why"), ["the listener h:1 of broker 1 does not use TLS (why)"]),
        (
            secured(plaintext="answered"),
            [f"{SAID}: answered"],
        ),
        (
            secured(plaintext="unanswered"),
            [f"{SAID}: unanswered"],
        ),
        (
            secured(wrong_password="unanswered"),
            ["the listener h:1 of broker 1 did not refuse a wrong password: unanswered"],
        ),
        (secured() | {"clients": {"p": {"sasl_ssl": 9}}}, ["the statistics of client r show no sasl_ssl"]),
        (
            secured() | {"clients": {"p": {"sasl_ssl": 9}, "r": {"sasl_ssl": 1, "plaintext": 1}}},
            ["client r also used plaintext"],
        ),
    ],
)
def test_the_proof_that_records_were_sent_by_tls(reported: dict[str, Any] | None, said: list[str]) -> None:
    proof = None if reported is None else parse(Path("run.json"), reported, Secured)
    assert unproven(proof, [1], ["p", "r"]) == said


def test_a_listener_that_does_not_answer_is_not_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_probe, "_ANSWER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert answer_to_plaintext(listening.getsockname())[0] == "unanswered"


STATISTICS = '{"brokers": {"sasl_ssl://h:1/1": {"txbytes": 3, "rxbytes": 4, "source": "learned"}}, "topics": {}}'


def test_clients_with_one_name_report_their_connections_separately(tmp_path: Path) -> None:
    """A producer and a reader with the same name are two clients."""
    access = Access({"security.protocol": "SASL_SSL"})
    targets = {"t": Target(topic="t", topic_id="id", partitions=1)}
    bundle = BundleWriter(tmp_path)
    context = ProducerContext(
        bootstrap="127.0.0.1:1",
        targets=targets,
        numbers=Numbers(),
        meters=Meters(),
        run=1,
        seed=1,
        access=access,
        ledger=bundle.table("ledger", "one"),
        reservations=bundle.table("reservations", "one"),
    )
    # Its own setting is plaintext, and its statistics count all the same.
    producer = RecordingProducer(
        Producer(name="one", topics=("t",), config={"security.protocol": "plaintext"}), context
    )
    producer._statistics_of(1)(STATISTICS)
    reading = ReadContext(bootstrap="", targets=targets, run=1, access=access)
    reader = LiveReader(Reader(name="one", topics=("t",)), reading, bundle.table("observations", "one"))
    reader._pulse.take(STATISTICS)
    producer.close(0.1)
    bundle.close()
    assert access.traffic.seen() == {producer_name("one"): {"sasl_ssl": 7}, reader_name("one"): {"sasl_ssl": 7}}
    assert reader._settings()["security.protocol"] == "SASL_SSL"
