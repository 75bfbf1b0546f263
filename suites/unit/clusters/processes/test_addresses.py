"""The address plan, the settings of brokers and the names of links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.choosing import check_release
from harness.clusters.processes.addresses import SLOTS, Addresses
from harness.kafka.release.release import Release
from harness.kafka.settings.node_settings import (
    CLIENT_PORT,
    CONTROLLER_PORT,
    DIRECT_PORT,
    REPLICATION_PORT,
    Advertised,
    Node,
    logging_properties,
    node_properties,
    properties_text,
)
from harness.model.errors import BadInput
from harness.model.scenario.scenario import NODES_MAX, ClusterShape


def release(version: str, *jars: str) -> Release:
    return Release(version, "abc", "here", tuple(Path(jar) for jar in jars))


def node(number: int, **changes: Any) -> Node:
    advertised = Advertised(("127.16.2.9", 21094), ("127.16.1.9", 21095)) if number < 100 else None
    given: dict[str, Any] = {
        "address": "127.16.1.9",
        "advertised": advertised,
        "controllers": (101,),
        "brokers": 3,
        "data": Path("/d"),
    }
    return Node(node=number, **{**given, **changes})


def test_every_connection_of_a_cluster_is_one_proxy() -> None:
    links = list(Addresses.of(0, ClusterShape(brokers=2, controllers=1)).links())
    assert {link.name: (link.listen, link.upstream) for link in links} == {
        "client-b1": ("127.16.2.1:21094", "127.16.1.1:21094"),
        "client-b2": ("127.16.2.2:21094", "127.16.1.2:21094"),
        "b1-b2": ("127.16.101.2:21092", "127.16.1.2:21092"),
        "b2-b1": ("127.16.102.1:21092", "127.16.1.1:21092"),
        "b1-c101": ("127.16.101.101:21093", "127.16.1.101:21093"),
        "b2-c101": ("127.16.102.101:21093", "127.16.1.101:21093"),
    }


def test_each_broker_reaches_the_s3_server_through_a_proxy_of_its_own() -> None:
    links = [link for link in Addresses.of(0, ClusterShape(brokers=2, tier="s3")).links() if link.dst == "tier"]
    assert [(link.name, link.listen, link.upstream) for link in links] == [
        ("b1-tier", "127.16.6.1:21097", "127.16.3.2:21097"),
        ("b2-tier", "127.16.6.2:21097", "127.16.3.2:21097"),
    ]


def test_controllers_reach_each_other_and_no_broker() -> None:
    links = list(Addresses.of(0, ClusterShape(brokers=1, controllers=3)).links())
    assert {link.dst for link in links if link.src.startswith("c1")} == {"c101", "c102", "c103"}


def test_a_node_reaches_itself_directly_and_all_others_through_proxies() -> None:
    addresses = Addresses.of(4, ClusterShape(brokers=2, controllers=1))
    assert addresses.hosts_file(2, "machine").splitlines() == [
        "127.0.0.1 localhost",
        "127.0.0.1 machine",
        "127.20.102.101 kafka-101",
        "127.20.102.1 kafka-1",
        "127.20.1.2 kafka-2",
    ]


def test_two_slots_share_no_address_and_no_address_leaves_loopback() -> None:
    shape = ClusterShape(brokers=5, controllers=3, tier="s3")

    def taken(slot: int) -> set[str]:
        addresses = Addresses.of(slot, shape)
        return {link.listen for link in addresses.links()} | {link.upstream for link in addresses.links()}

    assert not taken(0) & taken(1)
    octets = [int(part) for place in taken(SLOTS - 1) for part in place.partition(":")[0].split(".")]
    assert max(octets) <= 255
    assert all(place.startswith("127.") for place in taken(SLOTS - 1))


def test_ports_stay_below_those_of_outgoing_connections() -> None:
    assert max(CLIENT_PORT, CONTROLLER_PORT, DIRECT_PORT, REPLICATION_PORT) < 32768


@pytest.mark.parametrize("shape", [ClusterShape(brokers=0), ClusterShape(brokers=NODES_MAX + 1)])
def test_a_shape_with_too_few_or_too_many_brokers_is_refused(shape: ClusterShape) -> None:
    with pytest.raises(BadInput, match="brokers"):
        Addresses.of(0, shape)


def test_a_shape_without_controllers_is_refused() -> None:
    with pytest.raises(BadInput, match="controllers"):
        Addresses.of(0, ClusterShape(controllers=0))


def test_toxiproxy_gets_every_link_enabled() -> None:
    addresses = Addresses.of(0, ClusterShape())
    proxies = json.loads(addresses.toxiproxy_config())
    assert {proxy["name"] for proxy in proxies} == {link.name for link in addresses.links()}
    assert all(proxy["enabled"] for proxy in proxies)


def test_a_broker_advertises_proxies_to_clients_and_itself_to_observers() -> None:
    properties = node_properties(release("4.3.1"), node(1))
    assert properties["advertised.listeners"] == (
        "REPL://kafka-1:21092,CLIENT://127.16.2.9:21094,DIRECT://127.16.1.9:21095"
    )
    assert properties["broker.rack"] == "r1"


@pytest.mark.parametrize(("version", "advertised"), [("3.8.0", None), ("3.9.1", "CONTROLLER://kafka-101:21093")])
def test_a_controller_advertises_itself_where_it_may(version: str, advertised: str | None) -> None:
    assert node_properties(release(version), node(101)).get("advertised.listeners") == advertised


def test_a_controller_knows_the_defaults_of_topics() -> None:
    """With ELR the active controller's min.insync.replicas becomes the cluster's (KIP-966)."""
    properties = node_properties(release("4.3.1"), node(101))
    assert (properties["min.insync.replicas"], properties["default.replication.factor"]) == ("2", "3")


@pytest.mark.parametrize(
    ("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (5, "3", "2")]
)
def test_the_replication_of_internal_topics_follows_the_number_of_brokers(
    brokers: int, replicas: str, in_sync: str
) -> None:
    properties = node_properties(release("4.3.1"), node(1, brokers=brokers))
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert properties[f"{topic}.replication.factor"] == replicas
    assert properties["transaction.state.log.min.isr"] == properties["min.insync.replicas"] == in_sync


def test_the_config_of_the_scenario_overrides_ours() -> None:
    properties = node_properties(release("4.3.1"), node(1, config={"min.insync.replicas": "1"}))
    assert properties["min.insync.replicas"] == "1"


def test_backslashes_and_line_breaks_in_properties_are_escaped() -> None:
    assert properties_text({"b": "x\\y", "a": "1\n2"}) == "a=1\\n2\nb=x\\\\y\n"


def test_the_logging_configuration_follows_the_release() -> None:
    new, text = logging_properties(release("4.3.1", "/x/log4j-core-2.25.3.jar"), Path("/logs/server.log"))
    old, _ = logging_properties(release("3.9.1", "/x/reload4j-1.2.25.jar"), Path("/logs/server.log"))
    assert (new, old) == ("log4j2.configurationFile", "log4j.configuration")
    assert "appender.file.fileName=/logs/server.log" in text


def test_the_metadata_log_is_in_the_first_of_several_directories() -> None:
    one = node_properties(release("4.3.1"), node(1))
    assert (one["log.dirs"], one.get("metadata.log.dir")) == ("/d", None)
    more = node_properties(release("4.3.1"), node(1, more_data=(Path("/e"), Path("/f"))))
    assert (more["log.dirs"], more["metadata.log.dir"]) == ("/d,/e,/f", "/d")


def test_several_log_directories_are_refused_before_3_8() -> None:
    check_release(release("3.7.2"), ClusterShape())
    check_release(release("3.8.0"), ClusterShape(log_dirs=2))
    with pytest.raises(BadInput, match=r"log_dirs = 2: Kafka 3\.7\.2 .* give a release from 3\.8 on"):
        check_release(release("3.7.2"), ClusterShape(log_dirs=2))
