"""The supervisor, slots, the state of runs, and sweeping, with `sleep` in place of a JVM."""

from __future__ import annotations

import errno
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from harness.clusters import clean, leftovers, sweep
from harness.clusters.processes.addresses import TOXIPROXY_PORT, Addresses
from harness.clusters.processes.slots import Slot, _locked, take_slot
from harness.clusters.processes.supervision import Supervision
from harness.clusters.state import ProcessId, RunState, load, new_run, runs
from harness.model.errors import BadInput, HarnessFailure, HarnessTimeout
from harness.model.waiting import wait_for

ROOT = Path(__file__).parents[4]
SLEEP = ["sleep", "300"]


@pytest.fixture
def slots(tmp_path: Path) -> Path:
    return tmp_path / "slots"


@pytest.fixture
def run(tmp_path: Path, slots: Path) -> Iterator[tuple[RunState, Supervision]]:
    """A run with a supervisor that supervises nothing yet."""
    slot = take_slot(slots)
    state = new_run(tmp_path / "root", slot=slot.number, release="9.9.9", kept=False)
    supervision = Supervision(state.directory, slot.descriptor, stay=False)
    slot.close()
    state = state.supervised_by(supervision.pid)
    state.save()
    yield state, supervision
    supervision.stop()


def start(supervision: Supervision, directory: Path, name: str = "b1", argv: list[str] | None = None) -> int:
    output = directory / f"{name}.log"
    return supervision.start(name, argv or SLEEP, cwd=directory, output=output, env={"PATH": os.environ["PATH"]})


def ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # also if it ends between the two calls
        return True


def wait_ended(*pids: int) -> None:
    wait_for(lambda: [p for p in pids if not ended(p)], until=lambda left: not left, deadline_s=10, what="their end")


def test_a_process_is_started_and_signalled_and_its_end_is_noticed(run: tuple[RunState, Supervision]) -> None:
    state, supervision = run
    pid = start(supervision, state.directory)
    assert supervision.status()["b1"].alive
    assert supervision.signal(["b1", "b2"], signal.SIGKILL) == ["b1"]
    wait_for(
        lambda: supervision.status()["b1"],
        until=lambda process: process.status == "signal SIGKILL" and process.ended_ns is not None,
        deadline_s=5,
        what="its end to be noticed",
    )
    assert supervision.signal(["b1"], signal.SIGKILL) == []
    assert start(supervision, state.directory) != pid
    with pytest.raises(HarnessFailure, match="b1 is running"):
        start(supervision, state.directory)


def test_a_failed_start_is_reported_and_the_supervisor_goes_on(run: tuple[RunState, Supervision]) -> None:
    state, supervision = run
    with pytest.raises(HarnessFailure, match="No such file"):
        start(supervision, state.directory, argv=["/no/such/program"])
    assert supervision.status() == {}
    start(supervision, state.directory, "b2", ["sh", "-c", "echo said; exit 3"])
    wait_for(lambda: supervision.status()["b2"].status, until=lambda s: s == "exit code 3", deadline_s=5, what="3")
    assert (state.directory / "b2.log").read_text() == "said\n"


