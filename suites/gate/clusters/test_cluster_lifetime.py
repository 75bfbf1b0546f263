"""Whichever way the harness ends, nothing of its clusters is left, except clusters that are to be kept."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from fixtures.plugin import MissingCapability
from harness import clusters
from harness.clusters.disks import loop_devices
from harness.clusters.disks.unmount import backing_of, mounts_below
from harness.clusters.state import RunState, runs
from harness.model.backend import PROCESSES
from harness.model.errors import BadInput
from harness.model.scenario.scenario import DISKS
from harness.model.waiting import wait_for
from suites.gate.cluster_probes import RELEASE, living, processes_of, quiet

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

HARNESS = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell inherits it ignored
from pathlib import Path
from harness import clusters
from harness.kafka.admin.client import AdminView
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.model.scenario.scenario import ClusterShape

release = resolve({RELEASE!r}, maven_repo=None, cache=default_cache(), progress=lambda line: None)
cluster = clusters.start(
    release,
    ClusterShape(brokers=1, disk=sys.argv[4]),
    root=Path(sys.argv[1]),
    keep=sys.argv[2] == "keep",
    backend=sys.argv[3],
    progress=lambda line: None,
)
try:
    if cluster.disks:  # the worst moment: a process that writes to a frozen disk cannot be killed
        cluster.disks.freeze(cluster.log_directories(1)[0])
    print(cluster.directory, flush=True)
    signal.pause()
finally:
    cluster.close()
"""


@pytest.fixture
def harness(tmp_path: Path, backend: str) -> Iterator[Callable[..., tuple[subprocess.Popen[str], Path]]]:
    """Starts another process with a harness and a cluster of its own. Returns it and the directory of the run."""
    started: list[subprocess.Popen[str]] = []

    def start(keep: str, disk: str = "") -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", HARNESS, str(tmp_path), keep, backend, disk], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        assert len(living(backend, directory)) >= 4  # toxiproxy, broker, controller, and the supervisor or networks
        return process, directory

    yield start
    for process in started:
        process.kill()
        process.communicate()
    clusters.clean(root=tmp_path)


def kill_supervisor(root: Path) -> RunState:
    """Kills the supervisor of the only run, and waits for its end: before that, it could still end the run."""
    (state,) = runs(root)
    assert state.supervisor is not None
    psutil.Process(state.supervisor.pid).kill()
    wait_for(lambda: state.supervised, until=lambda alive: not alive, deadline_s=15, what="the supervisor to end")
    return state


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_nothing_outlives_the_harness(
    harness: Callable[[str], tuple[subprocess.Popen[str], Path]], tmp_path: Path, backend: str, signal_name: str
) -> None:
    process, directory = harness("leave")
    process.send_signal(signal.Signals[signal_name])
    process.wait(30)
    wait_for(lambda: living(backend, directory), until=lambda left: not left, deadline_s=30, what="all to end")
    wait_for(lambda: list(tmp_path.iterdir()), until=lambda left: not left, deadline_s=15, what="no files")
    assert clusters.leftovers(tmp_path) == []


def test_nothing_outlives_harness_and_supervisor(
    harness: Callable[[str], tuple[subprocess.Popen[str], Path]], tmp_path: Path, backend: str
) -> None:
    process, directory = harness("leave")
    state = kill_supervisor(tmp_path)
    if backend == PROCESSES:  # containers belong to the engine, and run until a sweep
        wait_for(lambda: processes_of(directory), until=lambda left: not left, deadline_s=15, what="JVMs to end")
    process.kill()
    process.wait(10)
    assert [left.what for left in clusters.leftovers(tmp_path)] == ["remains of a run that crashed"]
    assert clusters.sweep(tmp_path) == [f"swept the remains of {state.run}"]
    assert living(backend, directory) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("alone", [True, False], ids=["harness", "harness and supervisor"])
def test_no_disk_outlives_the_harness(
    harness: Callable[..., tuple[subprocess.Popen[str], Path]],
    tmp_path: Path,
    backend: str,
    missing_capability: MissingCapability,
    disk: str,
    alone: bool,
) -> None:
    if reason := loop_devices.missing().get(loop_devices.capability(disk)):
        missing_capability(reason, root_only=True)
    process, directory = harness("leave", disk)
    (mount,) = mounts_below(directory)
    swept = [] if alone else [f"swept the remains of {kill_supervisor(tmp_path).run}"]
    process.kill()
    process.wait(10)
    if alone:
        wait_for(lambda: list(tmp_path.iterdir()), until=lambda left: not left, deadline_s=40, what="no files")
    assert clusters.sweep(tmp_path) == swept
    assert mounts_below(tmp_path) == []
    assert backing_of(mount.device) != mount.backing
    assert living(backend, directory) == []
    assert list(tmp_path.iterdir()) == []


def test_clean_waits_for_a_supervisor_that_is_removing_its_run(
    harness: Callable[[str], tuple[subprocess.Popen[str], Path]], tmp_path: Path, backend: str
) -> None:
    process, directory = harness("leave")
    process.kill()
    process.wait(10)
    assert clusters.clean(root=tmp_path) == []
    assert living(backend, directory) == []
    wait_for(lambda: list(tmp_path.iterdir()), until=lambda left: not left, deadline_s=5, what="no files")


def test_a_kept_cluster_stays_until_it_is_cleaned(
    harness: Callable[[str], tuple[subprocess.Popen[str], Path]], tmp_path: Path, backend: str
) -> None:
    process, directory = harness("keep")
    (state,) = runs(tmp_path)
    with pytest.raises(BadInput, match="is in use by process"):
        clusters.clean(state.run, tmp_path)
    process.kill()
    process.wait(10)
    assert clusters.sweep(tmp_path) == []
    time.sleep(1)  # no event to wait for: the cluster must not end
    assert len(living(backend, directory)) >= 4
    metadata = AdminClient(quiet({"bootstrap.servers": state.bootstrap})).list_topics(timeout=10)
    assert list(metadata.brokers) == [1]
    assert [left.run for left in clusters.leftovers(tmp_path)] == [state.run]
    assert clusters.clean(state.run, tmp_path) == [f"ended {state.run}"]
    assert living(backend, directory) == []
    assert list(tmp_path.iterdir()) == []


def test_containers_without_a_run_directory_are_found_by_their_label(
    harness: Callable[[str], tuple[subprocess.Popen[str], Path]], tmp_path: Path, backend: str
) -> None:
    """A user may empty the temporary folder after a crash. Then only their label connects containers with a run."""
    if backend == PROCESSES:
        pytest.skip(reason="a test of containers: processes end with their supervisor")
    process, directory = harness("leave")
    state = kill_supervisor(tmp_path)
    process.kill()
    process.wait(10)
    shutil.rmtree(directory)
    assert living(backend, directory)
    assert clusters.clean(root=tmp_path) == [f"swept the remains of {state.run}"]
    assert living(backend, directory) == []
