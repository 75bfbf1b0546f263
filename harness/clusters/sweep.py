"""What crashes and kept clusters left, and how it goes away."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.clusters.containers.engine import ROOT_LABEL, RUN_LABEL, NoEngine, asking, engine, is_passing
from harness.clusters.disks.unmount import thaw_below
from harness.clusters.nodes import clocks
from harness.clusters.state import ProcessId, RunState, default_root, load, remove_directory, runs
from harness.model.backend import CONTAINERS
from harness.model.errors import BadInput
from harness.model.scratch import abandoned
from harness.model.waiting import wait_for

_END_S = 15.0
_REMOVED_S = 60.0  # a supervisor has 25 for its farewells, 10 for each process that is slow to die
_SUPERVISOR = "supervisor.py"
_INCOMPLETE_AGE_S = 600.0


@dataclass(frozen=True, slots=True)
class Leftover:
    """A cluster that no living harness answers for."""

    run: str
    directory: Path
    what: str

    def __str__(self) -> str:
        return f"{self.run}: {self.what}"


def leftovers(root: Path | None = None) -> list[Leftover]:
    """Clusters that were kept, and the remains of runs that crashed."""
    found = []
    for state in runs(root or default_root()):
        if _remains(state):
            found.append(Leftover(state.run, state.directory, "remains of a run that crashed"))
        elif state.kept and state.supervised and not state.harness.alive:
            text = f"a cluster of Kafka {state.release} that was kept, at {state.bootstrap}"
            found.append(Leftover(state.run, state.directory, text))
    return found


def sweep(root: Path | None = None) -> list[str]:
    """Removes the remains of dead runs, never a living or a kept one; says what it removed, and what it could not."""
    base = root or default_root()
    swept = [_swept(state) for state in runs(base) if _remains(state)]
    for path in [*base.glob(".new-*"), *(path for path in base.glob("run-*") if load(path) is None)]:
        try:
            old = time.time() - path.lstat().st_mtime > _INCOMPLETE_AGE_S
        except OSError:
            continue  # it has just got its name, or is gone
        if old:
            with contextlib.suppress(OSError):  # somebody else's
                remove_directory(path)
    clocks.tidy()
    for path in abandoned():
        shutil.rmtree(path, ignore_errors=True)
    return swept


def clean(run: str | None = None, root: Path | None = None) -> list[str]:
    """Ends kept clusters and removes the remains of dead runs: all of them, or the one named `run` (or by its path).

    Raises BadInput when there is no such run, or a living harness is using it; HarnessTimeout when a supervisor that
    is removing its run does not come to an end.
    """
    base = root or default_root()
    if run is None:
        kept = [state for state in runs(base) if state.kept and not state.dead and not state.harness.alive]
        ended = [_end(state, "ended") for state in kept]
        _wait_for_supervisors(base)
        return ended + sweep(base) + sweep_engine(base)
    directory = Path(run) if Path(run).is_absolute() else base / run
    state = load(directory)
    if state is None:
        known = ", ".join(state.run for state in runs(base)) or "none at all"
        raise BadInput(
            f"there is no run {run!r} in {base}, only {known}; `durability clean` without a name ends what was kept "
            "and sweeps what crashed"
        )
    if state.harness.alive and state.harness.pid != os.getpid():
        raise BadInput(f"{state.run} is in use by process {state.harness.pid}: end that first")
    return [_end(state, "ended")]


def _wait_for_supervisors(root: Path) -> None:
    """Whose harness has just ended removes its run by itself; or was killed, too, and is not quite dead."""
    wait_for(
        lambda: [
            f"{state.run} with process {state.supervisor.pid}"
            for state in runs(root)
            if state.supervisor and state.supervised and not state.kept and not state.harness.alive
        ],
        until=lambda ending: not ending,
        deadline_s=_REMOVED_S,
        what="runs whose harness has ended to be removed by their supervisors",
    )


def _end(state: RunState, verb: str) -> str:
    for supervisor in _supervisors(state):
        _end_supervisor(supervisor, state.run)
    thaw_below(state.directory)
    _kill_strays(state.directory)
    if state.backend == CONTAINERS:
        remove_containers(state)
    remove_directory(state.directory)
    return f"{verb} {state.run}"


def sweep_engine(root: Path) -> list[str]:
    """Removes what runs left on a container engine whose directory is gone, too; says of which runs it was."""
    try:
        client = engine()
    except BadInput:
        return []
    from harness.clusters.containers import reap

    try:
        with asking("remove what runs left"):
            known = {state.run for state in runs(root)}
            found = reap.runs_of(client, f"{ROOT_LABEL}={root.absolute()}", RUN_LABEL)
            lost = sorted(run for run in found - known if not is_passing(run))
            for run in lost:
                reap.reap(client, f"{RUN_LABEL}={run}")
    finally:
        client.close()
    return [f"swept the remains of {run}" for run in lost]


def _remains(state: RunState) -> bool:
    """Dead, and not one in the making: that has no supervisor yet, and a harness that is about to name it."""
    return state.dead and (state.supervisor is not None or not state.harness.alive)


def _swept(state: RunState) -> str:
    """A run of containers waits for its engine: what it left can only be removed there."""
    if state.backend == CONTAINERS:
        try:
            engine().close()
        except NoEngine as silent:
            return f"left the remains of {state.run}: {silent.why}"
    return _end(state, "swept the remains of")


def remove_containers(state: RunState) -> None:
    """Everything on the engine that carries the run's label. BadInput when no engine answers."""
    client = engine()
    from harness.clusters.containers import reap  # its library is there

    try:
        with asking(f"remove what {state.run} left"):
            reap.reap(client, f"{RUN_LABEL}={state.run}")
    finally:
        client.close()


def _end_supervisor(supervisor: ProcessId, run: str) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.kill(supervisor.pid, signal.SIGTERM)
    wait_for(
        lambda: supervisor.alive,
        until=lambda alive: not alive,
        deadline_s=_END_S,
        what=f"the supervisor {supervisor.pid} of {run} to end",
    )


def _supervisors(state: RunState) -> list[ProcessId]:
    """The living ones of a run: that which its state names, or one whose harness died before it could write that."""
    found = {state.supervisor} if state.supervised else set()
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if str(state.directory.absolute()) in command and any(Path(word).name == _SUPERVISOR for word in command):
            found.add(ProcessId.of(process.pid))
    return [supervisor for supervisor in found if supervisor is not None]


def _kill_strays(directory: Path) -> None:
    """Processes that name a dead run's directory in their command: none, unless the kernel lost a death signal."""
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if process.pid != os.getpid() and any(f"{directory}/" in argument for argument in command[:3]):
            try:
                process.kill()
                process.wait(_END_S)
            except psutil.NoSuchProcess:
                continue