def test_a_full_disk_that_stops_a_start_is_reported_with_the_remedy(
    run: tuple[RunState, Supervision], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, supervision = run
    full = {"error": "OSError: [Errno 28] No space left on device", "errno": errno.ENOSPC, "call": 1}
    monkeypatch.setattr(supervision, "_line", lambda: json.dumps(full).encode())
    with pytest.raises(HarnessFailure, match=r"could not start b1: OSError: .*No space .*: free space there"):
        start(supervision, state.directory)
    monkeypatch.undo()


def test_an_interrupted_call_does_not_shift_the_answers(
    run: tuple[RunState, Supervision], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, supervision = run

    def interrupted() -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(supervision, "_line", interrupted)
        with pytest.raises(KeyboardInterrupt):
            start(supervision, state.directory)
    assert list(supervision.status()) == ["b1"]


def test_stop_ends_everything_and_can_be_repeated(run: tuple[RunState, Supervision]) -> None:
    state, supervision = run
    pids = [start(supervision, state.directory, name) for name in ("b1", "b2")]
    supervision.signal(["b2"], signal.SIGSTOP)  # SIGKILL ends a stopped process, too
    supervision.stop()
    supervision.stop()
    assert all(ended(pid) for pid in (*pids, supervision.pid))


def test_processes_end_with_the_supervisor(run: tuple[RunState, Supervision]) -> None:
    state, supervision = run
    pid = start(supervision, state.directory)
    os.kill(supervision.pid, signal.SIGKILL)
    wait_ended(pid)
    with pytest.raises(HarnessFailure, match="supervisor of the cluster has ended"):
        supervision.status()


def test_a_cleanup_command_runs_after_all_processes_have_ended(
    run: tuple[RunState, Supervision], tmp_path: Path
) -> None:
    state, supervision = run
    pid = start(supervision, state.directory)
    said = tmp_path / "said"
    supervision.add_cleanup(["sh", "-c", f"kill -0 {pid} 2>/dev/null || echo dead >>{said}"])
    supervision.stop()
    supervision.stop()
    assert said.read_text() == "dead\n"


def test_first_cleanup_commands_run_before_the_others(run: tuple[RunState, Supervision], tmp_path: Path) -> None:
    """They thaw frozen disks: a process that waits for one ends only after the thaw."""
    _, supervision = run
    said = tmp_path / "said"
    supervision.add_cleanup(["sh", "-c", f"echo last >>{said}"])
    supervision.add_cleanup(["sh", "-c", f"echo later >>{said}"])
    supervision.add_cleanup(["sh", "-c", f"echo first >>{said}"], first=True)
    supervision.stop()
    assert said.read_text() == "first\nlast\nlater\n"


@pytest.mark.parametrize(("command", "left"), [("true", 0), ("false", 1), ("/no/such/program", 1)])
def test_a_failed_cleanup_command_leaves_the_directory_for_a_sweep(
    run: tuple[RunState, Supervision], command: str, left: int
) -> None:
    state, supervision = run
    supervision.add_cleanup([command])
    assert supervision._process.stdin is not None
    supervision._process.stdin.close()  # as when the harness ends
    wait_ended(supervision.pid)
    assert len(list(state.directory.parent.iterdir())) == left


HARNESS = """
import os, signal, sys
from pathlib import Path

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell inherits it ignored
from harness.clusters.processes.slots import take_slot
from harness.clusters.state import new_run
from harness.clusters.processes.supervision import Supervision

root, slots, stay, fork = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "stay", sys.argv[4] == "fork"
slot = take_slot(slots)
state = new_run(root, slot=slot.number, release="9.9.9", kept=stay)
supervision = Supervision(state.directory, slot.descriptor, stay=stay)
slot.close()
state.supervised_by(supervision.pid).save()
sleeper = supervision.start(
    "b1", ["sleep", "300"], cwd=root, output=state.directory / "b1.log", env={"PATH": os.environ["PATH"]}
)
holder = 0
if fork:
    holder = os.fork()
    if holder == 0:
        signal.pause()
print(supervision.pid, sleeper, holder, flush=True)
signal.pause()
"""

Harness = Callable[..., tuple["subprocess.Popen[str]", list[int]]]


@pytest.fixture
def harness(tmp_path: Path, slots: Path) -> Iterator[Harness]:
    """Another process in the role of the harness, with the pids of its supervisor, its `sleep` and its forked child."""
    started: list[tuple[subprocess.Popen[str], list[int]]] = []

    def begin(stay: str = "leave", fork: str = "alone") -> tuple[subprocess.Popen[str], list[int]]:
        command = [sys.executable, "-c", HARNESS, str(tmp_path / "root"), str(slots), stay, fork]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert process.stdout is not None
        started.append((process, [int(word) for word in process.stdout.readline().split()]))
        return started[-1]

    yield begin
    for process, pids in started:
        for pid in (process.pid, *filter(None, pids)):
            if not ended(pid):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.parametrize("fork", ["alone", "fork"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_everything_ends_with_the_harness(harness: Harness, tmp_path: Path, number: int, fork: str) -> None:
    """Even while a forked child of the harness lives on and holds the pipe to the supervisor open."""
    process, (supervisor, sleeper, holder) = harness("leave", fork)
    process.send_signal(number)
    process.wait(10)
    wait_ended(supervisor, sleeper)
    assert list((tmp_path / "root").iterdir()) == []
    assert not holder or not ended(holder)


def test_a_slot_is_taken_until_its_last_process_ends(harness: Harness, tmp_path: Path, slots: Path) -> None:
    process, (supervisor, sleeper, _) = harness()
    (state,) = runs(tmp_path / "root")
    lock = slots / f"{state.slot}.lock"
    other = take_slot(slots)
    assert other.number != state.slot
    other.close()
    other.close()
    assert _locked(lock) is None
    process.kill()
    process.wait(10)
    wait_ended(supervisor, sleeper)
    freed = _locked(lock)
    assert freed is not None
    os.close(freed)


def test_a_slot_with_addresses_in_use_is_skipped(slots: Path) -> None:
    taken = take_slot(slots)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((Addresses(taken.number, (), ()).toxiproxy, TOXIPROXY_PORT))
        listener.listen()
        taken.close()  # the lock is free, the address is not
        other = take_slot(slots)
        assert other.number > taken.number
        other.close()


def test_no_free_slot_is_a_failure(slots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.clusters.processes.slots.SLOTS", 1)
    monkeypatch.setattr(
        "harness.clusters.processes.slots._unused", lambda number: True
    )  # this machine may run other clusters
    held: Slot = take_slot(slots)
    with pytest.raises(HarnessFailure, match="all 1 slots"):
        take_slot(slots)
    held.close()


def test_a_process_is_identified_by_more_than_its_pid() -> None:
    me = ProcessId.of(os.getpid())
    assert me is not None
    assert me.alive
    assert not ProcessId(me.pid, "another boot/1").alive
    assert ProcessId.of(2**22 + 1) is None


def test_a_living_run_is_left_alone(run: tuple[RunState, Supervision], tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert [state.run for state in runs(root)] == [run[0].run]
    assert sweep(root) == []
    assert leftovers(root) == []
    assert clean(root=root) == []
    assert run[0].directory.is_dir()


def test_the_remains_of_a_crash_are_swept(harness: Harness, tmp_path: Path) -> None:
    root = tmp_path / "root"
    process, (supervisor, sleeper, _) = harness()
    os.kill(supervisor, signal.SIGKILL)
    wait_ended(supervisor, sleeper)
    assert leftovers(root) == []  # its harness lives and may still clean up
    process.kill()
    process.wait(10)
    (state,) = runs(root)
    assert [str(left) for left in leftovers(root)] == [f"{state.run}: remains of a run that crashed"]
    assert sweep(root) == [f"swept the remains of {state.run}"]
    assert list(root.iterdir()) == []


def test_clean_waits_for_a_supervisor_that_is_removing_its_run(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    process, (supervisor, sleeper, _) = harness()
    (state,) = runs(root)
    os.kill(supervisor, signal.SIGSTOP)  # as slow as on a busy machine
    process.kill()
    process.wait(10)
    monkeypatch.setattr(importlib.import_module("harness.clusters.sweep"), "_REMOVED_S", 0.3)
    with pytest.raises(HarnessTimeout, match=f"last saw \\['{state.run} with process {supervisor}'\\]"):
        clean(root=root)
    monkeypatch.undo()
    os.kill(supervisor, signal.SIGCONT)
    assert clean(root=root) == []
    assert ended(sleeper)
    wait_ended(supervisor)
    assert list(root.iterdir()) == []


def test_a_kept_run_outlives_its_harness_and_is_ended_by_name(harness: Harness, tmp_path: Path) -> None:
    root = tmp_path / "root"
    process, (supervisor, sleeper, _) = harness("stay")
    (state,) = runs(root)
    with pytest.raises(BadInput, match=f"in use by process {process.pid}"):
        clean(state.run, root)
    process.kill()
    process.wait(10)
    assert sweep(root) == []
    assert [left.run for left in leftovers(root)] == [state.run]
    assert not ended(sleeper)
    assert clean(state.run, root) == [f"ended {state.run}"]
    wait_ended(supervisor, sleeper)
    assert list(root.iterdir()) == []
    with pytest.raises(BadInput, match=f"no run '{state.run}'"):
        clean(state.run, root)


def test_a_supervisor_that_the_state_does_not_name_is_ended_too(harness: Harness, tmp_path: Path) -> None:
    """The harness died before it could save the supervisor's id in the state."""
    root = tmp_path / "root"
    process, (supervisor, sleeper, _) = harness("stay")
    process.kill()
    process.wait(10)
    (state,) = runs(root)
    replace(state, supervisor=None).save()
    assert clean(root=root) == [f"swept the remains of {state.run}"]
    assert ended(supervisor)
    wait_ended(sleeper)
    assert list(root.iterdir()) == []


def test_clean_without_a_name_ends_every_kept_run(harness: Harness, tmp_path: Path) -> None:
    root = tmp_path / "root"
    begun = [harness("stay"), harness("stay")]
    for process, _ in begun:
        process.kill()
        process.wait(10)
    assert len(clean(root=root)) == 2
    wait_ended(*(pid for _, pids in begun for pid in pids[:2]))
    assert list(root.iterdir()) == []


def test_a_run_of_a_later_version_is_read_and_left_alone(run: tuple[RunState, Supervision], tmp_path: Path) -> None:
    state, _ = run
    file = state.directory / "run-state.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"invented_later": 1}))
    assert load(state.directory) == state
    assert sweep(tmp_path / "root") == []


def test_a_process_id_of_a_later_version_is_read(run: tuple[RunState, Supervision]) -> None:
    state, _ = run
    file = state.directory / "run-state.json"
    document = json.loads(file.read_text())
    document["harness"]["invented_later"] = 1
    file.write_text(json.dumps(document))
    assert load(state.directory) == state
