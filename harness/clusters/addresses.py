"""Who listens where: loopback addresses whose second octet is the run's slot, so runs never meet; ports are the same.

    127.S.1.N      node N itself
    127.S.2.N      proxy: clients to broker N
    127.S.100+A.B  proxy: node A to node B
    127.S.3.1      the toxiproxy server's own API

Ports stay below 32768: above, outgoing connections of the machine collide with listeners now and then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from harness.clusters.base import FIRST_CONTROLLER, party
from harness.kafka.config import CLIENT_PORT, CONTROLLER_PORT, DIRECT_PORT, REPLICATION_PORT, host_name
from harness.model.errors import BadInput
from harness.model.scenario import ClusterShape

TOXIPROXY_PORT = 21099
_FIRST_OCTET = 16
SLOTS = 200
NODES_MAX = 50  # of each kind: 100 + node id has to fit into an octet


@dataclass(frozen=True, slots=True)
class Link:
    """One proxy: connections that `src` opens to `dst`."""

    src: str
    dst: str
    listen: str
    upstream: str

    @property
    def name(self) -> str:
        """The proxy's name in toxiproxy."""
        return f"{self.src}-{self.dst}"


@dataclass(frozen=True, slots=True)
class Addresses:
    """The address plan of one cluster."""

    slot: int
    brokers: tuple[int, ...]
    controllers: tuple[int, ...]

    @classmethod
    def of(cls, slot: int, shape: ClusterShape) -> Addresses:
        """Raises BadInput for a shape that has no address plan."""
        for what, count in (("brokers", shape.brokers), ("controllers", shape.controllers)):
            if not 1 <= count <= NODES_MAX:
                raise BadInput(f"a cluster has 1 to {NODES_MAX} {what}, not {count}")
        brokers = tuple(range(1, shape.brokers + 1))
        controllers = tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + shape.controllers))
        return cls(slot, brokers, controllers)

    @property
    def nodes(self) -> tuple[int, ...]:
        return (*self.controllers, *self.brokers)

    def _address(self, third: int, fourth: int) -> str:
        return f"127.{_FIRST_OCTET + self.slot}.{third}.{fourth}"

    def node(self, node: int) -> str:
        return self._address(1, node)

    def client(self, broker: int) -> str:
        return self._address(2, broker)

    @property
    def toxiproxy(self) -> str:
        return self._address(3, 1)

    def proxied(self, src: int, dst: int) -> str:
        return self._address(100 + src, dst)

    def direct(self, node: int) -> tuple[str, int]:
        return self.node(node), DIRECT_PORT if node in self.brokers else CONTROLLER_PORT

    def links(self) -> Iterator[Link]:
        """Every connection that a cluster with isolated controllers opens: to brokers, and to controllers."""
        for dst in self.brokers:
            yield self._link("client", dst, self.client(dst), CLIENT_PORT)
            for src in self.brokers:
                if src != dst:
                    yield self._link(party(src), dst, self.proxied(src, dst), REPLICATION_PORT)
        for dst in self.controllers:
            for src in self.nodes:
                if src != dst:
                    yield self._link(party(src), dst, self.proxied(src, dst), CONTROLLER_PORT)

    def _link(self, src: str, dst: int, listen: str, port: int) -> Link:
        return Link(src, party(dst), f"{listen}:{port}", f"{self.node(dst)}:{port}")

    def hosts_file(self, node: int, machine: str) -> str:
        """What `node` believes of names (-Djdk.net.hosts.file): itself directly, everybody else behind a proxy."""
        lines = ["127.0.0.1 localhost", f"127.0.0.1 {machine}"]
        lines += [
            f"{self.node(other) if other == node else self.proxied(node, other)} {host_name(other)}"
            for other in self.nodes
        ]
        return "\n".join(lines) + "\n"

    def toxiproxy_config(self) -> str:
        """For `toxiproxy -config`: every proxy, enabled."""
        proxies = [
            {"name": link.name, "listen": link.listen, "upstream": link.upstream, "enabled": True}
            for link in self.links()
        ]
        return json.dumps(proxies, indent=1)
