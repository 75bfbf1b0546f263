"""The real run from which all changed copies are made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness import clusters, scenarios
from harness.clusters.base import Cluster
from harness.kafka.admin.client import AdminView
from harness.kafka.release.cache import default_cache
from harness.kafka.release.java_clients import with_java_clients
from harness.kafka.release.release import Release, resolve
from harness.model.contract.contract import contract_of
from harness.model.contract.internal_topics import OFFSETS, TRANSACTIONS, internal_topics
from harness.model.documents.manifest import NamedRelease, Origin
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario.scenario import ClusterShape, Scenario
from harness.run.scenario_run import Driven, Task, drive
from harness.workload.java.java_process import clients_of
from suites.planted.copies import Copy, Original
from suites.planted.table import PLANTS

SCENARIO: Final = Path(__file__).with_name("planted.toml")
SEED: Final = 20_734
TRIES_MAX: Final = 8  # on a busy machine calls of clients may take too long
# The scenario kills broker 1.
_OF_COORDINATORS: Final = (2, 3, 1)
RECORDS: Final = 10_000  # at least this many are acknowledged, even if the steps need fewer


def drive_base(out: Path, kafka: str | None, maven_repo: str | None, say: Callable[[str], None]) -> Original:
    """Runs planted.toml on a cluster of its own. HarnessFailure when nothing can be planted in the resulting bundles.

    A run with doubts, such as one in which a call of the client hangs, is repeated, and one without a place for each
    plant.
    """
    scenario = scenarios.load(str(SCENARIO))
    release = resolve(kafka, maven_repo=maven_repo, cache=default_cache(), progress=say)
    release = with_java_clients(release, maven_repo=maven_repo, cache=default_cache(), progress=say)
    unfit = ""
    for attempt in range(1, TRIES_MAX + 1):
        driven = _driven(_task(scenario, release, out / f"{scenario.name}-{attempt}"), release, say)
        if not (unfit := "; ".join(doubt.text for doubt in driven.doubts)):
            original = Original(driven.bundle)
            if not (unfit := _unplantable(original, out)):
                return original
        say(f"try {attempt} of {TRIES_MAX} cannot be planted in: {unfit}")
    raise HarnessFailure(f"no run that copies could be made of: {unfit}")


def _unplantable(original: Original, folder: Path) -> str:
    """The first plant that a run without doubts has no place for, and why; "" if there is none.

    Some need a rare situation, such as a transaction that every live reader received as a whole. No copy is written.
    """
    for name, plant in PLANTS.items():
        try:
            plant(Copy(original, folder / name))
        except Exception as error:  # it stays the reason if every run ends in it, as an error of the plant would
            return f"{name}: {type(error).__name__}: {error}"
    return ""


def _driven(task: Task, release: Release, say: Callable[[str], None]) -> Driven:
    cluster = clusters.start(release, task.scenario.shape, progress=say)
    try:
        _place_coordinators(cluster, task.scenario.shape)
        return drive(task, cluster, say)
    finally:
        cluster.stop()


def _place_coordinators(cluster: Cluster, shape: ClusterShape) -> None:
    """Creates the topics of coordinators with leaders that are not killed: calls of transactional clients of librdkafka
    often hang when their coordinator dies. Topics that a client was quicker to ask for stay where they are."""
    own = [topic for topic in internal_topics(shape) if topic.name in (OFFSETS, TRANSACTIONS)]
    placed = [replace(topic, assignment=(_OF_COORDINATORS,) * topic.partitions) for topic in own]
    with AdminView({broker: cluster.direct_address(broker) for broker in cluster.brokers}) as admin:
        for topic in placed:
            with suppress(BadInput):
                admin.create_topics([topic])


def _task(scenario: Scenario, release: Release, out: Path) -> Task:
    return Task(
        scenario=scenario,
        contract=contract_of(scenario),
        negative_control=None,
        seed=SEED,
        run=SEED,
        records=RECORDS,
        out=out,
        java=clients_of(release),
        origin=Origin(release=NamedRelease(version=release.version, commit=release.commit, source=release.source)),
    )
