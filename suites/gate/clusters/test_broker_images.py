"""Images of brokers on a real engine: a cluster of each layout serves and survives faults; unusable images are refused.

The images are built here, from the jars of the pinned release. No registry is needed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.clusters import find_release
from harness.clusters.containers.engine import PULL_SILENCE_S, RUN_LABEL, engine, short_lived_labels
from harness.clusters.containers.images import images
from harness.clusters.nodes.jvm_cluster import TOXIPROXY, JvmCluster
from harness.clusters.nodes.storage_format import identity_of
from harness.commands import cli
from harness.kafka.release.cache import default_cache
from harness.kafka.release.image_layout import LAYOUTS
from harness.kafka.release.release import Release, resolve
from harness.kafka.storage.uuids import new_uuid
from harness.model.backend import CONTAINERS
from harness.model.errors import HarnessFailure
from harness.model.exits import Exit
from harness.model.limits import MIB, Limits
from harness.model.scenario.scenario import ClusterShape
from harness.model.waiting import wait_for
from suites.gate.cluster_probes import RELEASE, create_topic, isr, living, produce, start
from suites.gate.clusters.layouts import build, load_foreign

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

CPUS = 1.0
LIMITS = Limits(memory=768 * MIB, cpus=CPUS)
# No registry listens there: the engine asks only this machine, and is refused at once.
NOWHERE = "localhost:9/kafka-durability-test:absent"


@pytest.fixture(scope="module")
def client(backend: str) -> Iterator[Any]:
    if backend != CONTAINERS:
        pytest.skip(reason="a test of containers: run it with --backend containers")
    client = engine()
    yield client
    client.close()


@pytest.fixture(scope="module")
def base(client: Any) -> str:
    """The name of the image with a JRE."""
    return images(client, default_cache(), print).node


@pytest.fixture(scope="module")
def jars(client: Any) -> Release:
    return resolve(RELEASE, maven_repo=None, cache=default_cache(), progress=print)


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda layout: layout.makers)
def brokers(
    request: pytest.FixtureRequest, client: Any, base: str, jars: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    """The release in an image with the layout of one of the makers."""
    reference = f"kafka-durability-test/{request.param.makers}:{RELEASE}"
    build(client, reference, base, request.param, jars, tmp_path_factory.mktemp("context"))
    yield find(f"image:{reference}")
    client.images.remove(reference, force=True)


@pytest.fixture(scope="module")
def cluster(client: Any, brokers: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JvmCluster]:
    """A cluster of three brokers of the image, with limits."""
    root, volumes = tmp_path_factory.mktemp("runs"), orphans(client)
    with start(root, ClusterShape(), backend=CONTAINERS, release=brokers, limits=LIMITS) as cluster:
        create_topic(cluster)
        yield cluster
        assert cluster.unexpected_exits() == []
    assert living(CONTAINERS, cluster.directory) == []
    assert list(root.iterdir()) == []
    assert orphans(client) == volumes  # the images of both makers declare volumes


def orphans(client: Any) -> set[str]:
    """Volumes without a container."""
    return {volume.name for volume in client.volumes.list(filters={"dangling": True})}


@pytest.fixture(scope="module")
def other_entry(client: Any, base: str, jars: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """The release in an image with a maker's jars and start scripts, and with another entry point."""
    reference = f"kafka-durability-test/own:{RELEASE}"
    build(client, reference, base, LAYOUTS[0], jars, tmp_path_factory.mktemp("own"), entry=False)
    yield find(f"image:{reference}")
    client.images.remove(reference, force=True)


def test_an_image_without_the_makers_entry_point_starts_by_its_scripts(other_entry: Release, tmp_path: Path) -> None:
    assert "started by its start scripts" in other_entry.line()
    with start(tmp_path, ClusterShape(brokers=1, controllers=1), backend=CONTAINERS, release=other_entry) as cluster:
        create_topic(cluster)
        assert produce(cluster.bootstrap()) is None
        assert "RUN_AS" not in psutil.Process(cluster.pid(1)).environ()
        cluster.kill(1)
        cluster.start(1)
        cluster.wait_started(1, 60)


