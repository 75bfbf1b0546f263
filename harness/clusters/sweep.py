"""Finds and removes what crashed runs left behind, and ends clusters that were kept."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from harness.clusters.containers.engine import ROOT_LABEL, RUN_LABEL, NoEngine, asking, engine, is_short_lived
from harness.clusters.disks.unmount import thaw_below
from harness.clusters.nodes import clocks
from harness.clusters.state import ProcessId, RunState, default_root, load, remove_directory, runs
from harness.kafka.release.cache import sweep_default_cache
from harness.model.backend import CONTAINERS
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scratch import abandoned
from harness.model.waiting import wait_for

_END_S = 15.0
_REMOVED_S = 60.0  # a supervisor has 25 s for its cleanup commands, and 10 s for each process that ends slowly
_SUPERVISOR = "supervisor.py"
_INCOMPLETE_AGE_S = 600.0


def _remove_scratch() -> None:
    for path in abandoned():
        shutil.rmtree(path, ignore_errors=True)


# Files that a killed process of ours leaves outside of the directory of a run. `sweep` calls each function once; it
# removes what no living process uses, and nothing of another user. A new kind of leftover needs one entry here.
OUTSIDE_OF_RUNS: Final[tuple[Callable[[], object], ...]] = (
    clocks.tidy,
    _remove_scratch,
)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A cluster that does not belong to a living harness."""

    run: str
    directory: Path
    what: str

    def __str__(self) -> str:
        return f"{self.run}: {self.what}"


def leftovers(root: Path | None = None) -> list[Leftover]:
    """Clusters that were kept, and the remains of runs that crashed."""
    found: list[Leftover] = []
    for state in runs(root or default_root(make=False)):
        if _remains(state):
            found.append(Leftover(state.run, state.directory, "remains of a run that crashed"))
        elif state.kept and state.supervised and not state.harness.alive:
            text = f"a cluster of Kafka {state.release} that was kept, at {state.bootstrap}"
            found.append(Leftover(state.run, state.directory, text))
    return found


def sweep(root: Path | None = None) -> list[str]:
    """Removes the remains of dead runs, never a living or a kept one. Returns a line for each, removed or not."""
    base = root or default_root(make=False)
    swept = [_swept(state) for state in runs(base) if _remains(state)]
    for path in [*base.glob(".new-*"), *(path for path in base.glob("run-*") if load(path) is None)]:
        try:
            old = time.time() - path.lstat().st_mtime > _INCOMPLETE_AGE_S
        except OSError:
            continue  # it has just been given its name, or was removed
        if old:
            with contextlib.suppress(HarnessFailure):  # it belongs to another user
                remove_directory(path)
    for remove in OUTSIDE_OF_RUNS:
        remove()
    return swept


def clean(run: str | None = None, root: Path | None = None) -> list[str]:
    """Ends kept clusters and removes the remains of dead runs. Returns a line for each.

    run: only this one, by its name or its path. Raises BadInput if it does not exist or a living harness uses it, and
    HarnessTimeout if a supervisor does not finish removing its run.
    """
    base = root or default_root(make=False)
    if run is None:
        kept = [state for state in runs(base) if state.kept and not state.dead and not state.harness.alive]
        ended = [_end(state, "ended") for state in kept]
        _wait_for_supervisors(base)
        # A root of the caller's own, as tests have it, says nothing about the user's cache.
        prepared = sweep_default_cache() if root is None else []
        return ended + sweep(base) + sweep_engine(base) + prepared
    directory = Path(run) if Path(run).is_absolute() else base / run
    state = load(directory)
    if state is None:
        known = ", ".join(state.run for state in runs(base))
        there = f"its runs are {known}" if known else "it has no runs"
        raise BadInput(
            f"there is no run {run!r} in {base} ({there}); `durability clean` without a name ends every kept cluster "
            "and removes what crashed runs left"
        )
    if state.harness.alive and state.harness.pid != os.getpid():
        raise BadInput(f"{state.run} is in use by process {state.harness.pid}: end that process first")
    return [_end(state, "ended")]


def _wait_for_supervisors(root: Path) -> None:
    """When a harness ends, its supervisor removes the run, unless it was killed as well and is about to end."""
    wait_for(
        lambda: [
            f"{state.run} with process {state.supervisor.pid}"
            for state in runs(root)
            if state.supervisor and state.supervised and not state.kept and not state.harness.alive
        ],
        until=lambda ending: not ending,
        deadline_s=_REMOVED_S,
        what="the supervisors of ended harnesses to remove their runs",
    )


def _end(state: RunState, verb: str) -> str:
    for supervisor in _supervisors(state):
        _end_supervisor(supervisor, state.run)
    thaw_below(state.directory)
    _kill_processes_of(state.directory)
    if state.backend == CONTAINERS:
        remove_containers(state)
    remove_directory(state.directory)
    return f"{verb} {state.run}"


def sweep_engine(root: Path) -> list[str]:
    """Removes from the container engine the remains of runs that have no directory any more. A line for each."""
    try:
        client = engine()
    except BadInput:
        return []
    from harness.clusters.containers import reap

    try:
        with asking("remove what dead runs left"):
            known = {state.run for state in runs(root)}
            found = reap.runs_of(client, f"{ROOT_LABEL}={root.absolute()}", RUN_LABEL)
            lost = sorted(run for run in found - known if not is_short_lived(run))
            for run in lost:
                reap.reap(client, f"{RUN_LABEL}={run}")
    finally:
        client.close()
    return [f"swept the remains of {run}" for run in lost]


def _remains(state: RunState) -> bool:
    """Whether the run is dead. A run that is being made has no supervisor yet either, but its harness lives."""
    return state.dead and (state.supervisor is not None or not state.harness.alive)


def _swept(state: RunState) -> str:
    """Removes a dead run. One of containers stays until an engine answers, for only the engine can remove them."""
    try:
        if state.backend == CONTAINERS:
            engine().close()
        return _end(state, "swept the remains of")
    except NoEngine as silent:
        return f"left the remains of {state.run}: {silent.why}"
    except HarnessFailure as refused:
        return f"left the remains of {state.run}: {refused}"


def remove_containers(state: RunState) -> None:
    """Removes everything on the engine that carries the run's label. BadInput when no engine answers."""
    client = engine()
    from harness.clusters.containers import reap  # only now: `engine` has checked that its library is installed

    try:
        with asking(f"remove what {state.run} left"):
            reap.reap(client, f"{RUN_LABEL}={state.run}")
    finally:
        client.close()


def _end_supervisor(supervisor: ProcessId, run: str) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
        os.kill(supervisor.pid, signal.SIGTERM)
    wait_for(
        lambda: supervisor.alive,
        until=lambda alive: not alive,
        deadline_s=_END_S,
        what=f"the supervisor {supervisor.pid} of {run} to end",
    )


def _supervisors(state: RunState) -> list[ProcessId]:
    """The living supervisors of a run. Its state lacks one if the harness died before it could save the state."""
    found = {state.supervisor} if state.supervised else set()
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if str(state.directory.absolute()) in command and any(Path(word).name == _SUPERVISOR for word in command):
            found.add(ProcessId.of(process.pid))
    return [supervisor for supervisor in found if supervisor is not None]


def _kill_processes_of(directory: Path) -> None:
    """Kills processes with the directory of a dead run in their command. There are none if PR_SET_PDEATHSIG worked."""
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if process.pid != os.getpid() and any(f"{directory}/" in argument for argument in command[:3]):
            try:
                process.kill()
                process.wait(_END_S)
            except psutil.NoSuchProcess:
                continue
