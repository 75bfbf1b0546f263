"""The parts of the container backend that need no engine: address plan, choice of a backend, content of an image."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from ipaddress import IPv4Network, ip_address, ip_network
from pathlib import Path

import pytest

from harness.clusters import choose
from harness.clusters.base import TIER
from harness.clusters.containers.container_runner import _epoch_ns
from harness.clusters.containers.images import _libraries, _name, _tools
from harness.clusters.containers.subnets import Subnets
from harness.clusters.processes.addresses import SLOTS, Addresses
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape

IN_S3 = ClusterShape(brokers=6, controllers=5, tier="s3")
SHAPES = [ClusterShape(), ClusterShape(controllers=3), ClusterShape(brokers=1), IN_S3]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_containers_have_the_same_links_as_processes(shape: ClusterShape) -> None:
    assert [link.name for link in Subnets.of(0, shape).links()] == [
        link.name for link in Addresses.of(0, shape).links()
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_party_has_an_address_of_its_own_on_the_internal_network(shape: ClusterShape) -> None:
    plan = Subnets.of(SLOTS - 1, shape)
    taken = [plan.toxiproxy, plan.s3[0], *(plan.node(node) for node in plan.nodes), *plan.proxy_addresses]
    assert len(set(taken)) == len(taken)
    assert all(ip_address(address) in ip_network(plan.inside) for address in taken)
    between = [link for link in plan.links() if link.src != "client" and link.dst != TIER]
    listening = {link.listen.partition(":")[0] for link in between}
    assert listening == set(plan.proxy_addresses)


def test_no_two_slots_share_a_network() -> None:
    networks = [IPv4Network(net) for slot in range(SLOTS) for net in _networks(Subnets.of(slot, ClusterShape()))]
    assert len(set(networks)) == 2 * SLOTS
    assert all(network.subnet_of(IPv4Network("198.18.0.0/15")) for network in networks)


def _networks(plan: Subnets) -> tuple[str, str]:
    return plan.inside, plan.outside


def test_clients_and_observers_connect_only_to_loopback() -> None:
    plan = Subnets.of(7, IN_S3)
    plan = replace(plan, published={port: 30000 + number for number, port in enumerate(plan.ports)})
    places = [*(plan.client(broker) for broker in plan.brokers), *(plan.direct(node) for node in plan.nodes), plan.api]
    places += [plan.s3_direct]
    assert {host for host, _ in places} == {"127.0.0.1"}
    assert sorted(port for _, port in places) == sorted(plan.published.values())


def test_observers_connect_through_proxies_that_are_no_links() -> None:
    plan = Subnets.of(0, ClusterShape())
    beside = plan.proxies().keys() - {link.name for link in plan.links()}
    assert beside == {"observer-1", "observer-2", "observer-3", "observer-101"}
    assert plan.proxies()["observer-1"] == ("0.0.0.0:23001", "198.18.0.11:21095")
    assert plan.proxies()["observer-101"] == ("0.0.0.0:23101", "198.18.0.60:21093")


def test_each_broker_and_the_harness_reach_the_s3_server_through_a_proxy_of_their_own() -> None:
    plan = Subnets.of(0, IN_S3)
    assert plan.proxies()["b2-tier"] == ("198.18.0.2:26002", "198.18.0.3:21097")
    assert plan.s3_endpoint(2) == "http://198.18.0.2:26002"
    assert plan.proxies()["observer-tier"] == ("0.0.0.0:27000", "198.18.0.3:21097")
    assert Subnets.of(0, ClusterShape()).s3_endpoint(2) is None


def test_a_shape_with_more_links_than_addresses_is_refused() -> None:
    with pytest.raises(BadInput, match="at most 150 links"):
        Subnets.of(0, ClusterShape(brokers=13))


def test_without_an_engine_auto_chooses_processes_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    said: list[str] = []
    assert choose("auto", tmp_path, said.append, said.append) == "processes"
    (line,) = said
    assert line.startswith("backend: processes, because no container engine answers")
    assert choose("processes", tmp_path, said.append, said.append) == "processes"
    with pytest.raises(BadInput, match=r"no container engine answers at unix://.*: start one, or use"):
        choose("containers", tmp_path, said.append, said.append)
    assert said == [line]


def test_without_the_libraries_of_containers_everything_else_works(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["docker"] = sys.modules["testcontainers"] = None
from pathlib import Path
import harness.commands.cli, harness.run
from harness.clusters import choose, clean
print(choose("auto", Path(sys.argv[1]), print, print), clean(root=Path(sys.argv[1])))
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["backend: processes, because docker is not installed", "processes []"]


def test_an_image_contains_the_libraries_of_its_tools() -> None:
    shell = Path("/bin/sh").resolve()
    names = {path.name for path in _libraries([shell], Path("/opt/java")).values()}
    assert any(name.startswith("libc.") for name in names)
    assert any(name.startswith("ld-") for name in names)
    assert _libraries([shell], Path("/")) == {}  # files below the JRE's folder are in the image already


def test_other_content_gives_another_image_name(tmp_path: Path) -> None:
    (tmp_path / "java").write_bytes(b"one")
    before = _name("jre", {"opt/java/bin/java": tmp_path / "java"})
    assert before.startswith("jre:")
    assert _name("jre", {"opt/java/bin/java": tmp_path / "java"}) == before
    (tmp_path / "java").write_bytes(b"other")
    assert _name("jre", {"opt/java/bin/java": tmp_path / "java"}) != before


def test_a_missing_tool_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path: None)
    with pytest.raises(BadInput, match="needs the program ip, which this machine lacks: install it"):
        _tools("ip")


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2026-01-02T03:04:05.123456789Z", 1767323045123456789),
        ("2026-01-02T03:04:05.5Z", 1767323045500000000),
        ("2026-01-02T03:04:05Z", 1767323045000000000),
        ("", None),
    ],
)
def test_timestamps_of_the_engine_are_parsed(text: str, ns: int | None) -> None:
    assert _epoch_ns(text) == ns
