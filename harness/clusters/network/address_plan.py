"""Who listens where, and which proxy stands between whom. Each backend has addresses of its own kind."""

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
    """One proxy: connections that `src` opens to `dst`."""

    src: str
    dst: str
    listen: str
    upstream: str
    frame_proxy: str | None = None  # where a hop of ours listens that toxiproxy can be told to forward to

    @property
    def name(self) -> str:
        """The proxy's name in toxiproxy."""
        return f"{self.src}-{self.dst}"


@dataclass(frozen=True)
class Plan(ABC):
    """The addresses of one cluster. `client` and `direct` are how they look from the harness."""

    slot: int
    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    has_isolated: bool = False
    has_s3: bool = False  # the server of a remote tier

    @property
    def nodes(self) -> tuple[int, ...]:
        return (*self.controllers, *self.brokers)

    @abstractmethod
    def node(self, node: int) -> str:
        """The address that a node binds."""

    @abstractmethod
    def proxied(self, src: int, dst: int) -> str:
        """The address of the proxy by which `src` reaches `dst`."""

    @abstractmethod
    def client(self, broker: int) -> tuple[str, int]:
        """Where clients of the load reach a broker: through its proxy."""

    @abstractmethod
    def client_proxy(self, broker: int) -> str:
        """What that proxy listens on."""

    @abstractmethod
    def frame_proxy(self, broker: int) -> tuple[str, int]:
        """Where the harness can listen so that the proxy of clients reaches it in the place of that broker."""

    @abstractmethod
    def isolated_client(self, broker: int) -> tuple[str, int]:
        """Where clients that are to be cut off alone reach a broker: through a proxy of their own."""

    @abstractmethod
    def isolated_proxy(self, broker: int) -> str:
        """What that proxy listens on."""

    @abstractmethod
    def direct(self, node: int) -> tuple[str, int]:
        """Where observers reach a node, past every fault of the links."""

    def own_port(self, node: int) -> int:
        """Of the listener that no proxy with faults stands before; a controller has only one (KIP-919)."""
        return DIRECT_PORT if node in self.brokers else CONTROLLER_PORT

    def bootstrap(self) -> str:
        """Where clients of the load start."""
        return ",".join("{}:{}".format(*self.client(broker)) for broker in self.brokers)

    def bootstrap_isolated(self) -> str:
        """Where those start that are to be cut off alone; empty where there are none."""
        return ",".join("{}:{}".format(*self.isolated_client(broker)) for broker in self.brokers if self.has_isolated)

    @property
    @abstractmethod
    def s3(self) -> tuple[str, int]:
        """What the server of a tier in S3 listens on."""

    @abstractmethod
    def s3_proxy(self, broker: int) -> str:
        """Where a broker reaches it: through its proxy."""

    @property
    @abstractmethod
    def s3_direct(self) -> tuple[str, int]:
        """Where the harness does, past every fault of the links."""

    def s3_endpoint(self, broker: int) -> str | None:
        """The URL that a broker is told of the server; None where there is none."""
        return f"http://{self.s3_proxy(broker)}" if self.has_s3 else None

    def links(self) -> Iterator[Link]:
        """Every connection that a cluster with isolated controllers opens: to brokers, to controllers, to the tier."""
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
        """What `node` believes of names (-Djdk.net.hosts.file): itself directly, everybody else behind a proxy."""
        lines = ["127.0.0.1 localhost", f"127.0.0.1 {machine}"]
        lines += [
            f"{self.node(other) if other == node else self.proxied(node, other)} {host_name(other)}"
            for other in self.nodes
        ]
        return "\n".join(lines) + "\n"

    def proxies(self) -> Mapping[str, tuple[str, str]]:
        """By the proxy's name: what it listens on, and whom it reaches."""
        return {link.name: (link.listen, link.upstream) for link in self.links()}

    def toxiproxy_config(self) -> str:
        """For `toxiproxy -config`: every proxy, enabled."""
        proxies = [
            {"name": name, "listen": listen, "upstream": upstream, "enabled": True}
            for name, (listen, upstream) in self.proxies().items()
        ]
        return json.dumps(proxies, indent=1)


def nodes_of(shape: ClusterShape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids of brokers and of controllers. Raises BadInput for a shape that has no plan of addresses."""
    check_shape(shape, "shape")
    return tuple(range(1, shape.brokers + 1)), tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + shape.controllers))
