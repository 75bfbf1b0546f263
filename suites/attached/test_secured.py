"""Runs on a cluster with TLS, passwords and permissions that the harness did not start."""

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

from harness.kafka.admin.client_config import client_config
from harness.kafka.admin.security import security_in
from harness.kafka.settings.tls import Authority
from harness.model.exits import Exit
from harness.model.verdict import Status
from suites.attached import by_hand
from suites.attached.by_hand import ByHand
from suites.attached.playing import KILLED, durability, hooks_of, judged, names

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

WORD = "a-word"
SEED = 11
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = ("admin", "runner", "stranger")
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
PREFIX = "durability-"
KINDS = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


def client_file(folder: Path, user: str, trusted: Path, word: str = WORD) -> Path:
    """A file for --command-config, in the names of Kafka's own tools."""
    file = folder / f"{user}-{word}.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} required username="{user}" password="{word}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={trusted}\n"
    )
    return file


def settings_of(folder: Path, trusted: Path) -> Mapping[str, str]:
    """Everyone logs in, and needs permissions; controllers are alone on their listener."""
    authority = Authority()
    trusted.write_bytes(authority.pem)
    store = folder / "broker.pem"
    store.write_bytes(authority.key_store("broker", ["localhost"], ["127.0.0.1"]))
    users = " ".join(f'user_{user}="{WORD}"' for user in USERS)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{MODULE} required username="admin" password="{WORD}" {users};'
        ),
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trusted") / "authority.pem"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, trusted: Path) -> Iterator[ByHand]:
    """The user `runner` has the permissions that the README of `attached` lists, and `stranger` has none."""
    folder = tmp_path_factory.mktemp("secured")
    settings = settings_of(folder, trusted)
    with by_hand.by_hand(folder / "nodes", settings, protocol="SASL_SSL") as running:
        grant(
            AdminClient(
                {**client_config(client_file(folder, "admin", trusted)), "bootstrap.servers": running.bootstrap}
            )
        )
        yield running


def grant(admin: AdminClient) -> None:
    operations = AclOperation
    wanted = [
        *(
            (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, op)
            for op in (operations.DESCRIBE, operations.DESCRIBE_CONFIGS, operations.ALTER)
        ),
        *((kind, PREFIX, ResourcePatternType.PREFIXED, operations.ALL) for kind in KINDS),
        *(
            (ResourceType.TOPIC, name, ResourcePatternType.LITERAL, op)
            for name in INTERNAL
            for op in (operations.DESCRIBE, operations.DESCRIBE_CONFIGS)
        ),
    ]
    bindings = [
        AclBinding(kind, name, pattern, "User:runner", "*", operation, AclPermissionType.ALLOW)
        for kind, name, pattern, operation in wanted
    ]
    for done in admin.create_acls(bindings).values():
        done.result(30)


def test_a_leader_killed_on_a_secured_cluster_ends_in_pass(secured: ByHand, trusted: Path, tmp_path: Path) -> None:
    runner = client_file(tmp_path, "runner", trusted)
    result, verdict = judged(
        secured, tmp_path, KILLED, hooks_of(secured, tmp_path), config_file=runner, seed=SEED, records=10_000
    )
    assert result.exit == Exit.PASS
    assert (verdict.status, verdict.doubts) == (Status.PASS, ())
    assert WORD not in "".join(path.read_text(errors="replace") for path in (tmp_path / "out").rglob("*.json"))
    admin = security_in(client_file(tmp_path, "admin", trusted))
    assert names(secured.bootstrap, admin) <= set(INTERNAL)


@pytest.mark.parametrize(
    ("user", "word", "said"),
    [
        (None, "", "settings that the cluster requires of clients by --command-config"),
        ("runner", "wrong", "refuses the login of runner by PLAIN"),
        ("stranger", WORD, "allow this client DESCRIBE_CONFIGS on the cluster"),
    ],
)
def test_who_may_not_do_it_is_refused_in_one_sentence(
    secured: ByHand, trusted: Path, tmp_path: Path, user: str | None, word: str, said: str
) -> None:
    given = [] if user is None else ["--command-config", client_file(tmp_path, user, trusted, word)]
    code, output, errors = durability(secured.bootstrap, tmp_path, "run", "calm", *given, "--out", tmp_path / "out")
    assert code == Exit.USAGE, output + errors
    assert said in errors.splitlines()[-1]
    assert not (tmp_path / "out").exists()
