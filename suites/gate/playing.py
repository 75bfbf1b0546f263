"""Steps of scenarios on a real cluster under load, for the tests of faults."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from harness import clusters
from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.faults.steps.effect import with_recent_acks
from harness.faults.steps.registry import check_steps
from harness.faults.steps.step_context import StepContext
from harness.kafka.admin.client import AdminView
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.model.contract.internal_topics import internal_topics
from harness.model.scenario.places import written_out
from harness.model.scenario.scenario import ClusterShape, Producer, Reader, Scenario, Step, Topic
from harness.model.user_storage import UserStorage
from harness.model.waiting import wait_for
from harness.run import broker_state
from harness.workload.access import Access
from harness.workload.java.java_process import JavaClients
from harness.workload.load import Load
from suites.gate.cluster_probes import RELEASE
from suites.steps_json import doubts, run_steps

__all__ = ["RELEASE", "WHOLE", "Play", "playing", "running"]

Row = dict[str, Any]
WHOLE = {"do": "wait_healthy"}


@dataclass
class Play:
    """Performs steps on a cluster under load and returns their rows of steps.json."""

    stage: StepContext
    scenario: Scenario
    cluster: Cluster
    load: Load

    def __call__(self, *steps: tuple[str, dict[str, Any]]) -> list[Row]:
        """Performs steps, each (name, arguments with `do`). Afterwards no fault is active and every ISR is full."""
        rows = self.rows(*steps)
        assert doubts(rows) == []
        assert self.cluster.links.active() == []
        return rows

    def rows(self, *steps: tuple[str, dict[str, Any]]) -> list[Row]:
        """The same, for steps that may end in a doubt."""
        every = (*steps, ("whole", WHOLE))
        plan = tuple(Step(do=args["do"], name=name, args=_without_do(args)) for name, args in every)
        scenario = written_out(replace(self.scenario, steps=plan), "play")
        check_steps(scenario)
        return run_steps(self.stage, scenario.steps)

    def without_load(self) -> None:
        """Stops the producers, and returns when no partition has recent acks any more."""
        self.load.stop_producers()
        wait_for(
            lambda: with_recent_acks(self.stage, self.stage.places(())),
            until=lambda busy: not busy,
            deadline_s=10,
            what="the last acks to be more than a second old",
        )

    def doubt(self, *steps: tuple[str, dict[str, Any]]) -> str:
        """The text of the only doubt: why one of the steps had no effect."""
        ((name, text),) = doubts(self.rows(*steps))
        assert name == "no_effect"
        return text


def _without_do(args: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if name != "do"}


@contextmanager
def running(
    backend: str, shape: ClusterShape, version: str = RELEASE, tier_storage: UserStorage | None = None
) -> Iterator[Cluster]:
    """A cluster of a published version, in the folder of all runs; stopped at the end."""
    release = resolve(version, maven_repo=None, cache=default_cache(), progress=print)
    release = replace(release, user_storage=tier_storage)
    started = clusters.start(release, shape, backend=backend, progress=print)
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def playing(
    cluster: Cluster,
    folder: Path,
    topics: tuple[Topic, ...],
    producers: tuple[Producer, ...],
    readers: tuple[Reader, ...] = (),
    java: JavaClients | None = None,
) -> Iterator[Play]:
    """Starts a load on new topics. At the end the load is stopped and every fault is healed. `java`: for clients of the
    release."""
    scenario = Scenario(
        name="play", title="", property="", shape=cluster.shape, topics=topics, producers=producers, readers=readers
    )
    with broker_state.observer(cluster) as admin:
        admin.delete_topics([t.name for t in topics])
        bundle = BundleWriter(folder)
        load = _load(scenario, cluster, admin, bundle, java)
        try:
            load.wait_flowing(60)
            stage = StepContext(cluster=cluster, admin=admin, load=load, rng=Random(1), topics=topics, say=print)
            stage.internal = internal_topics(cluster.shape)
            yield Play(stage, scenario, cluster, load)
        finally:
            load.stop_producers()
            load.stop_readers()
            bundle.close()
            cluster.heal()


def _load(
    scenario: Scenario, cluster: Cluster, admin: AdminView, bundle: BundleWriter, java: JavaClients | None
) -> Load:
    ids = admin.create_topics(scenario.topics)
    load = Load(
        scenario,
        bootstrap=cluster.bootstrap(),
        bootstrap_isolated=cluster.bootstrap_isolated(),
        access=Access(cluster.client_settings()),
        topic_ids=ids,
        bundle=bundle,
        run=secrets.randbits(60),
        seed=1,
        java=java,
    )
    load.start()
    return load
