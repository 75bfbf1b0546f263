"""The container backend: each node a container of its own, on a network that leads nowhere.

A node's files lie under the same paths inside as outside, so that everything which reads them works as with processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.clusters.base import START, TESTED, party
from harness.clusters.choosing import able
from harness.clusters.containers import reap
from harness.clusters.containers.broker_images import STORAGE, image_tool
from harness.clusters.containers.container_runner import Containers
from harness.clusters.containers.engine import ROOT_LABEL, RUN_LABEL, asking, check_limits, engine
from harness.clusters.containers.images import Images, images
from harness.clusters.containers.subnets import Subnets
from harness.clusters.disks.loop_devices import OwnDisks
from harness.clusters.network.toxiproxy import ToxiproxyClient
from harness.clusters.nodes.clocks import library
from harness.clusters.nodes.jvm_cluster import TOXIPROXY, BackendResources, JvmCluster
from harness.clusters.nodes.launch import EntryLaunch, ImageLaunch, JavaLaunch, Launch
from harness.clusters.nodes.node_files import Site
from harness.clusters.nodes.s3_server import S3_SERVER, S3Server
from harness.clusters.nodes.security import Security
from harness.clusters.nodes.storage_format import StorageTool, formatted, java_tool
from harness.clusters.nodes.tier_folder import make_store, tier_jars
from harness.clusters.nodes.write_nodes import with_fast_start, write_nodes
from harness.clusters.processes.backend import abandon, own_disks, supervised
from harness.clusters.processes.class_data_archive import TRAINING
from harness.clusters.state import RunState
from harness.clusters.sweep import sweep, sweep_engine
from harness.kafka.release.cache import Cache
from harness.kafka.release.go_tool import S3_TOOL, TOXIPROXY_TOOL, go_tool
from harness.kafka.release.image_layout import BrokerImage
from harness.kafka.release.java import find_java
from harness.kafka.release.release import Release
from harness.model.backend import CONTAINERS
from harness.model.errors import BadInput
from harness.model.limits import NO_LIMITS, Limits
from harness.model.scenario.scenario import ClusterShape

Progress = Callable[[str], None]


def start_containers(
    release: Release,
    shape: ClusterShape,
    *,
    root: Path,
    keep: bool,
    progress: Progress,
    cache: Path,
    limits: Limits = NO_LIMITS,
    starts_on: Release | None = None,
) -> JvmCluster:
    """A cluster whose every node has started. Whatever goes wrong on the way, nothing is left behind.

    starts_on: what nodes begin on, where that is not `release`.
    """
    releases = {TESTED: release} | ({START: starts_on} if starts_on else {})
    if shape.clock and release.image:
        raise BadInput(
            f"{release.image.spec}: what sets clocks may not fit the C library of an image: say --kafka VERSION"
        )
    client = engine()
    check_limits(client, limits)
    for line in (*sweep(root), *sweep_engine(root)):
        progress(line)
    taken = images(client, cache, progress, release.image)
    proxy_binary = go_tool(TOXIPROXY_TOOL, cache, progress)
    s3_binary = go_tool(S3_TOOL, cache, progress) if shape.tier == "s3" else None
    state, supervision = supervised(root, release, keep=keep, backend=CONTAINERS)
    try:
        plan = Subnets.of(state.slot, shape)
        labels = {RUN_LABEL: state.run, ROOT_LABEL: str(root.absolute())}
        supervision.farewell([sys.executable, "-I", str(Path(reap.__file__)), f"{RUN_LABEL}={state.run}"])
        inside = _network(plan.inside, labels, internal=True)
        outside = _network(plan.outside, labels, internal=False)
        disks = own_disks(shape, state, supervision)  # their farewell comes after the containers'
        runner = Containers(
            client,
            state,
            labels,
            taken,
            inside,
            _addresses(plan),
            _readable(releases.values(), shape, Cache(cache)),
            supervision,
            limits,
            make_store(state.directory, shape),
            release.image.layout.folders if release.image else {},
        )
        plan = replace(plan, published=runner.run_proxy(proxy_binary, plan, outside))
        server = S3Server(s3_binary, state.directory, plan, runner, {}) if s3_binary else None
        if server:
            server.admit()
        state = replace(state, bootstrap=plan.bootstrap())
        state.save()
        cluster = _cluster(releases, shape, state, runner, plan, disks, Cache(cache), progress)
        cluster.tier_server = server
        cluster.bring_up()
    except BaseException as error:
        abandon(state, supervision, error)  # the supervisor's farewell takes the containers and the networks
        raise
    return cluster


def _cluster(
    releases: Mapping[str, Release],
    shape: ClusterShape,
    state: RunState,
    runner: Containers,
    plan: Subnets,
    disks: OwnDisks | None,
    cache: Cache,
    progress: Progress,
) -> JvmCluster:
    security = Security.of(state.directory, shape)
    sites: dict[str, Site] = {}
    for which, release in releases.items():
        launch, tool = _by_image(release.image, runner) if release.image else _by_jars(release, runner.images)
        site = Site(
            release=release,
            shape=shape,
            plan=plan,
            launch=launch,
            runner=runner,
            formatted=formatted(release, shape, tool, cache, progress),
            directory=state.directory,
            disks=disks,
            host=party,
            security=security,
        )
        sites[which] = _by_entry_point(site, cache, progress) or with_fast_start(site, cache, progress)
    resources = BackendResources(
        runner=runner,
        plan=plan,
        toxiproxy=ToxiproxyClient(*plan.api),
        capabilities=able(CONTAINERS),
        formatted=sites.get(START, sites[TESTED]).formatted.later,
        disks=disks,
        memory=runner,
    )
    return JvmCluster(sites, state, resources, write_nodes(sites))


def _by_entry_point(site: Site, cache: Cache, progress: Progress) -> Site | None:
    """The same where an image's entry point starts its nodes; None where they start otherwise."""
    image = site.release.image
    if image is None or not image.entry:
        return None
    if site.shape.voters == "dynamic":
        progress(
            f"{image.spec}: nodes start by its start scripts, for its entry point refuses storage whose voters are not "
            f"among the settings (KIP-853)"
        )
        return None
    fast = site if image.layout.own_archive else with_fast_start(site, cache, progress)
    return replace(fast, launch=EntryLaunch(image))


