"""`durability audit` as a user of a secured cluster runs it: three controllers, TLS and logins on all listeners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.clusters.processes.addresses import SLOTS, Addresses
from harness.kafka.admin.client import AdminView
from harness.kafka.settings.node_settings import host_name, properties_text
from harness.kafka.settings.tls import Authority
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.auditing import asked, auditing, controllers
from suites.gate.cluster_probes import observer, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

USER, PASSWORD, ADMIN = "auditor", "a-word", "admin"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGINS = (
    f'{PLAIN} required username="{ADMIN}" password="{PASSWORD}" user_{ADMIN}="{PASSWORD}" user_{USER}="{PASSWORD}";'
)
WEEK, HOUR = "604800000", "3600000"


def all_addresses() -> Iterator[str]:
    """Of every cluster that this machine may start: the certificate exists before the cluster has its addresses."""
    for slot in range(SLOTS):
        plan = Addresses.of(slot, ClusterShape(brokers=1, controllers=3))
        yield plan.client(1)[0]
        yield from (plan.node(node) for node in (1, *plan.controllers))


class Files:
    """The PEM files of a cluster, and of a client."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.key, self.stranger = (folder / name for name in ("ca.pem", "key.pem", "stranger.pem"))
        authority = Authority()
        self.authority.write_bytes(authority.pem)
        self.stranger.write_bytes(Authority().pem)
        self.key.write_bytes(authority.key_store("node", map(host_name, range(200)), all_addresses()))

    def shape(self) -> ClusterShape:
        return ClusterShape(
            brokers=1,
            controllers=3,
            config={
                "listener.security.protocol.map": "REPL:PLAINTEXT,CONTROLLER:SASL_SSL,CLIENT:SASL_SSL,"
                "ISOLATED:PLAINTEXT,DIRECT:PLAINTEXT",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.key),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority),
                "sasl.mechanism.controller.protocol": "PLAIN",
                **{
                    f"listener.name.{listener}.{key}": value
                    for listener in ("controller", "client")
                    for key, value in (
                        ("sasl.enabled.mechanisms", "PLAIN"),
                        ("plain.sasl.jaas.config", LOGINS),
                    )
                },
            },
        )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, files: Files) -> Iterator[JvmCluster]:
    # As processes: nodes in containers would not see the files.
    with start(tmp_path_factory.mktemp("runs"), files.shape(), backend="processes") as started:
        yield started


@pytest.fixture(scope="module")
def admin(cluster: JvmCluster) -> Iterator[AdminView]:
    with observer(cluster) as view:
        yield view


def options(cluster: JvmCluster, files: Files, folder: Path, **changed: str) -> tuple[str, ...]:
    """As a user gives them. changed: settings of the client, with _ for the dots."""
    login = f'{PLAIN} required username="{USER}" password="{PASSWORD}";'
    settings: Mapping[str, str] = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": login,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
        **{name.replace("_", "."): value for name, value in changed.items()},
    }
    file = folder / "client.properties"
    file.write_text(properties_text(dict(settings)))
    return "--bootstrap", cluster.bootstrap(), *controllers(cluster), "--command-config", str(file)


def lowered(admin: AdminView, name: str) -> None:
    admin.create_topics(
        [Topic(name=name, partitions=1, replicas=1, config={"retention.ms": WEEK, "min.insync.replicas": "1"})]
    )
    admin.alter_topic_config(name, {"retention.ms": HOUR})


def test_alarms_come_over_tls_and_go_on_after_the_active_controller_died(
    cluster: JvmCluster, admin: AdminView, files: Files, tmp_path: Path
) -> None:
    with auditing(tmp_path, *options(cluster, files, tmp_path), "--groups", "readers", "--probe", "probed") as auditor:
        lowered(admin, "before")
        assert auditor.row("opened", rule="setting_weakened")["places"][0]["topic"] == "before"
        active = admin.active_controller()
        cluster.kill(active)
        wait_for(
            lambda: admin.active_controller(),
            until=lambda now: now not in (active, -1),
            deadline_s=60,
            what="another controller",
        )
        lowered(admin, "after")
        wait_for(
            lambda: [row["places"][0]["topic"] for row in auditor.read() if row.get("rule") == "setting_weakened"],
            until=lambda topics: "after" in topics,
            deadline_s=60,
            what="the alarm that follows the new controller",
        )
        cluster.start(active)
        needed = {"metadata", "offsets", "replicas", "settings", "groups", "transactions", "probe"}
        wait_for(
            lambda: {*auditor.status()["vitals"]["covered_now"]},
            until=lambda covered: needed <= covered,
            deadline_s=60,
            what="all sources over TLS",
            interval_s=1.0,
        )
        assert auditor.end() == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("password", f"refuses the login of {USER} by PLAIN: Authentication failed"),
        ("authority", "its certificate cannot be trusted"),
        ("plaintext", "the listener expects TLS"),
        ("without_tls", "the listener expects TLS"),
        ("nowhere", "nowhere.pem cannot be read"),
    ],
)
def test_a_wrong_setting_is_one_sentence_and_exit_2(
    cluster: JvmCluster, files: Files, tmp_path: Path, name: str, said: str
) -> None:
    changed = {
        "password": {"sasl_jaas_config": f'{PLAIN} required username="{USER}" password="wrong";'},
        "authority": {"ssl_truststore_location": str(files.stranger)},
        "plaintext": {"security_protocol": "PLAINTEXT"},
        "without_tls": {"security_protocol": "SASL_PLAINTEXT"},
        "nowhere": {"ssl_truststore_location": str(tmp_path / "nowhere.pem")},
    }[name]
    refused = asked(*options(cluster, files, tmp_path, **changed), "--db", str(tmp_path / "db"))
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1), refused.stderr
    assert said in refused.stderr


def test_controllers_of_another_login_are_one_sentence_too(cluster: JvmCluster, files: Files, tmp_path: Path) -> None:
    """Brokers that let everyone in say nothing about the controllers."""
    given = ("--bootstrap", cluster.bootstrap_direct(), *controllers(cluster))
    refused = asked(*given, "--db", str(tmp_path / "db"))
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    assert "the metadata log cannot be followed" in refused.stderr
    assert "the listener expects TLS" in refused.stderr
