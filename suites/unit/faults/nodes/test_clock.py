"""Clocks that are set: the file of the library, the proof that a clock moved, and the near misses."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.clusters import choosing
from harness.clusters.nodes import clocks
from harness.clusters.nodes.clocks import ClockFile
from harness.faults.nodes import clock
from harness.faults.nodes.clock import Clock, ahead_s
from harness.faults.steps import effect
from harness.kafka.admin.client import PartitionState
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario.scenario import Step
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on
from suites.unit.faults.steps.test_step_validation import with_steps
from suites.unit.model.scenario.test_toml import read, refused

HERE = pytest.mark.skipif(clocks.library() is None, reason="libfaketime is not installed")

# --- the library ---


@pytest.mark.parametrize(("ahead_s", "text"), [(0, "+0.000\n"), (-0.5, "-0.500\n"), (600, "+600.000\n")])
def test_the_file_has_the_offset_of_the_clock(tmp_path: Path, ahead_s: float, text: str) -> None:
    ClockFile(tmp_path / "clock").set(ahead_s)
    assert (tmp_path / "clock").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["clock"]


ANSWERS = "import sys, time\nfor line in sys.stdin:\n    print(time.time() - time.clock_gettime(7), flush=True)"


@HERE
def test_a_process_follows_its_file_within_a_second(tmp_path: Path) -> None:
    """7 is CLOCK_BOOTTIME, which the library does not change, like the monotonic clock."""
    file = ClockFile(tmp_path / "clock")
    file.set(0)
    right = time.time() - time.clock_gettime(7)

    def near(wanted_s: float) -> Callable[[float], bool]:
        return lambda s: abs(s - wanted_s) < 1

    def shift(process: subprocess.Popen[str], until: Callable[[float], bool]) -> float:
        give_up_at, seen = time.monotonic() + 20, 0.0
        assert process.stdin is not None
        assert process.stdout is not None
        while time.monotonic() < give_up_at:
            process.stdin.write("\n")
            process.stdin.flush()
            seen = float(process.stdout.readline()) - right
            if until(seen):
                return seen
            time.sleep(0.02)
        raise AssertionError(f"the clock is {seen} s off")

    arguments, pipe = [sys.executable, "-I", "-S", "-c", ANSWERS], subprocess.PIPE
    with subprocess.Popen(arguments, env={**file.environment()}, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert abs(shift(process, lambda s: True)) < 1
            for jump_s in (600.0, -600.0):
                file.set(jump_s)
                assert shift(process, near(jump_s))
            file.set(0)
            assert shift(process, lambda s: abs(s) < 0.3)
        finally:
            process.kill()
    clocks.tidy()
    assert not list(Path("/dev/shm").glob(f"*faketime_*_{process.pid}"))


WAITS = """
import ctypes, time
libc, made = ctypes.CDLL(None), [ctypes.create_string_buffer(64) for _ in range(3)]
attributes, condition, mutex = made
libc.pthread_condattr_init(attributes)
libc.pthread_condattr_setclock(attributes, time.CLOCK_MONOTONIC)
libc.pthread_cond_init(condition, attributes)
libc.pthread_mutex_init(mutex, None)
libc.pthread_mutex_lock(mutex)
began = time.monotonic()
until = (ctypes.c_long * 2)(int(began) + 3, 0)
while libc.pthread_cond_timedwait(condition, mutex, until) == 0:
    pass
