"""The addresses of a cluster: on which each party listens, and the proxy between each two. One plan a backend."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.clusters.base import FIRST_CONTROLLER, TIER, party
from harness.kafka.settings.node_settings import (
    CLIENT_PORT,
    CONTROLLER_PORT,
    DIRECT_PORT,
    ISOLATED_PORT,
    REPLICATION_PORT,
    host_name,
)
from harness.model.scenario.rules import check_shape
from harness.model.scenario.scenario import ClusterShape


@dataclass(frozen=True, slots=True)
class Link:
    """One proxy: it carries the connections that `src` opens to `dst`."""

    src: str
    dst: str
    listen: str
    upstream: str
    frame_proxy: str | None = None  # the address of the harness's frame proxy, to which toxiproxy can be diverted

    @property
    def name(self) -> str:
        """The proxy's name in toxiproxy."""
        return f"{self.src}-{self.dst}"


@dataclass(frozen=True)
class Plan(ABC):
    """The addresses of one cluster. `client`, `isolated_client` and `direct` are addresses as the harness sees them."""

    slot: int
    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    has_isolated: bool = False
    has_s3: bool = False  # whether there is a server of a remote tier

    @property
    def nodes(self) -> tuple[int, ...]:
        return (*self.controllers, *self.brokers)

    @abstractmethod
    def node(self, node: int) -> str:
        """The address that a node binds."""

    @abstractmethod
    def proxied(self, src: int, dst: int) -> str:
        """The address of the proxy through which `src` reaches `dst`."""

    @abstractmethod
    def client(self, broker: int) -> tuple[str, int]:
        """Host and port at which clients of the load reach a broker: those of its proxy."""

    @abstractmethod
    def client_proxy(self, broker: int) -> str:
        """The address on which that proxy listens."""

    @abstractmethod
    def frame_proxy(self, broker: int) -> tuple[str, int]:
        """Host and port on which a frame proxy of the harness listens, to which the clients' proxy can be diverted."""

    @abstractmethod
    def isolated_client(self, broker: int) -> tuple[str, int]:
        """Host and port at which isolated clients reach a broker: those of a proxy for them alone."""

    @abstractmethod
    def isolated_proxy(self, broker: int) -> str:
        """The address on which that proxy listens."""

    @abstractmethod
    def direct(self, node: int) -> tuple[str, int]:
        """Host and port at which observers reach a node. No fault of the links affects them."""

    def own_port(self, node: int) -> int:
        """The port of a node's listener for observers. A controller has only one listener (KIP-919)."""
        return DIRECT_PORT if node in self.brokers else CONTROLLER_PORT

    def bootstrap(self) -> str:
        """Bootstrap servers for clients of the load."""
        return ",".join("{}:{}".format(*self.client(broker)) for broker in self.brokers)

    def bootstrap_isolated(self) -> str:
        """Bootstrap servers for isolated clients; empty if there are none."""
        return ",".join("{}:{}".format(*self.isolated_client(broker)) for broker in self.brokers if self.has_isolated)

    @property
    @abstractmethod
    def s3(self) -> tuple[str, int]:
        """Host and port on which the server of a tier in S3 listens."""

    @abstractmethod
    def s3_proxy(self, broker: int) -> str:
        """The address at which a broker reaches that server: its proxy."""

    @property
    @abstractmethod
    def s3_direct(self) -> tuple[str, int]:
        """Host and port at which the harness reaches that server. No fault of the links affects it."""

    def s3_endpoint(self, broker: int) -> str | None:
        """The URL of the server in a broker's settings; None if there is no server."""
        return f"http://{self.s3_proxy(broker)}" if self.has_s3 else None

    def links(self) -> Iterator[Link]:
        """Every link of a cluster with isolated controllers: to brokers, to controllers, and to the tier."""
        for src in self.brokers if self.has_s3 else ():
            yield Link(party(src), TIER, self.s3_proxy(src), "{}:{}".format(*self.s3))
        for dst in self.brokers:
            upstream = f"{self.node(dst)}:{CLIENT_PORT}"
            yield Link("client", party(dst), self.client_proxy(dst), upstream, "{}:{}".format(*self.frame_proxy(dst)))
            if self.has_isolated:
                yield Link("isolated_client", party(dst), self.isolated_proxy(dst), f"{self.node(dst)}:{ISOLATED_PORT}")
            for src in self.brokers:
                if src != dst:
                    yield self._link(src, dst, REPLICATION_PORT)
        for dst in self.controllers:
            for src in self.nodes:
                if src != dst:
                    yield self._link(src, dst, CONTROLLER_PORT)

    def _link(self, src: int, dst: int, port: int) -> Link:
        return Link(party(src), party(dst), f"{self.proxied(src, dst)}:{port}", f"{self.node(dst)}:{port}")

    def hosts_file(self, node: int, machine: str) -> str:
        """The hosts file of a node's JVM (-Djdk.net.hosts.file): its own address, and proxies for all other nodes."""
        lines = ["127.0.0.1 localhost", f"127.0.0.1 {machine}"]
        lines += [
            f"{self.node(other) if other == node else self.proxied(node, other)} {host_name(other)}"
            for other in self.nodes
        ]
        return "\n".join(lines) + "\n"

    def proxies(self) -> Mapping[str, tuple[str, str]]:
        """By the proxy's name: the address on which it listens, and the address to which it forwards."""
        return {link.name: (link.listen, link.upstream) for link in self.links()}

    def toxiproxy_config(self) -> str:
        """The file for `toxiproxy -config`: every proxy, enabled."""
        proxies = [
            {"name": name, "listen": listen, "upstream": upstream, "enabled": True}
            for name, (listen, upstream) in self.proxies().items()
        ]
        return json.dumps(proxies, indent=1)


def nodes_of(shape: ClusterShape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids of brokers and of controllers. BadInput for a shape that has no address plan."""
    check_shape(shape, "shape")
    return tuple(range(1, shape.brokers + 1)), tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + shape.controllers))
