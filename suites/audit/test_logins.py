"""TLS, logins and permissions of the auditor's own connections, against real brokers and controllers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from harness.audit.feeds.controller_feed import ControllerFeed
from harness.audit.feeds.feed import FeedSilent
from harness.audit.feeds.states import partition_states, quorum_seen
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.client_config import client_config
from harness.kafka.admin.link import Address, Link
from harness.kafka.admin.security import PLAINTEXT, security_of
from harness.kafka.admin.wire import Refused, Unanswered, versions_call
from harness.kafka.settings.node_settings import REPLICATION_PORT, properties_text
from harness.kafka.settings.tls import java_settings
from harness.model.scenario.scenario import ClusterShape
from harness.model.waiting import wait_for
from suites.audit.following import addresses
from suites.gate.cluster_probes import TOPIC, create_topic, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

USER, PASSWORD, ADMIN = "auditor", "a-word", "admin"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
# Controllers demand a login, and everyone else may do everything without one.
CONTROLLER_LOGINS = {
    "listener.security.protocol.map": "REPL:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,CLIENT:PLAINTEXT,ISOLATED:PLAINTEXT,"
    "DIRECT:PLAINTEXT",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} required username="{ADMIN}" password="{PASSWORD}" '
    f'user_{ADMIN}="{PASSWORD}" user_{USER}="{PASSWORD}";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN};User:ANONYMOUS",
}
ASK_S = 10.0


def security_in(file: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a client as a user writes them, read back."""
    file.write_text(properties_text(dict(settings)))
    return client_config(file)


# TLS and SCRAM


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    with start(tmp_path_factory.mktemp("runs"), ClusterShape(brokers=1, secure=True), backend=backend) as started:
        create_topic(started)
        yield started


@pytest.fixture
def settings(secured: JvmCluster, tmp_path: Path) -> dict[str, str]:
    client = secured.client_settings()
    java = java_settings(Path(client["ssl.ca.location"]), client["sasl.password"])
    return security_in(tmp_path / "client.properties", java)


def client_address(cluster: JvmCluster) -> Address:
    host, _, port = cluster.bootstrap().split(",")[0].rpartition(":")
    return host, int(port)


def asked(address: Address, settings: Mapping[str, str]) -> None:
    link = Link(address, security_of(settings))
    try:
        link.ask(versions_call(), ASK_S)
    finally:
        link.close()


def test_a_client_with_tls_and_a_password_reads_the_cluster(secured: JvmCluster, settings: dict[str, str]) -> None:
    brokers = Brokers([client_address(secured)], security_of(settings))
    seen = brokers.refresh(ASK_S)
    assert tuple(seen.brokers) == secured.brokers
    rows = list(partition_states(brokers, secured.brokers[0], [TOPIC], ASK_S))
    assert [(row.topic, row.partition, row.leader) for row in rows] == [(TOPIC, 0, secured.brokers[0])]
    assert quorum_seen(brokers, ASK_S).leader in secured.controllers
    brokers.close()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sasl.password": "wrong"}, r"refuses the login of durability by SCRAM-SHA-512: Authentication failed"),
        ({"sasl.username": "stranger"}, r"refuses the login of stranger by SCRAM-SHA-512: Authentication failed"),
        ({"sasl.mechanism": "PLAIN"}, r"by PLAIN: UNSUPPORTED_SASL_MECHANISM; it knows SCRAM-SHA-512"),
        ({"security.protocol": "SASL_PLAINTEXT"}, r"the listener expects TLS"),
        ({"security.protocol": "PLAINTEXT"}, r"the listener expects TLS"),
    ],
)
def test_a_refusal_is_one_sentence(
    secured: JvmCluster, settings: dict[str, str], change: dict[str, str], sentence: str
) -> None:
    with pytest.raises(Unanswered, match=sentence):
        asked(client_address(secured), settings | change)


def test_a_client_without_a_login_is_told_so(secured: JvmCluster, settings: dict[str, str]) -> None:
    brokers = Brokers([client_address(secured)], security_of(settings | {"security.protocol": "SSL"}))
    with pytest.raises(Unanswered, match="as a listener with SASL does without a login"):
        brokers.refresh(ASK_S)
    brokers.close()


def test_a_broker_of_another_authority_is_not_trusted(secured: JvmCluster, settings: dict[str, str]) -> None:
    with pytest.raises(Refused, match="its certificate cannot be trusted"):
        asked(client_address(secured), {k: v for k, v in settings.items() if k != "ssl.ca.location"})


def test_a_broker_that_requires_a_certificate_gets_one(secured: JvmCluster, settings: dict[str, str]) -> None:
    host, _ = secured.direct_address(secured.brokers[0])
    trusted = {"security.protocol": "SSL", "ssl.ca.location": settings["ssl.ca.location"]}
    with pytest.raises(Unanswered):
        asked((host, REPLICATION_PORT), trusted)
    store = next(Path(settings["ssl.ca.location"]).parents[1].rglob("key.pem"))
    asked((host, REPLICATION_PORT), trusted | {"ssl.certificate.location": str(store)})


def test_a_plaintext_listener_does_not_speak_tls(secured: JvmCluster, settings: dict[str, str]) -> None:
    with pytest.raises(Unanswered):
        asked(secured.direct_address(secured.brokers[0]), settings)


# Logins at controllers


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    shape = ClusterShape(brokers=1, config=CONTROLLER_LOGINS)
    with start(tmp_path_factory.mktemp("runs"), shape, backend=backend) as started:
        yield started


def login(tmp_path: Path, password: str = PASSWORD) -> dict[str, str]:
    return security_in(
        tmp_path / "client.properties",
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username="{USER}" password="{password}";',
        },
    )


def test_the_metadata_log_needs_a_login_and_cluster_action(guarded: JvmCluster, tmp_path: Path) -> None:
    at = addresses(guarded, guarded.controllers)
    for settings, sentence in (
        ({}, "as a listener with SASL does without a login"),
        (login(tmp_path, "wrong"), f"refuses the login of {USER} by PLAIN: Authentication failed"),
        (login(tmp_path), "CLUSTER_AUTHORIZATION_FAILED: this client needs CLUSTER_ACTION on the cluster"),
    ):
        feed = ControllerFeed(at, security_of(settings) if settings else PLAINTEXT)
        with pytest.raises(FeedSilent, match=sentence):
            feed.poll(ASK_S)
        feed.close()
    allow(guarded)
    feed = ControllerFeed(at, security_of(login(tmp_path)))
    portion = wait_for(lambda: polled(feed), until=lambda p: p is not None, deadline_s=20, what="the ACL to be known")
    assert portion is not None
    feed.close()


def polled(feed: ControllerFeed) -> object:
    try:
        return feed.poll(1.0)
    except FeedSilent:
        return None


def allow(cluster: JvmCluster) -> None:
    """Gives CLUSTER_ACTION on the cluster to the user of the test."""
    host, port = cluster.direct_address(cluster.brokers[0])
    acl = AclBinding(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation.CLUSTER_ACTION,
        AclPermissionType.ALLOW,
    )
    client = AdminClient({"bootstrap.servers": f"{host}:{port}", "log_level": 0})
    for answer in client.create_acls([acl]).values():
        answer.result(ASK_S)
