"""The gate as a story: a release, clusters, scenarios, bundles, and only then the verdicts."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any, Final

from harness import clusters, scenarios
from harness.clusters import Cluster, Releases
from harness.commands import scenario_selection
from harness.commands.options import OUT_DEFAULT, GateOptions, GateResult, Progress
from harness.commands.verify import BatchVerdicts, judge_batch
from harness.evidence import Bundle
from harness.evidence.gate import GateSummary, ScenarioResult, write_gate
from harness.kafka.release.cache import default_cache
from harness.kafka.release.own_clients import equip_clients
from harness.kafka.release.own_streams import equip_streams
from harness.kafka.release.release import Release
from harness.kafka.release.tier_needs import equip, equipped
from harness.model.backend import PROCESSES
from harness.model.contract.contract import contract_of
from harness.model.errors import BadInput, HarnessError
from harness.model.scenario import tier_rules
from harness.model.scenario.load_plan import paced, records_of
from harness.model.scenario.scenario import ClusterShape, Scenario
from harness.model.verdict import Doubt, Status
from harness.run import admin_probe, broker_state
from harness.run.scenario_run import Driven, Task, drive
from harness.workload.java.java_process import clients_of

TRIES_MAX: Final = 2
TOLD_BY_BROKERS: Final = frozenset({"producer_fatal", "reader_reset"})
VERSIONED: Final = ("confluent-kafka", "kafka-python", "pyarrow", "pyspark", "toxiproxy-python")


def gate(options: GateOptions, progress: Progress, *, negative_control: bool = False) -> GateResult:
    """Judges a release by the scenarios asked for. Evidence is on disk before anything is judged.

    `weakened` runs each scenario under the setting that must make it FAIL, judged by the contract it declares.
    """
    began_s = time.monotonic()
    release, backend = _release_and_backend(options, progress)
    backends = scenario_selection.backends_of(options, backend)
    options = replace(options, backend=backend)
    progress.line(f"seed {options.seed}")
    whole = scenarios.gate(backend)
    wanted = scenario_selection.chosen(options, whole)
    release = replace(release, user_storage=options.tier_storage)
    asked = [scenario_selection.played(s, negative_control).shape for s in wanted]
    release, lacking = equip(release, asked, **_from(options, progress))
    if any(scenario_selection.played(s, negative_control).own_clients for s in wanted):
        release, lacking = equip_clients(release, lacking, **_from(options, progress))
    if any(scenario_selection.played(s, negative_control).own_streams for s in wanted):
        release, lacking = equip_streams(release, lacking, **_from(options, progress))
    cast, not_run = scenario_selection.assign_backends(
        options, wanted, backends, release, negative_control=negative_control, lacking=lacking
    )
    for line in (*scenario_selection.otherwise(cast, backend), *(f"not run: {reason}" for reason in not_run.values())):
        progress.line(line)
    shapes = [scenario_selection.played(s, negative_control).shape for s in wanted if s.name in cast]
    releases = _releases(shapes, release, options, progress)
    out = _made(options.out or _out(release))
    summary = GateSummary(
        required=tuple(s.name for s in _required(options, whole, wanted)),
        results=(),
        release=_reported(release),
        seed=options.seed,
        not_run=not_run,
        backends=tuple(sorted(set(cast.values()))),
    )
    played = [(s, replace(options, backend=cast[s.name])) for s in wanted if s.name in cast]
    tasks = [_task(s, by, whole, releases, out, negative_control) for s, by in played]
    write_gate(out, summary)  # a gate that dies must not be read as a whole one when its bundles are judged again
    if options.fail_fast:
        results = _one_by_one(tasks, releases, options, progress, summary)
    else:
        driven = _drive_all(tasks, releases, options, progress)
        results = _judged(driven, progress)
    summary = replace(summary, results=tuple(results), took_s=round(time.monotonic() - began_s, 1))
    write_gate(out, summary)
    return GateResult(out=out, summary=summary)


def _release_and_backend(options: GateOptions, progress: Progress) -> tuple[Release, str]:
    """What is judged and what runs it, both said. BadInput, before anything is fetched, where they do not fit."""
    if options.backend == PROCESSES:
        clusters.refuse_as_processes(options.kafka, options.limits)
    cache, say = default_cache(), progress.line
    release = clusters.find_release(options.kafka, maven_repo=options.maven_repo, cache=cache, progress=progress)
    say(release.line())
    return release, clusters.choose(options.backend, cache, progress, say, image=release.image, limits=options.limits)


def _releases(shapes: Sequence[ClusterShape], tested: Release, options: GateOptions, progress: Progress) -> Releases:
    """With those that clusters begin on, fetched and said. BadInput where one cannot be had, or cannot be upgraded."""
    earlier: dict[str, Release] = {}
    for shape in shapes:
        if shape.starts_on is not None and shape.starts_on not in earlier:
            found = clusters.find_start(shape, tested, **_from(options, progress))
            assert found is not None
            same = [other for other in shapes if other.starts_on == shape.starts_on]
            found = replace(found, user_storage=options.tier_storage)
            earlier[shape.starts_on] = equipped(found, same, **_from(options, progress))
            progress.line(f"upgraded from {found.line()}")
    return Releases(tested, earlier)


def _from(options: GateOptions, progress: Progress) -> dict[str, Any]:
    """Where jars come from."""
    return {"maven_repo": options.maven_repo, "cache": default_cache(), "progress": progress}


def _required(options: GateOptions, whole: Sequence[Scenario], wanted: Sequence[Scenario]) -> Sequence[Scenario]:
    """A set by tags, a file of the user's, a scenario outside the gate is a whole of its own; a part of the gate is
    a part."""
    inside = {s.name for s in whole}
    of_the_gate = all(s.name in inside for s in wanted) and not (options.scenarios or options.tags)
    return whole if of_the_gate else wanted


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What became of one task: its bundles in the order of the tries, or a sentence on why there is none."""

    name: str
    driven: tuple[Driven, ...] = ()
    error: str | None = None


