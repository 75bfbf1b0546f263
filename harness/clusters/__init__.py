"""Clusters to break: one interface (`base.Cluster`), one factory, two backends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.clusters.base import Cluster, Links, UnexpectedExit, party
from harness.clusters.choosing import choose
from harness.clusters.processes import start_processes
from harness.clusters.state import default_root
from harness.clusters.sweep import Leftover, clean, leftovers, sweep
from harness.kafka.cache import default_cache
from harness.kafka.release import Release
from harness.model.backend import CONTAINERS, PROCESSES
from harness.model.errors import BadInput
from harness.model.scenario import ClusterShape

__all__ = [
    "Cluster",
    "Leftover",
    "Links",
    "UnexpectedExit",
    "choose",
    "clean",
    "default_root",
    "leftovers",
    "party",
    "start",
    "sweep",
]


def _start_containers(
    release: Release, shape: ClusterShape, *, root: Path, keep: bool, progress: Callable[[str], None], cache: Path
) -> Cluster:
    from harness.clusters.containers import start_containers  # its libraries are an extra of the installation

    return start_containers(release, shape, root=root, keep=keep, progress=progress, cache=cache)


BACKENDS: dict[str, Callable[..., Cluster]] = {PROCESSES: start_processes, CONTAINERS: _start_containers}


def start(
    release: Release,
    shape: ClusterShape,
    *,
    root: Path | None = None,
    backend: str = PROCESSES,
    keep: bool = False,
    progress: Callable[[str], None],
    cache: Path | None = None,
) -> Cluster:
    """Starts a cluster and returns when every node has started.

    `root` is where runs live (default: `default_root()`), `cache` where downloads do; `keep` lets the cluster outlive
    the harness. Raises BadInput for a backend or a shape that cannot be had, HarnessFailure when it does not come up.
    """
    if backend not in BACKENDS:
        raise BadInput(f"there is no backend {backend!r}: give {' or '.join(BACKENDS)}")
    return BACKENDS[backend](
        release,
        shape,
        root=root or default_root(),
        keep=keep,
        progress=progress,
        cache=cache or default_cache(),
    )
