"""Driving the scenarios of a gate, each in one or two attempts, and the result of each.

An error in one scenario never costs the verdict on another: it becomes the result of that scenario, with a traceback in
a file. Only a signal ends all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.commands.tracebacks import first_line, save_traceback
from harness.commands.verify import BatchVerdicts
from harness.evidence.gate import ScenarioResult, is_bundle
from harness.model.doubt_names import DoubtName
from harness.model.errors import HarnessError
from harness.model.verdict import Doubt, Status
from harness.run.cluster_pool import ClusterPool
from harness.run.progress import Progress
from harness.run.scenario_run import Driven, Task, drive

ATTEMPTS_MAX: Final = 2
# These doubts come from brokers, by what they answered to clients or by their end: another attempt may hide a bug.
FROM_BROKERS: Final = frozenset({DoubtName.PRODUCER_FATAL, DoubtName.READER_RESET, DoubtName.NODE_DIED})


@dataclass(frozen=True, slots=True)
class Attempts:
    """The runs of one task that ended, or a sentence why there is none.

    unfinished: the folder of a bundle that was never sealed, where the only run broke off.
    """

    name: str
    driven: tuple[Driven, ...] = ()
    error: str | None = None
    unfinished: str | None = None


def drive_all(tasks: Sequence[Task], pool: ClusterPool, progress: Progress) -> list[Attempts]:
    """Drives every task. The result is evidence, and nothing is judged."""
    attempts = []
    with pool:
        for number, task in enumerate(tasks, 1):
            progress.line(f"[{number}/{len(tasks)}] {task.scenario.name}: {task.scenario.title}")
            attempts.append(attempt(task, pool, progress))
    return attempts


def attempt(task: Task, pool: ClusterPool, progress: Progress) -> Attempts:
    """Drives a task, and once more on a new cluster where the first run was in doubt; both runs are judged."""
    driven: list[Driven] = []
    try:
        while not driven or (len(driven) < ATTEMPTS_MAX and _again(task, driven[-1])):
            folder = task.out.with_name(f"{task.out.name}-again") if driven else task.out
            cluster = pool.take(task.scenario, task.backend)
            driven.append(drive(replace(task, out=folder), cluster, progress))
            for doubt in driven[-1].doubts:
                progress.line(f"    doubt: {doubt.name}: {doubt.text}")
            pool.give_back(task.scenario, healthy=driven[-1].healthy)
    except Exception as failure:
        error = _error(failure, task.out.with_name(f"{task.out.name}-traceback.txt"))
        progress.line(f"    {'after a run that is judged: ' if driven else ''}{error}")
        _retire(pool, progress)
        if not driven:
            left = task.out.name if is_bundle(task.out) else None
            return Attempts(task.scenario.name, error=error, unfinished=left)
    return Attempts(task.scenario.name, tuple(driven))


def _again(task: Task, last: Driven) -> bool:
    return task.negative_control is None and deserves_another(last.doubts)


def deserves_another(doubts: Sequence[Doubt]) -> bool:
    """Whether another attempt may help. It would only hide a doubt that comes from the brokers."""
    return bool(doubts) and not any(doubt.name in FROM_BROKERS for doubt in doubts)


def _error(failure: Exception, file: Path) -> str:
    """One sentence. An error of the harness explains itself; any other has its traceback kept."""
    if isinstance(failure, HarnessError):
        return str(failure)
    where = save_traceback(failure, file)
    return f"the harness failed: {type(failure).__name__}: {first_line(failure)}; traceback: {where}"


def _retire(pool: ClusterPool, progress: Progress) -> None:
    try:
        pool.retire()
    except Exception as failure:
        progress.line(f"    its cluster could not be stopped: {failure}; remove it by: durability clean")


def result_of(attempts: Attempts, each: BatchVerdicts) -> ScenarioResult:
    """The last attempt decides, but an earlier FAIL stands."""
    folders = [driven.bundle.name for driven in attempts.driven]
    if not folders:
        return ScenarioResult(name=attempts.name, status=None, bundle=attempts.unfinished, error=attempts.error)
    statuses = {bundle.name: verdict.status for bundle, verdict in each.verdicts.items()}
    failed = next((folder for folder in folders if statuses.get(folder) is Status.FAIL), None)
    decides = failed or folders[-1]
    return ScenarioResult(
        name=attempts.name,
        status=statuses.get(decides),
        bundle=decides,
        error=each.without_verdict.get(decides),
        earlier=tuple(folder for folder in folders if folder != decides),
    )
