"""The process backend: real Kafka as local JVMs behind toxiproxy, no root, no Docker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.clusters.addresses import TOXIPROXY_PORT, Addresses
from harness.clusters.archive import class_archive, machine_of
from harness.clusters.format import formatted, new_uuid
from harness.clusters.jvms import TOXIPROXY, JvmCluster, Means, proxy_log
from harness.clusters.nodes import NodeFiles, environment, write_node
from harness.clusters.slots import take_slot
from harness.clusters.state import RunState, new_run, remove_directory
from harness.clusters.supervision import Supervision
from harness.clusters.sweep import sweep
from harness.clusters.toxiproxy import ToxiproxyClient
from harness.kafka.cache import Cache
from harness.kafka.java import Java, find_java
from harness.kafka.release import Release
from harness.kafka.toxiproxy_server import toxiproxy_server
from harness.model.backend import PROCESSES
from harness.model.errors import HarnessTimeout
from harness.model.scenario import ClusterShape

Progress = Callable[[str], None]

CAPABILITIES: Final = frozenset(
    {"links", "kill", "terminate", "pause", "restart", "disk.read", "disk.write", "disk.full"}
)


def start_processes(
    release: Release,
    shape: ClusterShape,
    *,
    root: Path,
    keep: bool,
    progress: Progress,
    cache: Path,
    java: Java | None = None,
) -> JvmCluster:
    """A cluster whose every node has started. Whatever goes wrong on the way, nothing is left behind."""
    for line in sweep(root):
        progress(line)
    java = java or find_java(release.version)
    if java.note:
        progress(java.note)
    proxy_binary = toxiproxy_server(cache, progress)
    source = formatted(release, shape, java, Cache(cache), progress)
    state, supervision = supervised(root, release, keep=keep)
    addresses = Addresses.of(state.slot, shape)
    state = replace(state, bootstrap=addresses.bootstrap())
    nodes: dict[int, NodeFiles] = {}
    means = Means(
        runner=supervision,
        plan=addresses,
        toxiproxy=ToxiproxyClient(addresses.toxiproxy, TOXIPROXY_PORT),
        java=str(java.executable),
        environment=environment(),
        capabilities=CAPABILITIES,
        formatted=source,
    )
    cluster = JvmCluster(release, shape, state, means, nodes)
    try:
        state.save()
        _start_toxiproxy(proxy_binary, state.directory, means)
        archive = class_archive(
            release,
            java=means.java,
            machine=machine_of(java),
            environment=means.environment,
            runner=supervision,
            plan=addresses,
            directory=state.directory / "training",
            formatted=source,
            cache=Cache(cache),
            progress=progress,
        )
        cluster_id = new_uuid()
        for node in addresses.nodes:
            nodes[node] = write_node(
                node,
                release,
                shape,
                addresses,
                formatted=source,
                cluster_id=cluster_id,
                directory=state.directory / "nodes",
                extra_flags=(f"-XX:SharedArchiveFile={archive}",) if archive else (),
            )
        cluster.bring_up()
    except BaseException as error:
        try:
            cluster.stop()
        except HarnessTimeout as late:
            error.add_note(str(late))
        raise
    return cluster


def supervised(root: Path, release: Release, *, keep: bool, backend: str = PROCESSES) -> tuple[RunState, Supervision]:
    """A run of its own: a slot, a directory, and the supervisor that holds the slot and outlives the harness."""
    slot = take_slot()
    try:
        state = new_run(root, slot=slot.number, release=release.version, kept=keep, backend=backend)
        try:
            supervision = Supervision(state.directory, slot.descriptor, stay=keep)
        except BaseException:
            remove_directory(state.directory)
            raise
    finally:
        slot.let_go()  # the supervisor and what it starts hold it from here on
    return state.supervised_by(supervision.pid), supervision


def _start_toxiproxy(binary: Path, directory: Path, means: Means) -> None:
    config, log = directory / "toxiproxy.json", proxy_log(directory)
    config.write_text(means.plan.toxiproxy_config(), "utf-8")
    address = ["-host", means.toxiproxy.host, "-port", str(means.toxiproxy.port)]
    means.runner.start(
        TOXIPROXY,
        [str(binary), *address, "-config", str(config)],
        cwd=directory,
        output=log,
        env={**means.environment, "LOG_LEVEL": "error"},
    )
