"""A cluster with real files and without a process, for tests of what the cluster writes and remembers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from harness.clusters.base import START, TESTED
from harness.clusters.nodes.jvm_cluster import BackendResources, JvmCluster
from harness.clusters.nodes.launch import JavaLaunch
from harness.clusters.nodes.node_files import Site, write_nodes
from harness.clusters.nodes.storage_format import Formatted
from harness.clusters.processes.addresses import Addresses
from harness.kafka.release.release import Release
from harness.model.scenario.scenario import ClusterShape

TESTED_VERSION = "4.3.1"  # with log4j 2; releases before 4.0 have log4j 1


def without_processes(folder: Path, runner: Any, shape: ClusterShape) -> JvmCluster:
    """A cluster of 4.3.1, which starts on the release that its shape names, if any. runner: says what runs."""
    formatted = folder / "formatted"
    formatted.mkdir()
    (formatted / "meta.properties").write_text("node.id=1\ncluster.id=c\ndirectory.id=d\n")
    plan = Addresses.of(0, shape)
    versions = {TESTED: TESTED_VERSION} | ({START: shape.starts_on} if shape.starts_on else {})
    sites = {
        which: Site(
            release=Release(version, "abc", "here", (Path(f"/jars/{version}/{_first_jar(version)}"),)),
            shape=shape,
            plan=plan,
            launch=JavaLaunch("java", "m", (Path(f"/jars/{version}.jar"),), {}),
            runner=runner,
            formatted=Formatted(formatted, formatted),
            directory=folder / "run",
            disks=None,
            host=str,
            fast_start=(f"-XX:SharedArchiveFile={version}.jsa",),
        )
        for which, version in versions.items()
    }
    resources = BackendResources(
        runner=runner, plan=plan, toxiproxy=cast(Any, None), capabilities=frozenset(), formatted=formatted
    )
    state: Any = SimpleNamespace(directory=folder / "run")
    return JvmCluster(sites, state, resources, write_nodes(sites))


def _first_jar(version: str) -> str:
    return "log4j-core-2.jar" if version == TESTED_VERSION else f"kafka-{version}.jar"
