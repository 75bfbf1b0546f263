"""The harness is killed at random moments of a run, from its first import to its verdict, and nothing of it is left.

`--kills` is the number of kills, `--kill-seed` repeats their moments. The summary has a line for each kill.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from harness.clusters.choosing import able
from harness.clusters.containers.engine import ROOT_LABEL, engine
from harness.clusters.state import default_root, runs
from harness.faults.steps.registry import lacking
from harness.model.backend import CONTAINERS
from harness.model.exits import Exit
from harness.model.waiting import wait_for
from harness.scenarios import load
from suites.gate.conftest import KILLS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(0)]  # each wait has its own bound

RUN_S: Final = 600.0
FAREWELL_S: Final = 45.0
OF_DISKS: Final = "disk_stalled"  # its disks may be frozen at the moment of the kill
DURABILITY: Final = str(Path(sysconfig.get_path("scripts"), "durability"))


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder of its own for everything that a harness writes while it works."""

    root: Path
    backend: str
    env: dict[str, str]
    scenario: str = "leader_killed"

    def start(self, name: str) -> tuple[subprocess.Popen[bytes], Path]:
        """Starts a gate of one scenario. Returns it and the file with its output."""
        log_file = self.root / f"{name}.log"
        command = [DURABILITY, "gate", "--only", self.scenario, "--records", "30000", "--seed", "1"]
        command += ["--backend", self.backend, "--out", str(self.root / "out" / name)]
        with log_file.open("wb") as log:
            return subprocess.Popen(command, env=self.env, stdout=log, stderr=subprocess.STDOUT), log_file

    def clean(self) -> list[str]:
        """The output of `durability clean`."""
        done = subprocess.run(
            [DURABILITY, "clean"], env=self.env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == Exit.PASS, done.stderr
        return done.stdout.splitlines()

    def alive(self) -> list[str]:
        """Processes of the harness, and what the engine has of it."""
        work = Path(self.env["TMPDIR"])
        return _processes(work) + (_of_engine(work) if self.backend == CONTAINERS else [])

    def left(self) -> list[str]:
        """Processes, files, containers, networks and mounts of a run, without its evidence."""
        work, found = Path(self.env["TMPDIR"]), self.alive()
        found += [f"file {path}" for path in work.rglob("*") if not path.is_dir()]
        found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(self.root) in line]
        backing = (path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file"))
        found += [f"loop device of {path.strip()}" for path in backing if str(self.root) in path]
        return found


def _processes(work: Path) -> list[str]:
    """All descendants of a harness that worked there, including Spark's Java: they inherit its TMPDIR."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("TMPDIR") == str(work):
                found.append(f"process {process.pid}: {' '.join(process.cmdline())[:100]}")
    return found


def _of_engine(work: Path) -> list[str]:
    label = {"label": f"{ROOT_LABEL}={work / default_root().name}"}
    client = engine()
    try:
        containers = client.containers.list(all=True, filters=label, ignore_removed=True)
        left = [*containers, *client.networks.list(filters=label), *client.volumes.list(filters=label)]
        return [f"{type(found).__name__} {found.name}" for found in left]
    finally:
        client.close()


@pytest.fixture
def workspace(tmp_path: Path, backend: str) -> Iterator[Workspace]:
    """A workspace. Its scenario has disks of its own, if this machine can have such."""
    work = tmp_path / "work"
    work.mkdir()
    scenario = "leader_killed" if lacking(load(OF_DISKS), able(backend)) else OF_DISKS
    workspace = Workspace(tmp_path, backend, os.environ | {"TMPDIR": str(work), "CI": "1"}, scenario)
    yield workspace
    workspace.clean()


def test_nothing_is_left_behind_at_whatever_moment_the_harness_is_killed(
    workspace: Workspace, request: pytest.FixtureRequest
) -> None:
    kills, seed = request.config.getoption("--kills"), request.config.getoption("--kill-seed")
    chance = random.Random(seed)
    whole, log_file = workspace.start("whole")
    began = time.monotonic()
    assert whole.wait(RUN_S) in (Exit.PASS, Exit.INCONCLUSIVE), log_file.read_text()  # INCONCLUSIVE on a slow machine
    length_s = time.monotonic() - began
    tell = request.config.stash[KILLS].append
    tell(f"--kill-seed {seed}, {workspace.backend}: a whole run takes {length_s:.0f} s")
    for number in range(kills):
        tell(_killed(workspace, f"kill-{number}", chance.uniform(0, length_s), alone=chance.random() < 0.75))


def _killed(workspace: Workspace, name: str, after_s: float, *, alone: bool) -> str:
    """Kills a harness, or the harness and its supervisors, and checks that nothing is left. Returns a line about it."""
    harness, log_file = workspace.start(name)
    with contextlib.suppress(subprocess.TimeoutExpired):
        harness.wait(after_s)
    ended = harness.poll()
    states = runs(Path(workspace.env["TMPDIR"]) / default_root().name)
    if not alone:
        for state in states:
            if state.supervisor is not None and state.supervisor.alive:
                os.kill(state.supervisor.pid, signal.SIGKILL)
    harness.kill()
    harness.wait(10)
    if alone:  # the supervisor removes the run; only files of a judge need a sweep
        wait_for(workspace.alive, until=lambda left: not left, deadline_s=FAREWELL_S, what=f"all of {name} to end")
    cleaned = workspace.clean()
    assert workspace.clean() == ["nothing was left behind"]
    wait_for(workspace.left, until=lambda left: not left, deadline_s=10, what=f"nothing to be left of {name}")
    last = (log_file.read_text("utf-8", "replace").strip().splitlines() or ["no output yet"])[-1]
    killed = "the harness" if alone else "the harness and its supervisor"
    at = f"after {after_s:.1f} s" if ended is None else f"after its end ({Exit(ended).name})"
    return f"{name}: {killed} {at}, at {last[:70]!r}; clean: {'; '.join(cleaned)}"