def find(spec: str) -> Release:
    return find_release(spec, maven_repo=None, cache=default_cache(), progress=print)


def test_an_image_is_the_build_of_its_jars(brokers: Release, jars: Release) -> None:
    assert brokers.image is not None
    assert (brokers.version, brokers.commit) == (jars.version, jars.commit)
    assert sorted(path.name for path in brokers.classpath) == sorted(path.name for path in jars.classpath)
    assert {str(path.parent) for path in brokers.classpath} == {brokers.image.layout.jars}
    assert brokers.line().startswith(f"Kafka {RELEASE} (commit {jars.commit}) from image:kafka-durability-test/")


def test_the_entry_point_of_the_image_becomes_the_node(cluster: JvmCluster) -> None:
    image = cluster.release.image
    assert image is not None
    assert "started by its entry point" in cluster.release.line()
    for node in (*cluster.brokers, *cluster.controllers):
        process = psutil.Process(cluster.pid(node))
        environment = process.environ()
        assert environment["RUN_AS"] == f"{image.layout.run} 1"  # the first process of its container
        assert environment.get("ENTERED_BY", image.layout.run) == image.entry[0]
        assert environment["CLUSTER_ID"] == identity_of(cluster.log_directories(node)[0])["cluster.id"]
        assert "lready formatted" in cluster.console_log(node).read_text("utf-8")
        settings = process.cmdline()[-1]
        assert settings.startswith(tuple(image.layout.folders))
        assert reported(cluster, node, Path(settings).name).items() >= given(cluster, node).items()


def files(cluster: JvmCluster, node: int) -> Path:
    return cluster.log_directories(node)[0].parent


def reported(cluster: JvmCluster, node: int, name: str) -> dict[str, str]:
    """The settings that the entry point wrote for a node."""
    return settings_in(files(cluster, node) / "config" / name)


def given(cluster: JvmCluster, node: int) -> dict[str, str]:
    """The settings that it was given. Without a settings file, a controller listens on the name that it advertises."""
    settings = settings_in(files(cluster, node) / "server.properties")
    assert cluster.release.image is not None
    if cluster.release.image.layout.settings_file is None and node in cluster.controllers:
        settings["listeners"] = settings.pop("advertised.listeners")
    return settings


def settings_in(path: Path) -> dict[str, str]:
    lines = path.read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_a_cluster_of_an_image_serves_and_survives_a_kill(cluster: JvmCluster) -> None:
    assert produce(cluster.bootstrap()) is None
    cluster.kill(1)
    assert not cluster.running(1)
    wait_for(lambda: isr(cluster), until=lambda seen: seen[0] in (2, 3), deadline_s=30, what="a new leader")
    assert produce(cluster.bootstrap()) is None
    cluster.start(1)
    cluster.wait_started(1, 60)
    wait_for(lambda: isr(cluster), until=lambda seen: len(seen[1]) == 3, deadline_s=60, what="a full ISR")
    assert produce(cluster.bootstrap()) is None
    cluster.terminate(2)
    assert "shut down completed" in cluster.server_log(2).read_text("utf-8")
    cluster.start(2)
    cluster.wait_started(2, 60)


def test_nodes_run_jars_of_the_image_with_arguments_and_user_of_the_harness(cluster: JvmCluster) -> None:
    """The harness has to read and remove their files without being root. The fixture `cluster` removes them."""
    assert cluster.release.image is not None
    for node in (*cluster.brokers, *cluster.controllers):
        process = psutil.Process(cluster.pid(node))
        command = process.cmdline()
        classpath = command[command.index("-cp") + 1].split(":")
        assert {str(Path(entry).parent) for entry in classpath} == {cluster.release.image.layout.jars}
        assert {"-Xmx384m", "@java.args"} <= set(command)
        assert process.uids().real == os.getuid()
        assert cluster.log_directories(node)[0].stat().st_uid == os.getuid()


