"""Clusters of real brokers: one interface (`base.Cluster`), one factory (`make`, or `start`), two backends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

from harness.clusters.base import Cluster, Links, party
from harness.clusters.choosing import check_release, choose, only_in_containers, refuse_as_processes
from harness.clusters.containers.broker_images import image_release
from harness.clusters.nodes.upgrading import Releases, find_start, refuse_upgrade
from harness.clusters.processes.backend import make_processes
from harness.clusters.state import default_root
from harness.clusters.sweep import Leftover, clean, leftovers, sweep
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import IMAGE, Release, refuse_without_kraft, resolve
from harness.kafka.release.tier_needs import equipped
from harness.model.backend import CONTAINERS, PROCESSES
from harness.model.errors import BadInput, HarnessFailure
from harness.model.limits import NO_LIMITS, Limits
from harness.model.scenario.scenario import ClusterShape

__all__ = [
    "Cluster",
    "Leftover",
    "Links",
    "Releases",
    "choose",
    "clean",
    "default_root",
    "find_release",
    "find_start",
    "leftovers",
    "make",
    "only_in_containers",
    "party",
    "refuse_as_processes",
    "refuse_upgrade",
    "start",
    "sweep",
]


class _How(TypedDict):
    """The options of both backends."""

    root: Path
    keep: bool
    progress: Callable[[str], None]
    cache: Path
    limits: Limits
    starts_on: Release | None


def _make_containers(release: Release, shape: ClusterShape, **how: Unpack[_How]) -> Cluster:
    from harness.clusters.containers.backend import make_containers  # needs the extra [containers]

    return make_containers(release, shape, **how)


def find_release(spec: str | None, *, maven_repo: str | None, cache: Path, progress: Callable[[str], None]) -> Release:
    """The release that `spec` names: as `kafka.release.resolve`, and in addition an image of brokers."""
    if spec is None or not spec.startswith(IMAGE):
        return resolve(spec, maven_repo=maven_repo, cache=cache, progress=progress)
    if maven_repo is not None:
        raise BadInput(f"--maven-repo is only for versions, and {spec} is an image: leave --maven-repo out")
    release = image_release(spec, cache, progress)
    refuse_without_kraft(release.version)
    return release


BACKENDS: dict[str, Callable[..., Cluster]] = {PROCESSES: make_processes, CONTAINERS: _make_containers}


def make(
    release: Release,
    shape: ClusterShape,
    *,
    root: Path | None = None,
    backend: str = PROCESSES,
    keep: bool = False,
    progress: Callable[[str], None],
    cache: Path | None = None,
    limits: Limits = NO_LIMITS,
    starts_on: Release | None = None,
) -> Cluster:
    """A cluster that does not run yet: `bring_up` starts its nodes, and has their logs and exits if one does not start.

    root: the folder for directories of runs, by default `default_root()`. cache: the folder for downloads. keep: the
    cluster goes on when the harness ends. limits: of each node. starts_on: the release of `shape.starts_on`; if it is
    missing, it is resolved from Maven Central, and so are jars that a remote tier needs and the release lacks.
    BadInput for a backend, a shape or limits that are not possible.
    """
    if backend not in BACKENDS:
        raise BadInput(f"no backend is called {backend!r}: use {' or '.join(BACKENDS)}")
    check_release(release, shape)
    cache = cache or default_cache()
    starts_on = starts_on or find_start(shape, release, maven_repo=None, cache=cache, progress=progress)
    with_tier = partial(equipped, shapes=[shape], maven_repo=None, cache=cache, progress=progress)
    release, starts_on = with_tier(release), starts_on and with_tier(starts_on)
    return BACKENDS[backend](
        release,
        shape,
        root=root or default_root(),
        keep=keep,
        progress=progress,
        cache=cache,
        limits=limits,
        starts_on=starts_on,
    )


class _Options(TypedDict, total=False):
    """The options of `make` that have a default."""

    root: Path | None
    backend: str
    keep: bool
    cache: Path | None
    limits: Limits
    starts_on: Release | None


def start(
    release: Release, shape: ClusterShape, *, progress: Callable[[str], None], **options: Unpack[_Options]
) -> Cluster:
    """Makes a cluster as `make` does, and returns when every node has started.

    HarnessFailure if a node does not start; then nothing is left of the cluster.
    """
    cluster = make(release, shape, progress=progress, **options)
    try:
        cluster.bring_up()
    except BaseException as error:
        try:
            cluster.stop()
        except HarnessFailure as late:
            error.add_note(str(late))
        raise
    return cluster
