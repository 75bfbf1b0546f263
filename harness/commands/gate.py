"""The gate as a story: choose scenarios, prepare the release, drive them all, and only then judge and write."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from msgspec.structs import asdict, replace

from harness.clusters import Releases
from harness.commands.attached import Attached, look, run_of, select, with_jars
from harness.commands.options import OUT_DEFAULT, GateOptions, GateResult
from harness.commands.prepare import find_release, prepare
from harness.commands.scenario_selection import (
    Choice,
    Selected,
    Selection,
    assign_backends,
    backends_of,
    choose_scenarios,
)
from harness.commands.tries import Tries, drive_all, result_of
from harness.commands.verify import check_judge, judge_each
from harness.evidence.gate import GateSummary, ScenarioResult, write_gate
from harness.evidence.known import with_known
from harness.evidence.layout import RELEASE_JARS
from harness.kafka.release.byteman import AGENT
from harness.kafka.release.digests import files_of
from harness.kafka.release.release import Release
from harness.model.backend import ATTACHED
from harness.model.contract.contract import contract_of
from harness.model.documents.manifest import BuildDigest, NamedRelease, Origin
from harness.model.errors import BadInput
from harness.model.own_names import prefix_of
from harness.model.plugin import active
from harness.model.scenario import tier_rules
from harness.model.scenario.load_plan import paced, records_of
from harness.model.verdict import Status
from harness.run.cluster_pool import ClusterPool, Pool
from harness.run.progress import Progress
from harness.run.scenario_run import Task
from harness.workload.java.java_process import clients_of

VERSIONED: Final = ("confluent-kafka", "kafka-python", "pyarrow", "pyspark", "toxiproxy-python")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a gate needs before it plays: nothing is started or written for it, but the cache of releases."""

    options: GateOptions
    release: Release
    choice: Choice
    selection: Selection
    releases: Releases
    attached: Attached | None = None


def plan(options: GateOptions, progress: Progress, *, negative_control: bool = False) -> Plan:
    """Finds the release and decides what is played. BadInput where the options cannot be met.

    negative_control: see `gate`.
    """
    if options.attach is not None:
        return _plan_attached(options, progress, negative_control=negative_control)
    release, backend = find_release(options, progress)
    check_judge()
    progress.line(f"seed {options.seed}")

    choice = choose_scenarios(options, backend, negative_control=negative_control)
    selection = assign_backends(options, choice.wanted, backends_of(options, backend), release)
    prepared = prepare(release, [one.played for one in selection.selected], options, progress)
    selection = selection.without(prepared.lacking, options)
    for line in selection.lines(backend):
        progress.line(line)
    return Plan(options=options, release=release, choice=choice, selection=selection, releases=prepared.releases)


def _plan_attached(options: GateOptions, progress: Progress, *, negative_control: bool) -> Plan:
    """The same on an existing cluster, in which nothing is changed yet."""
    check_judge()
    attached = look(options, progress)
    progress.line(f"seed {options.seed}")
    choice = choose_scenarios(options, ATTACHED, negative_control=negative_control)
    selection = select(options, attached, choice.wanted)
    for line in selection.lines(ATTACHED):
        progress.line(line)
    played = [one.played for one in selection.selected]
    prepared = prepare(with_jars(attached.release, options, played, progress), played, options, progress)
    return Plan(
        options=options,
        release=attached.release,
        choice=choice,
        selection=selection.without(prepared.lacking, options),
        releases=prepared.releases,
        attached=attached,
    )


def gate(options: GateOptions, progress: Progress, *, negative_control: bool = False) -> GateResult:
    """Judges a release by the scenarios asked for. All evidence is on disk before anything is judged.

    negative_control: each scenario runs with the change that must make it FAIL, and is judged by the contract that it
    declares without it. BadInput, and nothing written, where the options cannot be met.
    """
    began_s = time.monotonic()
    planned = plan(options, progress, negative_control=negative_control)
    return play(planned, progress, began_s)


