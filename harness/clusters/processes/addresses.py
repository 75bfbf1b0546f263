"""Loopback addresses whose second octet is the run's slot, so runs never meet; ports are the same.

    127.S.1.N      node N itself
    127.S.2.N      proxy: clients to broker N
    127.S.100+A.B  proxy: node A to node B
    127.S.3.1      the toxiproxy server's own API
    127.S.4.N      a hop of the harness between the proxy of clients and broker N
    127.S.5.N      proxy: clients that are to be cut off alone, to broker N
    127.S.6.N      proxy: broker N to the S3 server of a remote tier
    127.S.3.2      that server

Ports stay below 32768: above, outgoing connections of the machine collide with listeners now and then.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.clusters.network.address_plan import Plan, nodes_of
from harness.kafka.settings.node_settings import CLIENT_PORT, ISOLATED_PORT
from harness.model.scenario.scenario import ClusterShape

TOXIPROXY_PORT = 21099
S3_PORT = 21097
_FIRST_OCTET = 16
SLOTS = 200


@dataclass(frozen=True)
class Addresses(Plan):
    """The plan of a cluster of local processes."""

    @classmethod
    def of(cls, slot: int, shape: ClusterShape) -> Addresses:
        """Raises BadInput for a shape that has no address plan."""
        brokers, controllers = nodes_of(shape)
        return cls(slot, brokers, controllers, shape.isolated_client, shape.tier == "s3")

    def _address(self, third: int, fourth: int) -> str:
        return f"127.{_FIRST_OCTET + self.slot}.{third}.{fourth}"

    def node(self, node: int) -> str:
        """See `Plan`."""
        return self._address(1, node)

    def proxied(self, src: int, dst: int) -> str:
        """See `Plan`."""
        return self._address(100 + src, dst)

    def client(self, broker: int) -> tuple[str, int]:
        """See `Plan`."""
        return self._address(2, broker), CLIENT_PORT

    def client_proxy(self, broker: int) -> str:
        """See `Plan`."""
        return "{}:{}".format(*self.client(broker))

    def frame_proxy(self, broker: int) -> tuple[str, int]:
        """See `Plan`."""
        return self._address(4, broker), CLIENT_PORT

    def isolated_client(self, broker: int) -> tuple[str, int]:
        """See `Plan`."""
        return self._address(5, broker), ISOLATED_PORT

    def isolated_proxy(self, broker: int) -> str:
        """See `Plan`."""
        return "{}:{}".format(*self.isolated_client(broker))

    @property
    def s3(self) -> tuple[str, int]:
        """See `Plan`."""
        return self._address(3, 2), S3_PORT

    def s3_proxy(self, broker: int) -> str:
        """See `Plan`."""
        return f"{self._address(6, broker)}:{S3_PORT}"

    @property
    def s3_direct(self) -> tuple[str, int]:
        """See `Plan`."""
        return self.s3

    def direct(self, node: int) -> tuple[str, int]:
        """See `Plan`."""
        return self.node(node), self.own_port(node)

    @property
    def toxiproxy(self) -> str:
        return self._address(3, 1)