def _task(
    scenario: Scenario,
    options: GateOptions,
    whole: Sequence[Scenario],
    releases: Releases,
    out: Path,
    negative_control: bool,
) -> Task:
    records = records_of(scenario, whole, options.records)
    records = max(records, tier_rules.records_min(scenario_selection.played(scenario, negative_control)))
    rng = Random(f"{options.seed}/{scenario.name}")
    start = releases.start(scenario_selection.played(scenario, negative_control).shape)
    return Task(
        scenario=paced(scenario_selection.played(scenario, negative_control), records),
        contract=contract_of(scenario),
        negative_control=scenario.negative_control.what if negative_control and scenario.negative_control else None,
        seed=options.seed,
        run=rng.getrandbits(63),
        records=records,
        out=out / scenario.name,
        java=clients_of(releases.tested),
        facts={
            "release": _reported(releases.tested),
            **({"starts_on": _reported(start)} if start else {}),
            "backend": options.backend,
            "limits": asdict(options.limits),
            **({"tier_storage": options.tier_storage.class_name} if options.tier_storage else {}),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in VERSIONED}},
        },
    )


def _reported(release: Release) -> dict[str, str]:
    return {"version": release.version, "commit": release.commit, "source": release.source}


def _drive_all(tasks: Sequence[Task], releases: Releases, options: GateOptions, progress: Progress) -> list[_Attempt]:
    """Every scenario, clusters of one shape shared in a row; nothing but evidence comes out."""
    attempts = []
    with ClusterPool(releases, options, progress) as pool:
        for number, task in enumerate(tasks, 1):
            progress.line(f"[{number}/{len(tasks)}] {task.scenario.name}: {task.scenario.title}")
            attempts.append(_attempt(task, pool, progress))
    return attempts


def _attempt(task: Task, pool: ClusterPool, progress: Progress) -> _Attempt:
    """A run that was in doubt while it ran is tried once more, on a new cluster; both are judged and shown."""
    tries: list[Driven] = []
    try:
        while not tries or (task.negative_control is None and len(tries) < TRIES_MAX and try_again(tries[-1].doubts)):
            again = replace(task, out=task.out.with_name(f"{task.out.name}-again")) if tries else task
            cluster = pool.take(task)
            tries.append(drive(again, cluster, progress))
            pool.give_back(task.scenario, healthy=tries[-1].healthy)
            for doubt in tries[-1].doubts:
                progress.line(f"    doubt: {doubt.name}: {doubt.text}")
    except HarnessError as error:
        pool.retire()
        if not tries:
            return _Attempt(task.scenario.name, error=str(error))
        progress.line(f"    the second try came to nothing: {error}")
    return _Attempt(task.scenario.name, tuple(tries))


