"""TLS and SCRAM for a cluster: key files that only their owner can read, and a user that every broker knows."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.clusters.network.address_plan import Plan
from harness.kafka.admin.client import AdminView
from harness.kafka.release.release import Release
from harness.kafka.settings.node_settings import host_name, properties_text
from harness.kafka.settings.tls import (
    SINCE,
    USER,
    Authority,
    Stores,
    client_settings,
    java_settings,
    new_password,
    salted,
)
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape

Address = tuple[str, int]

_FOLDER: Final = "tls"
_AUTHORITY: Final = "ca.pem"
_JAVA: Final = "client.properties"
_USER_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Security:
    """Keys and passwords of one run.

    The private key of the certificate authority is in no file. Everything else is in `directory` and is removed with
    it.
    """

    directory: Path
    authority: Authority = field(default_factory=Authority, repr=False)
    password: str = field(default_factory=new_password, repr=False)

    @classmethod
    def of(cls, run: Path, shape: ClusterShape) -> Security | None:
        """Writes the files of a run; None if the shape has plaintext listeners."""
        if not shape.secure:
            return None
        made = cls(run / _FOLDER)
        made.directory.mkdir(mode=0o700)
        write_private(made.trusted, made.authority.pem)
        write_private(made.java, properties_text(java_settings(made.trusted, made.password)).encode())
        return made

    @property
    def trusted(self) -> Path:
        """The authority's certificate, for clients."""
        return self.directory / _AUTHORITY

    @property
    def java(self) -> Path:
        """The file with client settings for Kafka's own tools."""
        return self.directory / _JAVA

    def client(self) -> Mapping[str, str]:
        """Client settings for librdkafka."""
        return client_settings(self.trusted, self.password)

    def stores(self, node: Path, broker: int, plan: Plan) -> Stores:
        """The key files of a broker, made once. They are in its own folder: its container sees no other."""
        folder = node / _FOLDER
        stores = Stores(folder / "key.pem", folder / _AUTHORITY)
        if not folder.is_dir():
            folder.mkdir(mode=0o700)
            name = host_name(broker)
            write_private(stores.key, self.authority.key_store(name, [name, "localhost"], _addresses(broker, plan)))
            write_private(stores.trust, self.authority.pem)
        return stores

    def create_user(self, brokers: Mapping[int, Address], controllers: Mapping[int, Address]) -> None:
        """Creates the user, and returns when every broker knows it. HarnessTimeout when one does not."""
        salt = secrets.token_bytes(16)
        with AdminView(brokers, controllers) as admin:
            admin.set_scram_user(USER, salt, salted(self.password, salt), _USER_S)


def _addresses(broker: int, plan: Plan) -> list[str]:
    """The addresses under which clients, observers and brokers reach a broker, for its certificate."""
    ways = [plan.client(broker), plan.direct(broker), *([plan.isolated_client(broker)] if plan.has_isolated else [])]
    return ["127.0.0.1", plan.node(broker), *(address for address, _ in ways)]


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that no other user can read, not even while it is being written."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def check_secure(release: Release, shape: ClusterShape) -> None:
    """BadInput for a release that cannot store SCRAM users without ZooKeeper."""
    if shape.secure and release.numbers < SINCE:
        since = ".".join(map(str, SINCE))
        raise BadInput(
            f"shape: secure: Kafka {release.version} cannot store SCRAM users without ZooKeeper (KIP-900): give a "
            f"release from {since} on, or remove secure from the shape"
        )