def _by_image(image: BrokerImage, runner: Containers) -> tuple[Launch, StorageTool]:
    return ImageLaunch(image), image_tool(image, runner)


def _by_jars(release: Release, images: Images) -> tuple[Launch, StorageTool]:
    """Storage is formatted by a Java of this machine, nodes run on the image's."""
    launch = JavaLaunch(images.java, images.digest, release.classpath, {})
    return launch, java_tool(release, find_java(release.version))


def _readable(releases: Iterable[Release], shape: ClusterShape, cache: Cache) -> list[Path]:
    """What every node may read beside its own files: class-data archives, jars where no image brings them, and what
    sets its clock where that is asked for.

    Jars of each release that the cluster may run: a container keeps the mounts that it was made with.
    """
    clocks = library() if shape.clock else None
    jars = {_common(release.classpath) for release in releases if not release.image}
    jars |= {_common(needed) for release in releases for needed in tier_jars(release, shape) if needed}
    return [cache.root / "tools", *sorted(jars), *([clocks] if clocks else [])]


def _addresses(plan: Subnets) -> dict[str, str]:
    """Of every container, by name. What runs before the nodes has the address of one, and is gone when that begins."""
    nodes = {party(node): plan.node(node) for node in plan.nodes}
    before = dict.fromkeys((STORAGE, TRAINING), plan.node(plan.controllers[0]))
    return {**nodes, **before, TOXIPROXY: plan.toxiproxy, S3_SERVER: plan.s3[0]}


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


def _common(classpath: Iterable[Path]) -> Path:
    """The folder that holds all of a classpath."""
    return Path(os.path.commonpath([entry if entry.is_dir() else entry.parent for entry in classpath]))
