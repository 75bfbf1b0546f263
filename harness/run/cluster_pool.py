"""The cluster of a gate: scenarios of the same shape use it one after the other."""

from __future__ import annotations

from typing import Protocol

from harness import clusters
from harness.clusters import Cluster, Releases
from harness.model.limits import NO_LIMITS, Limits
from harness.model.scenario.scenario import ClusterShape, Scenario
from harness.run import admin_probe, broker_state
from harness.run.progress import Progress


class Pool(Protocol):
    """Where scenarios get a cluster from, one after the other."""

    def __enter__(self) -> Pool: ...
    def __exit__(self, *_: object) -> None: ...
    def take(self, scenario: Scenario, backend: str) -> Cluster:
        """A cluster for the scenario. Its nodes need not run yet: see `Cluster.bring_up`."""
        ...

    def give_back(self, scenario: Scenario, *, healthy: bool) -> None:
        """Takes the cluster back after a run. healthy: another scenario may use it."""
        ...

    def retire(self) -> None:
        """No further scenario uses what an earlier one had."""
        ...


class ClusterPool:
    """Holds at most one cluster. It is stopped when the next scenario cannot use it, or something in it was doubtful.

    keep: the last cluster outlives the harness, for a person to look at.
    """

    def __init__(
        self, releases: Releases, progress: Progress, *, limits: Limits = NO_LIMITS, keep: bool = False
    ) -> None:
        self._releases = releases
        self._progress = progress
        self._limits = limits
        self._keep = keep
        self._cluster: Cluster | None = None
        self._backend = ""

    def __enter__(self) -> ClusterPool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._cluster is not None and self._keep:
            self._progress.line(self._cluster.describe_kept())
        cluster, self._cluster = self._cluster, None
        if cluster is None:
            return
        try:
            cluster.close()
        except Exception as failure:  # all evidence is on disk by now, and must still be judged
            self._progress.line(f"the last cluster could not be stopped: {failure}; remove it by: durability clean")

    def take(self, scenario: Scenario, backend: str) -> Cluster:
        """See `Pool`: the cluster that is up where it fits, else a new one."""
        fits = not scenario.fresh and backend == self._backend
        if self._cluster is not None and not (fits and self._cluster.shape == scenario.shape):
            self.retire()
        if self._cluster is None:
            self._backend = backend
            self._cluster = self._make(scenario.shape)
        return self._cluster

    def give_back(self, scenario: Scenario, *, healthy: bool) -> None:
        """Deletes the scenario's topics, so that the next one begins with empty disks. Stops a doubtful cluster."""
        if not healthy or scenario.fresh:
            self.retire()
        elif self._cluster is not None and not self._keep:
            clear(self._cluster, scenario)

    def retire(self) -> None:
        """Stops the cluster. One that cannot be stopped is not used again either."""
        if self._cluster is None:
            return
        try:
            self._cluster.stop()
        except Exception:
            self._cluster = None
            raise
        self._cluster = None  # not after a signal: then __exit__ stops it

    def _make(self, shape: ClusterShape) -> Cluster:
        self._progress("starting a cluster")
        return clusters.make(
            self._releases.tested,
            shape,
            backend=self._backend,
            keep=self._keep,
            progress=self._progress,
            limits=self._limits,
            starts_on=self._releases.start(shape),
        )


def clear(cluster: Cluster, scenario: Scenario) -> None:
    """Deletes the scenario's topics, and the entities that its admins made."""
    with broker_state.observer(cluster) as admin:
        admin.delete_topics([topic.name for topic in scenario.topics])
        admin_probe.clear(admin, scenario)