def test_the_entry_point_refuses_another_cluster_id(cluster: JvmCluster) -> None:
    """It refuses a cluster id that differs from the storage's, and a missing one."""
    right = cluster._nodes[3]
    without = {name: value for name, value in right.command.env.items() if name != "CLUSTER_ID"}
    cluster.terminate(3)
    for env, reason in (
        ({**without, "CLUSTER_ID": new_uuid()}, "Invalid cluster.id"),
        (without, "luster"),  # one maker uses a fixed id, the other an empty one
    ):
        written = right.console.stat().st_size
        cluster._nodes[3] = replace(right, command=replace(right.command, env=env))
        cluster.start(3)
        cluster.let_end(3)
        with pytest.raises(HarnessFailure, match=r"b3 ended before it had started \(exit code 1\)"):
            cluster.wait_started(3, 60)
        assert reason in right.console.read_text("utf-8")[written:]
    cluster._nodes[3] = right
    cluster.start(3)
    cluster.wait_started(3, 60)
    wait_for(lambda: isr(cluster), until=lambda seen: len(seen[1]) == 3, deadline_s=60, what="a full ISR")


# cgroups v2, then v1. The image has no programs, so the shell reads the file itself.
READ_LIMIT = """
for file in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
    if [ -r $file ]; then read limit <$file; echo $limit; exit; fi
done
"""


def test_limits_apply_to_nodes_and_not_to_toxiproxy(client: Any, cluster: JvmCluster) -> None:
    for name in ("b1", "c101"):
        node = client.containers.get(f"{cluster.state.run}-{name}")
        assert node.attrs["HostConfig"]["NanoCpus"] == CPUS * 10**9
        code, limit = node.exec_run(["/bin/sh", "-c", READ_LIMIT])
        assert (code, limit.decode().strip()) == (0, str(LIMITS.memory))
    proxy = client.containers.get(f"{cluster.state.run}-{TOXIPROXY}")
    assert proxy.attrs["HostConfig"]["NanoCpus"] == 0


@pytest.fixture
def foreign(client: Any) -> Iterator[str]:
    """An image of another architecture."""
    reference = "kafka-durability-test/foreign:1"
    load_foreign(client, reference, "arm64" if client.version()["Arch"] == "amd64" else "amd64")
    yield reference
    client.images.remove(reference, force=True)


def refused(spec: str, client: Any, out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence with which a gate on this image ends. Checks that nothing is left of the gate."""
    assert cli.invoke(["gate", "--backend", CONTAINERS, "--kafka", spec, "--out", str(out)]) is Exit.USAGE
    assert not out.exists()
    mine = {"label": f"{RUN_LABEL}={short_lived_labels()[RUN_LABEL]}"}
    assert client.containers.list(all=True, filters=mine) == []
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("durability:")]
    return line


def test_a_missing_image_that_cannot_be_pulled_is_refused_quickly(
    client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    line = refused(f"image:{NOWHERE}", client, tmp_path / "out", capsys)
    assert re.search(r"the engine has no such image and cannot pull it \(.+\): check its name", line)
    assert time.monotonic() - began < PULL_SILENCE_S + 10


def test_an_image_of_another_architecture_is_refused(
    client: Any, foreign: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(f"image:{foreign}", client, tmp_path / "out", capsys)
    assert re.search(r"is built for \w+64, and this engine runs \w+: pull it for linux/\w+", line)


def test_an_image_without_kafka_is_refused(
    client: Any, base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(f"image:{base}", client, tmp_path / "out", capsys)
    assert "holds no Kafka that can be run: it has neither /opt/kafka/libs (apache/kafka) nor " in line