print(time.monotonic() - int(began) - 3)
"""


@HERE
@pytest.mark.parametrize(("ahead_s", "rate"), [(0, 1), (600, 1), (-600, 1), (0, 5), (0, 0.2)])
def test_a_wait_takes_its_time_with_any_clock(tmp_path: Path, ahead_s: float, rate: float) -> None:
    """A wait as in a JVM; the workaround of libfaketime for another C library would end such a wait at once."""
    file, began = ClockFile(tmp_path / "clock"), time.monotonic()
    file.set(ahead_s)
    arguments = [sys.executable, "-I", "-S", "-c", WAITS]
    with subprocess.Popen(arguments, env={**file.environment()}, stdout=subprocess.PIPE, text=True) as waiting:
        while waiting.poll() is None and time.monotonic() - began < 60:
            file.set(ahead_s + (rate - 1) * (time.monotonic() - began))
            time.sleep(0.05)
        waiting.kill()
        assert waiting.stdout is not None
        late_s = float(waiting.stdout.read())
    assert 0 <= late_s < 10


def test_without_the_library_the_message_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "_FOLDERS", (str(tmp_path / "{}"),))
    assert "clock" not in choosing.able("processes")
    reported = Clock.lacks(choosing.able("containers"))
    assert reported is not None
    assert "apt install libfaketime" in reported
    with pytest.raises(HarnessFailure, match="apt install libfaketime"):
        ClockFile(tmp_path / "clock").environment()


def test_files_that_living_processes_share_are_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "_SHARED", tmp_path)
    kept = [f"faketime_shm_{os.getpid()}", f"sem.faketime_sem_{os.getpid()}", "faketime_shm_x", "else"]
    for name in (*kept, "faketime_shm_4194305", "sem.faketime_sem_4194305"):
        (tmp_path / name).touch()
    clocks.tidy()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


# --- refused when loaded ---

IT = '{{ do = "clock", node = "leader(plain/0)", {}, name = "it" }}'


@pytest.mark.parametrize(
    ("arguments", "shape", "reported"),
    [
        ("jump_s = 600", "", "set clock = true in [shape]"),
        ("jump_s = 0", "clock = true", "this moves no clock"),
        ("jump_s = 1.5", "clock = true", "this moves no clock"),
        ("jump_s = -4000", "clock = true", "give a number from -3600 to 43200"),
        ("rate = 0", "clock = true", "give a number from 0.1 to 10"),
    ],
)
def test_clocks_that_cannot_be_set_or_could_not_prove_an_effect_are_refused(
    arguments: str, shape: str, reported: str
) -> None:
    assert reported in refused(with_steps(IT.format(arguments), shape=shape))


def test_a_jump_beyond_the_retention_of_a_topic_is_refused() -> None:
    text = with_steps(IT.format("jump_s = 600"), shape="clock = true")
    assert read(text).shape.clock
    short = text.replace("idle = {}", 'idle = { config = { "retention.ms" = 600000 } }')
    assert "every record of idle is older than its retention.ms of 600000" in refused(short)
    read(short.replace("600000", "600001"))
    read(short.replace("600000", "-1"))


# --- the effect ---


def line(path: Path, ahead: float) -> None:
    """One more line of a log, written by a clock that is so far ahead."""
    at = datetime.fromtimestamp(time.time() + ahead, UTC)
    with path.open("a") as log:
        log.write(f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}] INFO a snapshot (it)\n\tat a.stack.Trace\n")


def test_a_log_shows_how_far_its_clock_is_ahead(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.touch()
    assert ahead_s(log) == 0.0
    line(log, -600)
    line(log, 600)
    assert abs(ahead_s(log) - 600) < 1


@dataclass
class Scripted:
    """Broker 1 leads t/0. A line of its log is written whenever its clock is set, with an error of `wrong_s`."""

    log: Path
    wrong_s: float = 0.0
    obeys: bool = True
    stays_wrong: bool = False
    down: frozenset[int] = frozenset()
    acks_ago_s: float = 0.1
    brokers: tuple[int, ...] = (1, 2, 3)
    controllers: tuple[int, ...] = (101,)
    reported: list[tuple[int, float]] = field(default_factory=list)

    def set_clock(self, node: int, ahead_s: float) -> None:
        self.reported.append((node, ahead_s))
        if ahead_s:
            line(self.log, (ahead_s if self.obeys else 0.0) + self.wrong_s)
        elif not self.down:
            line(self.log, 600.0 if self.stays_wrong else 0.0)

    def running(self, node: int) -> bool:
        return node not in self.down

    def server_log(self, node: int) -> Path:
        return self.log

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        return [
            PartitionState(
                topic="t", topic_id="i", partition=0, leader=1, leader_epoch=4, isr=(1, 2), replicas=(1, 2, 3)
            )
        ]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    monkeypatch.setattr(clock, "DEADLINE_S", 0.2)
    monkeypatch.setattr(clock, "RIGHT_S", 0.2)
    line(tmp_path / "server.log", 0)
    return Scripted(tmp_path / "server.log")


def played(cluster: Scripted, *then: Step, **arguments: Any) -> tuple[dict[str, Any], list[str]]:
    """The row of the step, and the names of its doubts."""
    rows = run_steps(context_on(cluster), [Step(do="clock", name="it", args={"node": "broker(1)", **arguments}), *then])
    assert cluster.reported[-1] == (1, 0.0)
    return rows[0], [name for name, _ in doubts(rows)]


@pytest.mark.parametrize("jump_s", [600.0, -600.0])
def test_a_clock_that_jumped_under_load_proves_the_effect_and_is_set_right(cluster: Scripted, jump_s: float) -> None:
    row, found = played(cluster, jump_s=jump_s)
    assert found == []
    assert cluster.reported[0] == (1, jump_s)
    assert f"wrong, of 1 by {jump_s:+.1f} s, under load on t/0" in row["effect"]["because"]
    (event,) = row["events"]
    assert event | {"at_ns": 0} == {"kind": "clock", "nodes": [1], "jump_ms": jump_s * 1000, "rate": 1.0, "at_ns": 0}


@pytest.mark.parametrize(
    ("what", "because"),
    [
        ({"obeys": False}, "the log of 1 shows no shift of +600.0 s"),
        ({"wrong_s": -10.0}, "shows no shift"),
        ({"acks_ago_s": 5.0}, "no partition that they lead or follow had acks"),
    ],
)
def test_a_clock_that_did_not_move_or_is_without_load_proves_nothing(
    cluster: Scripted, what: dict[str, Any], because: str
) -> None:
    for name, value in what.items():
        setattr(cluster, name, value)
    row, found = played(cluster, jump_s=600.0)
    assert found == ["no_effect"]
    assert because in row["effect"]["because"]


def test_a_clock_that_stays_wrong_is_not_healed(cluster: Scripted) -> None:
    cluster.stays_wrong = True
    row, found = played(cluster, jump_s=600.0)
    assert found == ["step_failed"]
    assert "the clocks to be right again; last saw {1: '+600.0 s'}" in row["error"]


def test_a_node_that_is_down_starts_with_the_right_clock(cluster: Scripted) -> None:
    cluster.down = frozenset({1})
    assert played(cluster, jump_s=600.0)[1] == []


def test_the_clock_of_a_broker_without_partitions_proves_nothing(cluster: Scripted) -> None:
    with pytest.raises(AssertionError):
        played(cluster, node="broker(3)", jump_s=600.0)
    assert cluster.reported == [(3, 600.0), (3, 0.0)]


def test_a_clock_that_gains_time_must_be_ahead(cluster: Scripted) -> None:
    cluster.wrong_s = 3.0
    assert played(cluster, rate=10.0)[1] == []
    *shifts, last = [ahead_s for _, ahead_s in cluster.reported]
    assert 0 <= shifts[0] < shifts[-1]
    assert shifts == sorted(shifts)
    assert last == 0.0
    cluster.wrong_s = 0.5
    assert played(cluster, rate=10.0)[1] == ["no_effect"]


def test_arguments_that_move_no_clock() -> None:
    with pytest.raises(BadInput, match="moves no clock"):
        Clock(node="broker(1)", jump_s=1.0)
