"""The container backend: each node a container of its own, on a network that leads nowhere.

A node's files lie under the same paths inside as outside, so that everything which reads them works as with processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from harness.clusters import reap
from harness.clusters.archive import TRAINING, class_archive
from harness.clusters.base import party
from harness.clusters.container_runner import Containers
from harness.clusters.engine import ROOT_LABEL, RUN_LABEL, asking, engine
from harness.clusters.format import formatted, new_uuid
from harness.clusters.images import images
from harness.clusters.jvms import TOXIPROXY, JvmCluster, Means
from harness.clusters.nodes import write_node
from harness.clusters.processes import CAPABILITIES as OF_PROCESSES
from harness.clusters.processes import supervised
from harness.clusters.state import RunState, remove_directory
from harness.clusters.subnets import Subnets
from harness.clusters.sweep import sweep, sweep_engine
from harness.clusters.toxiproxy import ToxiproxyClient
from harness.kafka.cache import Cache
from harness.kafka.java import find_java
from harness.kafka.release import Release
from harness.kafka.toxiproxy_server import toxiproxy_server
from harness.model.backend import CONTAINERS
from harness.model.errors import HarnessFailure, HarnessTimeout
from harness.model.scenario import ClusterShape

Progress = Callable[[str], None]

# The limits of a container's process are the engine's to set: who owns the files inside need not own the process.
CAPABILITIES: Final = OF_PROCESSES - {"disk.full"}


def start_containers(
    release: Release, shape: ClusterShape, *, root: Path, keep: bool, progress: Progress, cache: Path
) -> JvmCluster:
    """A cluster whose every node has started. Whatever goes wrong on the way, nothing is left behind."""
    client = engine()
    for line in (*sweep(root), *sweep_engine(root)):
        progress(line)
    taken = images(client, cache, progress)
    binary = toxiproxy_server(cache, progress)
    source = formatted(release, shape, find_java(release.version), Cache(cache), progress)
    state, supervision = supervised(root, release, keep=keep, backend=CONTAINERS)
    try:
        plan = Subnets.of(state.slot, shape)
        labels = {RUN_LABEL: state.run, ROOT_LABEL: str(root.absolute())}
        supervision.farewell([sys.executable, "-I", str(Path(reap.__file__)), f"{RUN_LABEL}={state.run}"])
        inside = _network(plan.inside, labels, internal=True)
        outside = _network(plan.outside, labels, internal=False)
        runner = Containers(
            client,
            state,
            labels,
            taken,
            inside,
            _addresses(plan),
            [_common(release)],
            supervision,
        )
        plan = replace(plan, published=runner.run_proxy(binary, plan, outside))
        state = replace(state, bootstrap=plan.bootstrap())
        state.save()
        cluster = _cluster(release, shape, state, runner, plan, source, Cache(cache), progress)
        cluster.bring_up()
    except BaseException as error:
        try:
            supervision.stop()  # its farewell takes the containers and the networks
            remove_directory(state.directory)
        except (HarnessTimeout, HarnessFailure) as late:
            error.add_note(str(late))
        raise
    return cluster


def _cluster(
    release: Release,
    shape: ClusterShape,
    state: RunState,
    runner: Containers,
    plan: Subnets,
    source: Path,
    cache: Cache,
    progress: Progress,
) -> JvmCluster:
    archive = class_archive(
        release,
        java=runner.images.java,
        machine=runner.images.digest,
        environment={},
        runner=runner,
        plan=plan,
        directory=state.directory / TRAINING,
        formatted=source,
        cache=cache,
        progress=progress,
    )
    if archive:
        runner.shared.append(archive)
    cluster_id = new_uuid()
    nodes = {
        node: write_node(
            node,
            release,
            shape,
            plan,
            formatted=source,
            cluster_id=cluster_id,
            directory=state.directory / "nodes",
            machine=party(node),
            extra_flags=(f"-XX:SharedArchiveFile={archive}",) if archive else (),
        )
        for node in plan.nodes
    }
    means = Means(
        runner=runner,
        plan=plan,
        toxiproxy=ToxiproxyClient(*plan.api),
        java=runner.images.java,
        environment={},
        capabilities=CAPABILITIES,
        formatted=source,
    )
    return JvmCluster(release, shape, state, means, nodes)


def _addresses(plan: Subnets) -> dict[str, str]:
    """Of every container, by name. What trains for a fast start is gone before the node whose address it has begins."""
    nodes = {party(node): plan.node(node) for node in plan.nodes}
    return {**nodes, TOXIPROXY: plan.toxiproxy, TRAINING: plan.node(plan.controllers[0])}


def _network(subnet: str, labels: dict[str, str], *, internal: bool) -> Any:
    """Ports that a container on it publishes without naming an address are bound to 127.0.0.1, too."""
    from docker.types import IPAMConfig, IPAMPool
    from testcontainers.core.network import Network

    settings = {
        "driver": "bridge",
        "internal": internal,
        "labels": labels,
        "options": {} if internal else {"com.docker.network.bridge.host_binding_ipv4": "127.0.0.1"},
        "ipam": IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]),
    }
    with asking(f"make the network {subnet}"):
        return Network(docker_network_kw=settings).create()


def _common(release: Release) -> Path:
    """The folder that holds the whole classpath."""
    return Path(os.path.commonpath([entry if entry.is_dir() else entry.parent for entry in release.classpath]))
