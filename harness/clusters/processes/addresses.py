"""The address plan of the process backend: loopback addresses, with the slot of the run in the second octet.

So two runs never share an address, and all use the same ports.

    127.S.1.N      node N itself
    127.S.2.N      proxy: clients to broker N
    127.S.100+A.B  proxy: node A to node B
    127.S.3.1      the API of the toxiproxy server
    127.S.3.2      the S3 server of a remote tier
    127.S.4.N      frame proxy of the harness, between the clients' proxy and broker N
    127.S.5.N      proxy: isolated clients to broker N
    127.S.6.N      proxy: broker N to the S3 server

Ports stay below 32768: above, outgoing connections of the machine sometimes take the port of a listener.
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
    """The address plan of a cluster of local processes."""

    @classmethod
    def of(cls, slot: int, shape: ClusterShape) -> Addresses:
        """The plan of a shape. BadInput for a shape that has none."""
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
