"""The gate as a story: a release, clusters, scenarios, bundles, and only then the verdicts."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Final

from harness import clusters, scenarios, truth
from harness.clusters import Cluster
from harness.clusters.choosing import able, check_plan
from harness.drive import Driven, Task, drive
from harness.evidence import Bundle
from harness.evidence.gate import GateSummary, ScenarioResult, write_gate
from harness.faults.registry import lacking
from harness.judging import Each, judge_each
from harness.kafka.cache import default_cache
from harness.kafka.release import Release
from harness.model.backend import PROCESSES
from harness.model.contract import contract_of
from harness.model.errors import BadInput, HarnessError
from harness.model.plan import paced, records_of
from harness.model.scenario import ClusterShape, Scenario
from harness.model.verdict import Doubt, Status
from harness.options import OUT_DEFAULT, GateOptions, GateResult, Progress

TRIES_MAX: Final = 2
TOLD_BY_BROKERS: Final = frozenset({"producer_fatal", "reader_reset"})
VERSIONED: Final = ("confluent-kafka", "kafka-python", "pyarrow", "pyspark", "toxiproxy-python")


def gate(options: GateOptions, progress: Progress, *, weakened: bool = False) -> GateResult:
    """Judges a release by the scenarios asked for. Evidence is on disk before anything is judged.

    `weakened` runs each scenario under the setting that must make it FAIL, judged by the contract it declares.
    """
    release, backend = _release_and_backend(options, progress)
    options = replace(options, backend=backend)
    progress.line(f"seed {options.seed}")
    whole = scenarios.gate()
    wanted = chosen(options, whole)
    _refuse_undoable(wanted, backend, weakened)
    out = _made(options.out or _out(release))
    summary = GateSummary(
        required=tuple(s.name for s in _required(options, whole, wanted)),
        results=(),
        release={"version": release.version, "commit": release.commit, "source": release.source},
        seed=options.seed,
    )
    tasks = [_task(s, options, whole, release, out, weakened) for s in wanted]
    write_gate(out, summary)  # a gate that dies must not be read as a whole one when its bundles are judged again
    if options.fail_fast:
        results = _one_by_one(tasks, release, options, progress, summary)
    else:
        driven = _drive_all(tasks, release, options, progress)
        results = _judged(driven, progress)
    summary = replace(summary, results=tuple(results))
    write_gate(out, summary)
    return GateResult(out=out, summary=summary)


def _release_and_backend(options: GateOptions, progress: Progress) -> tuple[Release, str]:
    """What is judged and what runs it, both said. BadInput, before anything is fetched, where they do not fit."""
    if options.backend == PROCESSES:
        clusters.refuse(clusters.only_in_containers(options.kafka, options.limits))
    cache, say = default_cache(), progress.line
    release = clusters.find_release(options.kafka, maven_repo=options.maven_repo, cache=cache, progress=progress)
    say(release.line())
    return release, clusters.choose(options.backend, cache, progress, say, image=release.image, limits=options.limits)


def chosen(options: GateOptions, whole: Sequence[Scenario]) -> list[Scenario]:
    """The scenarios that the options ask for; BadInput on a name nobody knows."""
    specs = [*map(str, options.scenarios), *options.only]
    return [scenarios.load(spec) for spec in specs] or list(whole)


def _refuse_undoable(wanted: Sequence[Scenario], backend: str, weakened: bool) -> None:
    """BadInput, before anything starts, on a scenario that the chosen backend cannot play."""
    for scenario in wanted:
        played = _played(scenario, weakened)
        if reason := lacking(played, able(backend)):
            raise BadInput(reason)
        try:
            check_plan(backend, played.shape)
        except BadInput as error:
            raise BadInput(f"scenario {scenario.name}: shape: {error}; use --backend {PROCESSES}") from error


def _played(scenario: Scenario, weakened: bool) -> Scenario:
    return scenarios.weakened(scenario) if weakened else scenario


def _required(options: GateOptions, whole: Sequence[Scenario], wanted: Sequence[Scenario]) -> Sequence[Scenario]:
    """A file of the user's, or a scenario outside the gate, is a whole of its own; a part of the gate is a part."""
    inside = {s.name for s in whole}
    return whole if all(s.name in inside for s in wanted) and not options.scenarios else wanted


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What became of one task: its bundles in the order of the tries, or a sentence on why there is none."""

    name: str
    driven: tuple[Driven, ...] = ()
    error: str | None = None


def _task(
    scenario: Scenario, options: GateOptions, whole: Sequence[Scenario], release: Release, out: Path, weakened: bool
) -> Task:
    shares = records_of(whole, options.records)
    records = shares.get(scenario.name) or options.records // max(1, len(whole))
    rng = Random(f"{options.seed}/{scenario.name}")
    return Task(
        scenario=paced(_played(scenario, weakened), records),
        contract=contract_of(scenario),
        weakened=scenario.weakening.what if weakened and scenario.weakening else None,
        seed=options.seed,
        run=rng.getrandbits(63),
        records=records,
        out=out / scenario.name,
        facts={
            "release": {"version": release.version, "commit": release.commit, "source": release.source},
            "backend": options.backend,
            "limits": asdict(options.limits),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in VERSIONED}},
        },
    )


def _drive_all(tasks: Sequence[Task], release: Release, options: GateOptions, progress: Progress) -> list[_Attempt]:
    """Every scenario, clusters of one shape shared in a row; nothing but evidence comes out."""
    attempts = []
    with _Shelf(release, options, progress) as shelf:
        for number, task in enumerate(tasks, 1):
            progress.line(f"[{number}/{len(tasks)}] {task.scenario.name}: {task.scenario.title}")
            attempts.append(_attempt(task, shelf, progress))
    return attempts


def _attempt(task: Task, shelf: _Shelf, progress: Progress) -> _Attempt:
    """A run that was in doubt while it ran is tried once more, on a new cluster; both are judged and shown."""
    tries: list[Driven] = []
    try:
        while not tries or (task.weakened is None and len(tries) < TRIES_MAX and try_again(tries[-1].doubts)):
            again = replace(task, out=task.out.with_name(f"{task.out.name}-again")) if tries else task
            cluster = shelf.take(task.scenario)
            tries.append(drive(again, cluster, progress))
            shelf.give_back(task.scenario, healthy=tries[-1].healthy)
            for doubt in tries[-1].doubts:
                progress.line(f"    doubt: {doubt.name}: {doubt.text}")
    except HarnessError as error:
        shelf.retire()
        if not tries:
            return _Attempt(task.scenario.name, error=str(error))
        progress.line(f"    the second try came to nothing: {error}")
    return _Attempt(task.scenario.name, tuple(tries))


def try_again(doubts: Sequence[Doubt]) -> bool:
    """What brokers told clients speaks of the release, not of the machine: a second try would only hide it."""
    return bool(doubts) and not any(doubt.name in TOLD_BY_BROKERS for doubt in doubts)


def _one_by_one(
    tasks: Sequence[Task], release: Release, options: GateOptions, progress: Progress, summary: GateSummary
) -> list[ScenarioResult]:
    """With --fail-fast each is judged before the next starts; Spark and brokers never share the machine."""
    results: list[ScenarioResult] = []
    for task in tasks:
        results += _judged(_drive_all([task], release, options, progress), progress)
        write_gate(task.out.parent, replace(summary, results=tuple(results)))
        if results[-1].status is not Status.PASS:
            break
    return results


def _judged(attempts: Sequence[_Attempt], progress: Progress) -> list[ScenarioResult]:
    bundles = [Bundle.open(d.bundle, allow_unfinished=True) for a in attempts for d in a.driven]
    each = judge_each(bundles, None, progress)
    return [_result(attempt, each) for attempt in attempts]


def _result(attempt: _Attempt, each: Each) -> ScenarioResult:
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


class _Shelf:
    """The cluster that is up. One of the same shape is used again unless something was doubtful in it."""

    def __init__(self, release: Release, options: GateOptions, progress: Progress) -> None:
        self._release = release
        self._options = options
        self._progress = progress
        self._cluster: Cluster | None = None

    def __enter__(self) -> _Shelf:
        return self

    def __exit__(self, *_: object) -> None:
        if self._cluster is not None and self._options.keep:
            self._progress.line(self._cluster.describe_kept())
        self._close()

    def take(self, scenario: Scenario) -> Cluster:
        if self._cluster is not None and (scenario.fresh or self._cluster.shape != scenario.shape):
            self.retire()
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
            self._release,
            shape,
            backend=self._options.backend,
            keep=self._options.keep,
            progress=self._progress,
            limits=self._options.limits,
        )


def clear(cluster: Cluster, scenario: Scenario) -> None:
    """Deletes the scenario's topics."""
    with truth.observer(cluster) as admin:
        admin.delete_topics([topic.name for topic in scenario.topics])


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
