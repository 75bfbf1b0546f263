"""Settings of nodes that have to agree with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kafka.release.release import Release
from harness.kafka.settings.node_settings import Advertised, Node, node_properties
from harness.kafka.settings.tls import Stores

BROKER = Advertised(("h", 1), ("h", 2))
WITH_ISOLATED_CLIENT = Advertised(("h", 1), ("h", 2), ("h", 3))


@pytest.mark.parametrize("stores", [None, Stores(Path("/key.pem"), Path("/trust.pem"))], ids=["plaintext", "secure"])
@pytest.mark.parametrize("advertised", [None, BROKER, WITH_ISOLATED_CLIENT])
def test_every_listener_has_a_security_protocol(advertised: Advertised | None, stores: Stores | None) -> None:
    """A broker with a listener that has no protocol does not start."""
    node = Node(
        node=1,
        address="10.0.0.1",
        advertised=advertised,
        controllers=(101,),
        brokers=3,
        data=Path("/data"),
        stores=stores if advertised else None,
    )
    properties = node_properties(Release("4.3.1", "commit", "here", ()), node)
    listeners = {listener.partition("://")[0] for listener in properties["listeners"].split(",")}
    protocols = dict(entry.split(":") for entry in properties["listener.security.protocol.map"].split(","))
    assert listeners <= protocols.keys()
    assert listeners - {"DIRECT", "CONTROLLER"} or advertised is None
    secured = {name for name, protocol in protocols.items() if protocol != "PLAINTEXT"}
    assert secured == ({"REPL", "CLIENT", "ISOLATED"} if stores and advertised else set())