def play(planned: Plan, progress: Progress, began_s: float | None = None) -> GateResult:
    """Plays and judges what was planned. began_s: when its gate began, by the monotonic clock; None = now."""
    began_s = time.monotonic() if began_s is None else began_s
    options, release = planned.options, planned.release
    attached = planned.attached
    what = attached.live.cluster_id if attached else release.version
    out = options.out or OUT_DEFAULT / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{what}"
    files = None if attached else files_of(release)
    named = attached.named if attached else reported(release, files.digest if files else None)
    tasks = [task_of(one, planned.choice, planned.releases, options, out, named) for one in planned.selection.selected]
    summary = _summary(planned.choice, planned.selection, named, options)
    _make_folder(out)
    if files and files.listing:
        (out / RELEASE_JARS).write_text(files.listing, encoding="utf-8")
    write_gate(out, summary)  # if the gate dies, its bundles are not taken for a whole one when they are judged again

    results = _drive_and_judge(tasks, planned, progress, summary)
    summary = replace(summary, results=tuple(results), took_s=round(time.monotonic() - began_s, 1))
    summary = with_known(summary, out, options.known)
    write_gate(out, summary)
    return GateResult(out=out, summary=summary)


def task_of(
    one: Selected, choice: Choice, releases: Releases, options: GateOptions, out: Path, named: NamedRelease
) -> Task:
    """The run of a scenario. out: the folder in which its bundle will be."""
    control = one.declared.negative_control if one.played is not one.declared else None
    records = records_of(one.declared, choice.gate, options.records)
    records = max(records, tier_rules.records_min(one.played))
    start = releases.start(one.played.shape)
    return Task(
        scenario=paced(one.played, records),
        contract=contract_of(one.declared),
        negative_control=control.what if control else None,
        backend=one.backend,
        seed=options.seed,
        run=run_of(options.seed, one.name),
        records=records,
        out=out / one.name,
        java=clients_of(releases.tested),
        origin=Origin(
            release=named,
            starts_on=reported(start) if start else None,
            backend=one.backend,
            limits=asdict(options.limits),
            tier_storage=options.tier_storage.class_name if options.tier_storage else None,
            agent=AGENT if one.played.shape.agent else None,
            plugins=tuple(plugin.used for plugin in active()),
            versions={"python": platform.python_version(), **{name: version(name) for name in VERSIONED}},
        ),
        prefix=prefix_of(run_of(options.seed, one.name)) if options.attach else None,
        rate_per_s=options.attach.rate_per_s if options.attach else None,
    )


def reported(release: Release, build: BuildDigest | None = None) -> NamedRelease:
    """The release as documents name it."""
    return NamedRelease(
        version=release.version,
        commit=release.commit,
        source=release.source,
        kafka=release.kafka,
        maven_repo=release.maven_repo,
        build=build,
    )


def _summary(choice: Choice, selection: Selection, named: NamedRelease, options: GateOptions) -> GateSummary:
    return GateSummary(
        required=choice.required,
        results=(),
        release=named,
        seed=options.seed,
        records=options.records,
        limits=options.limits if options.limits.asked() else None,
        scenario_files={file.stem: str(file.absolute()) for file in options.scenarios},
        tier_storage=str(options.tier_storage_file.absolute()) if options.tier_storage_file else None,
        part=choice.part,
        left_out=choice.left_out,
        not_run=selection.not_run,
        not_applicable=selection.not_applicable,
        backends=tuple(sorted({one.backend for one in selection.selected})),
    )


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as refused:  # it could be made when the command began
        raise BadInput(
            f"{out} cannot be made ({refused.strerror}): give --out a folder that you may write to"
        ) from None


def _drive_and_judge(
    tasks: Sequence[Task], planned: Plan, progress: Progress, summary: GateSummary
) -> list[ScenarioResult]:
    """Judges when all brokers are stopped, so that Spark and brokers never share the machine, except with --keep.

    With --fail-fast, each scenario is judged before the next one starts on a new cluster.
    """
    results: list[ScenarioResult] = []
    options = planned.options
    for batch in [[task] for task in tasks] if options.fail_fast else [tasks]:
        pool = _pool(batch, planned, progress)
        results += _judge(drive_all(batch, pool, progress, options.tries_max), progress)
        out, so_far = tasks[0].out.parent, replace(summary, results=tuple(results))
        write_gate(out, so_far)
        after = with_known(so_far, out, options.known).status_after(results[-1])
        if options.fail_fast and after is not Status.PASS:
            break
    return results


def _pool(batch: Sequence[Task], planned: Plan, progress: Progress) -> Pool:
    """Where the scenarios get their clusters from."""
    options = planned.options
    if planned.attached is not None:
        return planned.attached.pool([task.scenario for task in batch], options.seed, batch[0].out.parent, progress)
    return ClusterPool(planned.releases, progress, limits=options.limits, keep=options.keep)


def _judge(tries: Sequence[Tries], progress: Progress) -> list[ScenarioResult]:
    each = judge_each([driven.bundle for one in tries for driven in one.driven], progress)
    return [result_of(one, each) for one in tries]