def try_again(doubts: Sequence[Doubt]) -> bool:
    """What brokers told clients speaks of the release, not of the machine: a second try would only hide it."""
    return bool(doubts) and not any(doubt.name in TOLD_BY_BROKERS for doubt in doubts)


def _one_by_one(
    tasks: Sequence[Task], releases: Releases, options: GateOptions, progress: Progress, summary: GateSummary
) -> list[ScenarioResult]:
    """With --fail-fast each is judged before the next starts; Spark and brokers never share the machine."""
    results: list[ScenarioResult] = []
    for task in tasks:
        results += _judged(_drive_all([task], releases, options, progress), progress)
        write_gate(task.out.parent, replace(summary, results=tuple(results)))
        if results[-1].status is not Status.PASS:
            break
    return results


def _judged(attempts: Sequence[_Attempt], progress: Progress) -> list[ScenarioResult]:
    bundles = [Bundle.open(d.bundle, allow_unfinished=True) for a in attempts for d in a.driven]
    each = judge_batch(bundles, None, progress)
    return [_result(attempt, each) for attempt in attempts]


def _result(attempt: _Attempt, each: BatchVerdicts) -> ScenarioResult:
    """The last try counts, unless an earlier one is a FAIL: nothing makes that unhappen."""
    folders = [driven.bundle.name for driven in attempt.driven]
    if not folders:
        return ScenarioResult(name=attempt.name, status=None, error=attempt.error)
    statuses = {bundle.name: verdict.status for bundle, verdict in each.verdicts.items()}
    failed = next((folder for folder in folders if statuses.get(folder) is Status.FAIL), None)
    counts = failed or folders[-1]
    earlier = tuple(folder for folder in folders if folder != counts)
    return ScenarioResult(
        name=attempt.name,
        status=statuses.get(counts),
        bundle=counts,
        error=each.without_verdict.get(counts),
        earlier=earlier,
    )


class ClusterPool:
    """The cluster that is up. One of the same shape is used again unless something was doubtful in it."""

    def __init__(self, releases: Releases, options: GateOptions, progress: Progress) -> None:
        self._releases = releases
        self._options = options
        self._progress = progress
        self._cluster: Cluster | None = None
        self._backend = options.backend

    def __enter__(self) -> ClusterPool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._cluster is not None and self._options.keep:
            self._progress.line(self._cluster.describe_kept())
        self._close()

    def take(self, task: Task) -> Cluster:
        scenario, backend = task.scenario, task.facts["backend"]
        other = backend != self._backend
        if self._cluster is not None and (scenario.fresh or other or self._cluster.shape != scenario.shape):
            self.retire()
        self._backend = backend
        if self._cluster is None:
            self._cluster = self._start(scenario.shape)
        return self._cluster

    def give_back(self, scenario: Scenario, *, healthy: bool) -> None:
        """Topics of the scenario go, so that the next one begins with the same disks; a doubtful cluster goes whole."""
        if not healthy or scenario.fresh:
            self.retire()
        elif self._cluster is not None and not self._options.keep:
            clear(self._cluster, scenario)

    def retire(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None

    def _close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _start(self, shape: ClusterShape) -> Cluster:
        self._progress("starting a cluster")
        return clusters.start(
            self._releases.tested,
            shape,
            backend=self._backend,
            keep=self._options.keep,
            progress=self._progress,
            limits=self._options.limits,
            starts_on=self._releases.start(shape),
        )


def clear(cluster: Cluster, scenario: Scenario) -> None:
    """Deletes the scenario's topics, and what its admins made."""
    with broker_state.observer(cluster) as admin:
        admin.delete_topics([topic.name for topic in scenario.topics])
        admin_probe.clear(admin, scenario)


def _made(out: Path) -> Path:
    """Whether it can be made was seen long ago, before a download."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise BadInput(
            f"{out} cannot be made ({refused.strerror}): give --out a folder that you may write to"
        ) from None
    return out


def _out(release: Release) -> Path:
    return OUT_DEFAULT / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{release.version}"
