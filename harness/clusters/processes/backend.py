"""The process backend: real Kafka as local JVMs behind toxiproxy, without root and without Docker."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.clusters.base import START, TESTED
from harness.clusters.choosing import able, refuse_as_processes
from harness.clusters.disks import unmount
from harness.clusters.disks.loop_devices import OwnDisks
from harness.clusters.network.toxiproxy import ToxiproxyClient
from harness.clusters.nodes.jvm_cluster import TOXIPROXY, BackendResources, JvmCluster, proxy_log
from harness.clusters.nodes.launch import JavaLaunch
from harness.clusters.nodes.node_files import Site, environment, write_nodes
from harness.clusters.nodes.s3_server import S3Server
from harness.clusters.nodes.security import Security
from harness.clusters.nodes.storage_format import Formatted, formatted, java_tool
from harness.clusters.nodes.tier_folder import make_store
from harness.clusters.processes.addresses import TOXIPROXY_PORT, Addresses
from harness.clusters.processes.class_data_archive import with_fast_start
from harness.clusters.processes.slots import take_slot
from harness.clusters.processes.supervision import Supervision
from harness.clusters.state import RunState, new_run, remove_directory
from harness.clusters.sweep import sweep
from harness.kafka.release.cache import Cache
from harness.kafka.release.go_tool import S3_TOOL, TOXIPROXY_TOOL, go_tool
from harness.kafka.release.java import Java, find_java, java_fingerprint
from harness.kafka.release.release import Release
from harness.model.backend import PROCESSES
from harness.model.errors import HarnessFailure, HarnessTimeout
from harness.model.limits import NO_LIMITS, Limits
from harness.model.scenario.scenario import ClusterShape
from harness.model.scratch import writing_below

Progress = Callable[[str], None]


def make_processes(
    release: Release,
    shape: ClusterShape,
    *,
    root: Path,
    keep: bool,
    progress: Progress,
    cache: Path,
    limits: Limits = NO_LIMITS,
    starts_on: Release | None = None,
    java: Java | None = None,
) -> JvmCluster:
    """Makes a cluster whose nodes do not run yet. When that fails, nothing is left behind.

    starts_on: the earlier release on which the nodes start, if any. java: the Java for `release`; None = find one.
    BadInput for an image of brokers and for limits, which processes cannot have, and when files cannot be written.
    """
    refuse_as_processes(release.image.spec if release.image else None, limits)
    for line in sweep(root):
        progress(line)
    proxy_binary = go_tool(TOXIPROXY_TOOL, cache, progress)
    s3_binary = go_tool(S3_TOOL, cache, progress) if shape.tier == "s3" else None
    builds = {TESTED: _built(release, shape, java or find_java(release.version), Cache(cache), progress)}
    if starts_on:
        builds[START] = _built(starts_on, shape, find_java(starts_on.version), Cache(cache), progress)
    with supervised(root, release, keep=keep) as (state, supervision):
        addresses = Addresses.of(state.slot, shape)
        state = replace(state, bootstrap=addresses.bootstrap())
        state.save()
        resources = BackendResources(
            runner=supervision,
            plan=addresses,
            toxiproxy=ToxiproxyClient(addresses.toxiproxy, TOXIPROXY_PORT),
            capabilities=able(PROCESSES),
            formatted=builds.get(START, builds[TESTED]).formatted.later,
            disks=own_disks(shape, state, supervision),
        )
        make_store(state.directory, shape)
        security = Security.of(state.directory, shape)
        _start_toxiproxy(proxy_binary, state.directory, resources)
        server = S3Server(s3_binary, state.directory, addresses, supervision, environment()) if s3_binary else None
        if server:
            server.admit()
        sites = {
            which: with_fast_start(_site(build, shape, resources, state.directory, security), Cache(cache), progress)
            for which, build in builds.items()
        }
        cluster = JvmCluster(sites, state, resources, write_nodes(sites))
        cluster.tier_server = server
    return cluster


@dataclass(frozen=True, slots=True)
class _Build:
    release: Release
    java: Java
    formatted: Formatted


def _built(release: Release, shape: ClusterShape, java: Java, cache: Cache, progress: Progress) -> _Build:
    if java.note:
        progress(java.note)
    return _Build(release, java, formatted(release, shape, java_tool(release, java), cache, progress))


def _site(
    build: _Build, shape: ClusterShape, resources: BackendResources, directory: Path, security: Security | None
) -> Site:
    java = build.java
    return Site(
        release=build.release,
        shape=shape,
        plan=resources.plan,
        launch=JavaLaunch(
            str(java.executable), java_fingerprint(java), build.release.classpath, environment(), java.version
        ),
        runner=resources.runner,
        formatted=build.formatted,
        directory=directory,
        disks=resources.disks,
        host=lambda _: socket.gethostname(),
        security=security,
    )


@contextmanager
def supervised(
    root: Path, release: Release, *, keep: bool, backend: str = PROCESSES
) -> Iterator[tuple[RunState, Supervision]]:
    """Makes a run with a slot, a directory and a supervisor, in which the caller starts a cluster.

    The supervisor holds the slot and outlives the harness. The state of the run names it as soon as it exists, so that
    after a crash it can be found and ended. When the caller fails, nothing is left of the run. BadInput when files of
    the run cannot be written.
    """
    with writing_below(root):
        state, supervision = _supervised(root, release, keep=keep, backend=backend)
        try:
            yield state, supervision
        except BaseException as error:
            _abandon(state, supervision, error)
            raise


def _supervised(root: Path, release: Release, *, keep: bool, backend: str) -> tuple[RunState, Supervision]:
    slot = take_slot()
    try:
        state = new_run(root, slot=slot.number, release=release.version, kept=keep, backend=backend)
        try:
            supervision = Supervision(state.directory, slot.descriptor, stay=keep)
        except BaseException:
            remove_directory(state.directory)
            raise
        try:
            state = state.supervised_by(supervision.pid)
            state.save()
        except BaseException as error:
            _abandon(state, supervision, error)
            raise
    finally:
        slot.close()  # from here on, the supervisor and the processes that it starts hold the slot
    return state, supervision


def own_disks(shape: ClusterShape, state: RunState, supervision: Supervision) -> OwnDisks | None:
    """The brokers' own disks, if the shape asks for them. The supervisor unmounts them when the run ends."""
    if not shape.disk:
        return None
    disks = OwnDisks(shape.disk, state.directory)
    script = [sys.executable, "-I", "-S", unmount.__file__]
    supervision.add_cleanup([*script, "--thaw", str(state.directory)], first=True)
    supervision.add_cleanup([*script, str(state.directory)])
    return disks


def _abandon(state: RunState, supervision: Supervision, error: BaseException) -> None:
    """Removes a run that `error` ended before it was a cluster. A failure of that becomes a note of `error`."""
    try:
        supervision.stop()
        remove_directory(state.directory)
    except (HarnessTimeout, HarnessFailure) as late:
        error.add_note(str(late))


def _start_toxiproxy(binary: Path, directory: Path, resources: BackendResources) -> None:
    config, log = directory / "toxiproxy.json", proxy_log(directory)
    config.write_text(resources.plan.toxiproxy_config(), "utf-8")
    address = ["-host", resources.toxiproxy.host, "-port", str(resources.toxiproxy.port)]
    resources.runner.start(
        TOXIPROXY,
        [str(binary), *address, "-config", str(config)],
        cwd=directory,
        output=log,
        env={**environment(), "LOG_LEVEL": "error"},
    )
