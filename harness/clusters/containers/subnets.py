"""The address plan of the container backend: one internal subnet, and published ports of the toxiproxy container.

The nodes are on an internal network, without a route to anywhere else. toxiproxy is on it, too, with one address for
each link. Clients know only 127.0.0.1 and the ports that the engine publishes there for toxiproxy. The third octet is
the slot of the run, so two runs never share an address. 198.18.0.0/15 is reserved for tests between devices (RFC 2544)
and routed nowhere.

    198.18.S.1         this machine: frame proxies of the harness (port 24000 + N)
    198.18.S.2         toxiproxy: clients (port 22000 + N), observers (23000 + N), isolated clients (25000 + N), its
                       API, broker N to the S3 server of a remote tier (26000 + N), the harness to that server (27000)
    198.18.S.3         the S3 server of a remote tier
    198.18.S.10 + N    broker N
    198.18.S.60 + N    controller 101 + N
    198.18.S.100 + I   toxiproxy: the I-th link between nodes
    198.19.S.0/24      the network that publishes toxiproxy's ports
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Final

from harness.clusters.base import FIRST_CONTROLLER, TIER
from harness.clusters.network.address_plan import Plan, nodes_of
from harness.clusters.processes.addresses import S3_PORT, TOXIPROXY_PORT
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape

LINKS_MAX: Final = 150
_CLIENTS: Final = 22000
_OBSERVERS: Final = 23000
_FRAME_PROXIES: Final = 24000
_ISOLATED: Final = 25000
_S3: Final = 26000
_S3_DIRECT: Final = 27000


@dataclass(frozen=True)
class Subnets(Plan):
    """The address plan of a cluster of containers.

    published: port of the proxy container -> port of 127.0.0.1. It is known only when that container runs.
    """

    published: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, slot: int, shape: ClusterShape) -> Subnets:
        """The plan of a shape. BadInput for a shape that has none."""
        brokers, controllers = nodes_of(shape)
        plan = cls(slot, brokers, controllers, shape.isolated_client, shape.tier == "s3")
        if (links := len(plan._pairs)) > LINKS_MAX:
            raise BadInput(
                f"a cluster of containers can have at most {LINKS_MAX} links between nodes, and this one has {links}: "
                "take fewer brokers or controllers"
            )
        return plan

    def _address(self, last: int) -> str:
        return f"198.18.{self.slot}.{last}"

    @property
    def inside(self) -> str:
        """The subnet of the nodes."""
        return f"198.18.{self.slot}.0/24"

    @property
    def outside(self) -> str:
        """The subnet that publishes ports."""
        return f"198.19.{self.slot}.0/24"

    @property
    def toxiproxy(self) -> str:
        return self._address(2)

    def node(self, node: int) -> str:
        """See `Plan`."""
        return self._address(10 + node if node < FIRST_CONTROLLER else 60 + node - FIRST_CONTROLLER)

    @cached_property
    def _pairs(self) -> dict[tuple[int, int], int]:
        """Numbers of the links between nodes. A controller never connects to a broker."""
        pairs = [(a, b) for a, b in permutations(self.nodes, 2) if b in self.controllers or a in self.brokers]
        return {pair: number for number, pair in enumerate(pairs)}

    def proxied(self, src: int, dst: int) -> str:
        """See `Plan`."""
        # A controller's hosts file names brokers, too: with an address that no party has.
        return self._address(100 + self._pairs[src, dst]) if (src, dst) in self._pairs else self._address(254)

    @property
    def proxy_addresses(self) -> tuple[str, ...]:
        """The addresses that the proxy container needs in addition to its own."""
        return tuple(self._address(100 + number) for number in self._pairs.values())

    def client(self, broker: int) -> tuple[str, int]:
        """See `Plan`."""
        return "127.0.0.1", self.published[_CLIENTS + broker]

    def client_proxy(self, broker: int) -> str:
        """See `Plan`."""
        return f"0.0.0.0:{_CLIENTS + broker}"

    def frame_proxy(self, broker: int) -> tuple[str, int]:
        """See `Plan`. The machine has an address on a bridge even if that has no way out."""
        return self._address(1), _FRAME_PROXIES + broker

    def isolated_client(self, broker: int) -> tuple[str, int]:
        """See `Plan`."""
        return "127.0.0.1", self.published[_ISOLATED + broker]

    def isolated_proxy(self, broker: int) -> str:
        """See `Plan`."""
        return f"0.0.0.0:{_ISOLATED + broker}"

    @property
    def s3(self) -> tuple[str, int]:
        """See `Plan`."""
        return self._address(3), S3_PORT

    def s3_proxy(self, broker: int) -> str:
        """See `Plan`."""
        return f"{self.toxiproxy}:{_S3 + broker}"

    @property
    def s3_direct(self) -> tuple[str, int]:
        """See `Plan`."""
        return "127.0.0.1", self.published[_S3_DIRECT]

    def direct(self, node: int) -> tuple[str, int]:
        """See `Plan`."""
        return "127.0.0.1", self.published[_OBSERVERS + node]

    @property
    def api(self) -> tuple[str, int]:
        """Host and port of toxiproxy's API, as the harness sees them."""
        return "127.0.0.1", self.published[TOXIPROXY_PORT]

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of the proxy container that have to be published."""
        ways_in = [_CLIENTS, _ISOLATED] if self.has_isolated else [_CLIENTS]
        clients = (way + broker for way in ways_in for broker in self.brokers)
        tier = (_S3_DIRECT,) if self.has_s3 else ()
        return (TOXIPROXY_PORT, *clients, *(_OBSERVERS + node for node in self.nodes), *tier)

    def proxies(self) -> Mapping[str, tuple[str, str]]:
        """See `Plan`. Observers connect through toxiproxy, too. Their proxies are no links, so they get no faults."""
        observers = {
            f"observer-{node}": (f"0.0.0.0:{_OBSERVERS + node}", f"{self.node(node)}:{self.own_port(node)}")
            for node in self.nodes
        }
        if self.has_s3:
            observers[f"observer-{TIER}"] = (f"0.0.0.0:{_S3_DIRECT}", "{}:{}".format(*self.s3))
        return {**super().proxies(), **observers}
