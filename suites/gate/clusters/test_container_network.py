"""No packet of a run with containers leaves its own networks. Packets are counted on a route that the test opens.

The test runs only where that route is harmless: as root, in a network namespace without a default route.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fixtures.plugin import MissingCapability
from harness.model.backend import CONTAINERS
from harness.model.scenario.scenario import ClusterShape
from harness.model.waiting import wait_for
from suites.gate.cluster_probes import TOPIC, create_topic, produce, quiet, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

OUT, FAR = "kd-out", "kd-far"
GATEWAY = "192.0.2.2"  # an address for documentation (RFC 5737), which no machine has
ELSEWHERE = "203.0.113.1"


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def sent() -> int:
    """Packets sent on the way out. /sys may show the interfaces of another network namespace."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()
    return next(int(line.split()[10]) for line in lines if line.strip().startswith(f"{OUT}:"))


@pytest.fixture
def way_out(backend: str, missing_capability: MissingCapability) -> Iterator[None]:
    """A default route to an interface without a machine behind it."""
    if backend != CONTAINERS:
        pytest.skip(reason="a test of containers: processes have only loopback addresses")
    if os.geteuid() != 0:
        missing_capability("only root can change routes")
    if ip("route", "show", "default") + ip("-6", "route", "show", "default"):
        missing_capability("there is a real default route: run under nsenter in the namespace of .ci/engine")
    ip("link", "add", OUT, "type", "veth", "peer", "name", FAR)
    try:
        for end in (OUT, FAR):
            ip("link", "set", end, "addrgenmode", "none")  # so that the kernel sends no packets
            ip("link", "set", end, "up")
        ip("addr", "add", "192.0.2.1/24", "dev", OUT)
        ip("neigh", "add", GATEWAY, "lladdr", "02:00:00:00:00:01", "dev", OUT, "nud", "permanent")
        ip("route", "add", "default", "via", GATEWAY)
        yield
    finally:
        ip("link", "del", OUT)


def test_no_packet_leaves_during_a_run_its_faults_and_its_end(way_out: None, tmp_path: Path) -> None:
    before = sent()
    with start(tmp_path, ClusterShape(brokers=2), backend=CONTAINERS) as cluster:
        create_topic(cluster)
        assert produce(cluster.bootstrap()) is None
        cluster.kill(2)
        # toxiproxy and the other nodes keep connecting to an address without a machine; min.insync.replicas is 2.
        assert produce(cluster.bootstrap(), deadline_s=5) is not None
        outlives = Producer(quiet({"bootstrap.servers": f"{cluster.bootstrap()},{cluster.bootstrap_direct()}"}))
        outlives.produce(TOPIC, b"value")
    outlives.flush(3)  # the client goes on after the networks were removed
    assert sent() == before
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stray:
        stray.sendto(b"x", (ELSEWHERE, 9))
    wait_for(sent, until=lambda count: count > before, deadline_s=5, what="the count of a packet that does leave")


CHOOSE = """
from harness.clusters import choose
from harness.kafka.release.cache import default_cache
choose("auto", default_cache(), lambda text: None, print)
"""


@pytest.mark.parametrize(
    ("prefix", "line"),
    [
        ((), "backend: containers on engine "),
        (
            ("unshare", "--net"),
            "backend: processes, because the networks of the container engine are not on this",
        ),
    ],
    ids=["with the engine", "in another network namespace"],
)
def test_auto_chooses_containers_only_if_their_ports_can_be_reached(
    backend: str, missing_capability: MissingCapability, prefix: tuple[str, ...], line: str
) -> None:
    if backend != CONTAINERS:
        pytest.skip(reason="a test of containers: run it with --backend containers")
    if prefix and os.geteuid() != 0:
        missing_capability("only root can make a network namespace")
    done = subprocess.run([*prefix, sys.executable, "-c", CHOOSE], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(line)
