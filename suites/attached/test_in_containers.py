"""The example with docker, on containers of the test's own. Needs an engine in a network namespace of its own, as
`.ci/engine` starts it, and root."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from harness.kafka.release.cache import default_cache
from harness.kafka.release.java import find_java
from harness.model.exits import Exit
from harness.model.waiting import wait_for
from suites.attached.by_hand import BROKERS, CLUSTER_ID, RELEASE, ByHand
from suites.attached.playing import IN_TURN, durability, names

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

EXAMPLE = Path(str(files("harness.clusters.attached").joinpath("examples/docker.toml")))
CUT_OFF = Path(__file__).with_name("cut_off.toml")
NETWORK = "durability-own"
SUBNET = "198.19.250.0/24"  # in a range for tests between devices (RFC 2544)
IMAGE = "durability-own-empty"
PORTS = (9092, 9093)


def docker(*arguments: object, check: bool = True) -> str:
    done = subprocess.run(
        ["docker", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0 or not check, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def contained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ByHand]:
    """Three containers kafka-1, kafka-2 and kafka-3, each with a broker that is a controller, too."""
    if os.geteuid() != 0 or shutil.which("docker") is None or docker("version", check=False).count("Version:") < 2:
        pytest.skip("no container engine, or no rights to change its networks")
    hosts = {broker: SUBNET.replace("0/24", str(10 + broker)) for broker in BROKERS}
    settings = {"log.retention.check.interval.ms": "1000", "replica.lag.time.max.ms": "5000"}
    folder = tmp_path_factory.mktemp("contained")
    cluster = ByHand(folder, dict.fromkeys(BROKERS, PORTS), settings, combined=True, hosts=hosts)
    cluster.write()
    subprocess.run(f"tar --create --files-from /dev/null | docker import - {IMAGE}", shell=True, check=True)
    docker("network", "create", "--internal", "--subnet", SUBNET, NETWORK)
    try:
        for broker in BROKERS:
            run(cluster, broker)
        for broker in BROKERS:
            wait_for(
                lambda broker=broker: docker("logs", f"kafka-{broker}"),  # type: ignore[misc]
                until=lambda log: "Kafka Server started" in log,
                deadline_s=90,
                what=f"container kafka-{broker}",
            )
        yield cluster
    finally:
        docker("rm", "--force", "--volumes", *(f"kafka-{broker}" for broker in BROKERS), check=False)
        docker("network", "rm", NETWORK, check=False)
        docker("image", "rm", "--force", IMAGE, check=False)


def run(cluster: ByHand, broker: int) -> None:
    """Starts a container. Its image is empty: programs and libraries are those of this machine."""
    java = find_java(RELEASE).executable
    shown = [*map(Path, ("/bin", "/etc", "/lib", "/lib64", "/usr")), java.parents[1], default_cache()]
    mounts = [word for path in shown if path.exists() for word in ("--volume", f"{path}:{path}:ro")]
    docker(
        *("run", "--detach", "--name", f"kafka-{broker}", "--network", NETWORK, "--ip", cluster.hosts[broker]),
        *(*mounts, "--volume", f"{cluster.folder}:{cluster.folder}", "--tmpfs", "/tmp"),
        *(IMAGE, *shlex.split((cluster.node(broker) / "command").read_text("utf-8"))),
    )


@pytest.mark.parametrize("scenario", [IN_TURN, CUT_OFF], ids=lambda scenario: scenario.stem)
def test_the_example_with_docker_breaks_and_restores_nodes_and_links(
    contained: ByHand, tmp_path: Path, scenario: Path
) -> None:
    arguments = ["run", scenario, "--hooks", EXAMPLE, "--allow-faults", CLUSTER_ID, "--records", 30_000, "--tries", 1]
    code, output, errors = durability(contained.bootstrap, tmp_path, *arguments, "--out", tmp_path / "out")
    assert code == Exit.PASS, output + errors
    running = docker("ps", "--filter", "name=kafka-", "--format", "{{.Names}} {{.Status}}").splitlines()
    assert len([line for line in running if "Up" in line and "Paused" not in line]) == len(BROKERS)
    assert names(contained.bootstrap) <= {"__consumer_offsets", "__transaction_state"}
