"""The harness is killed at random moments of a whole run, from its first import to its verdict: nothing of it is left.

`--kills` says how often, `--kill-seed` repeats the moments. Each kill is a line of the summary.
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
OF_DISKS: Final = "disk_stalled"  # they may be frozen when it happens
DURABILITY: Final = str(Path(sysconfig.get_path("scripts"), "durability"))


@dataclass(frozen=True, slots=True)
class Yard:
    """A place of its own for everything that a harness writes while it works."""

    root: Path
    backend: str
    env: dict[str, str]
    scenario: str = "leader_killed"

    def start(self, name: str) -> tuple[subprocess.Popen[bytes], Path]:
        """A gate of one scenario, and the file that it tells its progress to."""
        said = self.root / f"{name}.log"
        command = [DURABILITY, "gate", "--only", self.scenario, "--records", "30000", "--seed", "1"]
        command += ["--backend", self.backend, "--out", str(self.root / "out" / name)]
        with said.open("wb") as log:
            return subprocess.Popen(command, env=self.env, stdout=log, stderr=subprocess.STDOUT), said

    def clean(self) -> list[str]:
        """What `durability clean` says."""
        done = subprocess.run(
            [DURABILITY, "clean"], env=self.env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == Exit.PASS, done.stderr
        return done.stdout.splitlines()

    def alive(self) -> list[str]:
        """Processes, and what an engine has."""
        work = Path(self.env["TMPDIR"])
        return _processes(work) + (_of_engine(work) if self.backend == CONTAINERS else [])

    def left(self) -> list[str]:
        """Processes, files, containers, networks and mounts of a run, but for its evidence."""
        work, found = Path(self.env["TMPDIR"]), self.alive()
        found += [f"file {path}" for path in work.rglob("*") if not path.is_dir()]
        found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(self.root) in line]
        backing = (path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file"))
        found += [f"loop device of {path.strip()}" for path in backing if str(self.root) in path]
        return found


def _processes(work: Path) -> list[str]:
    """All that descend from a harness which worked there, Spark's Java included: they inherit its TMPDIR."""
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
        entities = [*containers, *client.networks.list(filters=label), *client.volumes.list(filters=label)]
        return [f"{type(metadata_entity).__name__} {metadata_entity.name}" for metadata_entity in entities]
    finally:
        client.close()


@pytest.fixture
def yard(tmp_path: Path, backend: str) -> Iterator[Yard]:
    """Where a run has disks of its own to leave behind, if this machine can have such."""
    work = tmp_path / "work"
    work.mkdir()
    scenario = "leader_killed" if lacking(load(OF_DISKS), able(backend)) else OF_DISKS
    yard = Yard(tmp_path, backend, os.environ | {"TMPDIR": str(work), "CI": "1"}, scenario)
    yield yard
    yard.clean()


def test_nothing_is_left_behind_at_whatever_moment_the_harness_is_killed(yard: Yard, request: pytest.FixtureRequest) -> None:
    kills, seed = request.config.getoption("--kills"), request.config.getoption("--kill-seed")
    chance = random.Random(seed)
    whole, said = yard.start("whole")
    began = time.monotonic()
    assert whole.wait(RUN_S) in (Exit.PASS, Exit.INCONCLUSIVE), said.read_text()  # starved, it proves nothing
    length_s = time.monotonic() - began
    tell = request.config.stash[KILLS].append
    tell(f"--kill-seed {seed}, {yard.backend}: a whole run takes {length_s:.0f} s")
    for number in range(kills):
        tell(_killed(yard, f"kill-{number}", chance.uniform(0, length_s), alone=chance.random() < 0.75))


def _killed(yard: Yard, name: str, after_s: float, *, alone: bool) -> str:
    """Kills a harness, or it and its supervisors, and looks for what is left; the line of it."""
    harness, said = yard.start(name)
    with contextlib.suppress(subprocess.TimeoutExpired):
        harness.wait(after_s)
    ended = harness.poll()
    states = runs(Path(yard.env["TMPDIR"]) / default_root().name)
    if not alone:
        for state in states:
            if state.supervisor is not None and state.supervisor.alive:
                os.kill(state.supervisor.pid, signal.SIGKILL)
    harness.kill()
    harness.wait(10)
    if alone:  # the supervisor is on its way; nobody has to sweep but what a judge wrote
        wait_for(yard.alive, until=lambda left: not left, deadline_s=FAREWELL_S, what=f"all of {name} to end")
    cleaned = yard.clean()
    assert yard.clean() == ["nothing was left behind"]
    wait_for(yard.left, until=lambda left: not left, deadline_s=10, what=f"nothing to be left of {name}")
    last = (said.read_text("utf-8", "replace").strip().splitlines() or ["nothing yet"])[-1]
    who = "the harness" if alone else "the harness and its supervisor"
    at = f"after {after_s:.1f} s" if ended is None else f"after its end ({Exit(ended).name})"
    return f"{name}: {who} {at}, at {last[:70]!r}; clean: {'; '.join(cleaned)}"
