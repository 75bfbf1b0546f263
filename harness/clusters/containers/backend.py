"""The container backend: each node is a container, on a network without a way out.

A node's files have the same paths inside and outside of its container, so code that reads them works as with processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from harness.clusters.nodes.node_files import Site, write_nodes
from harness.clusters.nodes.s3_server import S3_SERVER, S3Server
from harness.clusters.nodes.security import Security
from harness.clusters.nodes.storage_format import StorageTool, formatted, java_tool
from harness.clusters.nodes.tier_folder import make_store, tier_jars
from harness.clusters.processes.backend import own_disks, supervised
from harness.clusters.processes.class_data_archive import TRAINING, with_fast_start
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

if TYPE_CHECKING:
    from docker.models.networks import Network

Progress = Callable[[str], None]


def make_containers(
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
    """Makes a cluster whose nodes do not run yet. When that fails, nothing is left behind.

    starts_on: the earlier release on which the nodes start, if any. BadInput when containers with these settings are
    not possible, and when files cannot be written.
    """
    releases = {TESTED: release} | ({START: starts_on} if starts_on else {})
    if shape.clock and release.image:
        raise BadInput(
            f"{release.image.spec}: clocks cannot be set, because libfaketime of this machine may not fit the image's "
            "C library: give --kafka a version"
        )
    client = engine()
    check_limits(client, limits)
    for line in (*sweep(root), *sweep_engine(root)):
        progress(line)
    taken = images(client, cache, progress, release.image)
    proxy_binary = go_tool(TOXIPROXY_TOOL, cache, progress)
    s3_binary = go_tool(S3_TOOL, cache, progress) if shape.tier == "s3" else None
    with supervised(root, release, keep=keep, backend=CONTAINERS) as (state, supervision):
        plan = Subnets.of(state.slot, shape)
        labels = {RUN_LABEL: state.run, ROOT_LABEL: str(root.absolute())}
        supervision.add_cleanup([sys.executable, "-I", str(Path(reap.__file__)), f"{RUN_LABEL}={state.run}"])
        inside = _network(plan.inside, labels, internal=True)
        outside = _network(plan.outside, labels, internal=False)
        disks = own_disks(shape, state, supervision)  # unmounted after the containers are removed
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
    """The site, changed so that the image's entry point starts its nodes; None if start scripts or jars start them."""
    image = site.release.image
    if image is None or not image.entry:
        return None
    if site.shape.voters == "dynamic":
        progress(
            f"{image.spec}: nodes are started by its start scripts, because its entry point refuses storage with "
            "voters that are not in the settings (KIP-853)"
        )
        return None
    fast = site if image.layout.own_archive else with_fast_start(site, cache, progress)
    return replace(fast, launch=EntryLaunch(image))


def _by_image(image: BrokerImage, runner: Containers) -> tuple[Launch, StorageTool]:
    return ImageLaunch(image), image_tool(image, runner)


def _by_jars(release: Release, images: Images) -> tuple[Launch, StorageTool]:
    """A Java of this machine formats the storage, and the Java of the image runs the nodes."""
    launch = JavaLaunch(images.java, images.digest, release.classpath, {}, images.java_version)
    return launch, java_tool(release, find_java(release.version))


def _readable(releases: Iterable[Release], shape: ClusterShape, cache: Cache) -> list[Path]:
    """The paths that every node may read in addition to its own files.

    They are the class-data archives, the jars of every release that is no image, and libfaketime if clocks are to be
    set. Jars of all releases, because a container keeps the mounts with which it was made.
    """
    faketime = library() if shape.clock else None
    jars = {_common(release.classpath) for release in releases if not release.image}
    jars |= {_common(needed) for release in releases for needed in tier_jars(release, shape) if needed}
    return [cache.root / "tools", *sorted(jars), *([faketime] if faketime else [])]


def _addresses(plan: Subnets) -> dict[str, str]:
    """The address of every container, by its name.

    Containers that run before the nodes have the address of the first controller: they end before it starts.
    """
    nodes = {party(node): plan.node(node) for node in plan.nodes}
    before = dict.fromkeys((STORAGE, TRAINING), plan.node(plan.controllers[0]))
    return {**nodes, **before, TOXIPROXY: plan.toxiproxy, S3_SERVER: plan.s3[0]}


def _network(subnet: str, labels: dict[str, str], *, internal: bool) -> Network:
    """Makes a network. A port that is published on it without an address is bound to 127.0.0.1 as well."""
    from docker.types import IPAMConfig, IPAMPool
    from testcontainers.core import network

    settings = {
        "driver": "bridge",
        "internal": internal,
        "labels": labels,
        "options": {} if internal else {"com.docker.network.bridge.host_binding_ipv4": "127.0.0.1"},
        "ipam": IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]),
    }
    with asking(f"make the network {subnet}"):
        return network.Network(docker_network_kw=settings).create()


def _common(classpath: Iterable[Path]) -> Path:
    """The folder that contains all of a class path."""
    return Path(os.path.commonpath([entry if entry.is_dir() else entry.parent for entry in classpath]))
