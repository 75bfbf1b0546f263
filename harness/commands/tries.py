"""Driving the scenarios of a gate, each in one or two tries, and the result of each.

An error in one scenario never costs the verdict on another: it becomes the result of that scenario, with a traceback in
a file. Only a signal ends all of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.commands.options import TRIES_MAX
from harness.commands.tracebacks import first_line, save_traceback
from harness.commands.verify import BatchVerdicts
from harness.evidence.gate import AGAIN, ScenarioResult, decided, is_bundle, try_of
from harness.model.errors import HarnessError
from harness.run.cluster_pool import Pool
from harness.run.progress import Progress, detail_of
from harness.run.scenario_run import Driven, Task, drive


@dataclass(frozen=True, slots=True)
class Tries:
    """The runs of one task that ended, or a sentence why there is none.

    unfinished: the folder of a bundle that was never sealed, where the only run broke off.
    """

    name: str
    driven: tuple[Driven, ...] = ()
    error: str | None = None
    unfinished: str | None = None


def drive_all(tasks: Sequence[Task], pool: Pool, progress: Progress, tries_max: int = TRIES_MAX) -> list[Tries]:
    """Drives every task. The result is evidence, and nothing is judged."""
    driven, began_s = [], time.monotonic()
    with pool:
        for number, task in enumerate(tasks, 1):
            left = _left(len(tasks), number - 1, time.monotonic() - began_s)
            progress.line(f"[{number}/{len(tasks)}] {task.scenario.name}: {task.scenario.title}{left}")
            driven.append(drive_task(task, pool, progress, tries_max))
    return driven


def _left(scenarios: int, done: int, took_s: float) -> str:
    """How long the rest will take to play, if each scenario takes as long as those before; "" if that is unknown."""
    minutes = took_s / done * (scenarios - done) / 60 if done else 0.0
    return f" (about {minutes:,.0f} min left)" if minutes >= 1 else ""


def drive_task(task: Task, pool: Pool, progress: Progress, tries_max: int = TRIES_MAX) -> Tries:
    """Drives a task, and once more on a new cluster where the first run was in doubt; both runs are judged.

    The cause of the doubt does not matter here: what the brokers did in the first run stays in its result, and another
    run tells how often they do it.
    """
    driven: list[Driven] = []
    try:
        while not driven or (len(driven) < tries_max and _again(task, driven[-1])):
            folder = task.out.with_name(f"{task.out.name}{AGAIN}") if driven else task.out
            cluster = pool.take(task.scenario, task.backend)
            driven.append(drive(replace(task, out=folder), cluster, detail_of(progress)))
            for doubt in driven[-1].doubts:
                progress.line(f"    doubt ({doubt.origin}): {doubt.name}: {doubt.text}")
            pool.give_back(task.scenario, healthy=driven[-1].healthy)
    except Exception as failure:
        error = _error(failure, task.out.with_name(f"{task.out.name}-traceback.txt"))
        progress.line(f"    {'after a run that is judged: ' if driven else ''}{error}")
        _retire(pool, progress)
        if not driven:
            left = task.out.name if is_bundle(task.out) else None
            return Tries(task.scenario.name, error=error, unfinished=left)
    return Tries(task.scenario.name, tuple(driven))


def _again(task: Task, last: Driven) -> bool:
    """Not for a negative control, which is played for its findings alone, and not after a run that failed for certain:
    on a broken build each run may wait for minutes."""
    return task.negative_control is None and bool(last.doubts) and not last.failed


def _error(failure: Exception, file: Path) -> str:
    """One sentence. An error of the harness explains itself; any other has its traceback kept."""
    if isinstance(failure, HarnessError):
        return str(failure)
    where = save_traceback(failure, file)
    return f"the harness failed: {type(failure).__name__}: {first_line(failure)}; traceback: {where}"


def _retire(pool: Pool, progress: Progress) -> None:
    try:
        pool.retire()
    except Exception as failure:
        progress.line(f"    its cluster could not be stopped: {failure}; remove it by: durability clean")


def result_of(tries: Tries, each: BatchVerdicts) -> ScenarioResult:
    """The result of a scenario: `evidence.gate.decided` says which of its tries decides."""
    if not tries.driven:
        return ScenarioResult(name=tries.name, status=None, bundle=tries.unfinished, error=tries.error)
    verdicts = {bundle.name: verdict for bundle, verdict in each.verdicts.items()}
    errors = each.without_verdict
    names = [driven.bundle.name for driven in tries.driven]
    return decided(tries.name, [try_of(name, verdicts.get(name), errors.get(name)) for name in names])
