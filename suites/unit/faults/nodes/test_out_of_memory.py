"""Nodes that run out of memory: when that has an effect, and its near misses. All is scripted."""

from __future__ import annotations

import os
import signal
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.choosing import CAPABILITIES
from harness.clusters.containers.container_runner import _own_bytes
from harness.clusters.processes.runner import ProcessState
from harness.faults.nodes import out_of_memory
from harness.faults.nodes.out_of_memory import OomKilled, OutOfMemory
from harness.faults.steps import effect
from harness.kafka.admin.client import PartitionState
from harness.kafka.settings import heap_filler
from harness.model.errors import HarnessFailure
from harness.model.scenario.scenario import Step
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on

OF_HEAP = "Terminating due to java.lang.OutOfMemoryError: Java heap space\n"
OF_LIMIT = ProcessState(1, -signal.SIGKILL, 1, out_of_memory=True).status  # as a cluster says it


@dataclass
class Scripted:
    """Broker 1 leads t/0 until it ends; it listens, and ends as soon as its heap is full."""

    console: Path
    address: tuple[str, int]
    says: str = OF_HEAP
    ends: str = "exit code 3"
    acks_ago_s: float = 0.1
    brokers: tuple[int, ...] = (1, 2, 3)
    controllers: tuple[int, ...] = (101,)
    let: list[int] = field(default_factory=list)
    memory: list[str] = field(default_factory=list)
    ended: bool = False
    deaths: int = 0

    def let_end(self, node: int) -> None:
        self.let.append(node)

    def direct_address(self, node: int) -> tuple[str, int]:
        self.ended = bool(self.ends)
        self.deaths += self.ended
        self.console.write_text(self.console.read_text() + self.says)
        return self.address

    def console_log(self, node: int) -> Path:
        return self.console

    def how_it_ended(self, node: int) -> str:
        return self.ends if self.ended else ""

    def running(self, node: int) -> bool:
        return not self.ended

    def start(self, *nodes: int) -> None:
        self.ended = self.ended and not nodes

    def wait_started(self, node: int, deadline_s: float) -> None:
        assert not self.ended

    def squeeze_memory(self, node: int) -> int:
        self.memory.append("squeezed")
        return 1 << 28

    def release_memory(self, node: int) -> None:
        assert self.ended or not self.ends  # it has ended before it starts again
        self.memory.append("released")

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        leader, epoch = (2, 5) if self.deaths else (1, 4)
        return [
            PartitionState(
                topic="t", topic_id="i", partition=0, leader=leader, leader_epoch=epoch, isr=(1, 2, 3), replicas=(1, 2)
            )
        ]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    monkeypatch.setattr(out_of_memory, "DEADLINE_S", 0.2)
    (tmp_path / "console.log").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Scripted(tmp_path / "console.log", server.getsockname())


def played(cluster: Scripted, do: str, node: str = "leader(t/0)") -> tuple[dict[str, Any], list[str]]:
    """The row of the step, and the names of its doubts."""
    rows = run_steps(context_on(cluster), [Step(do=do, name="it", args={"node": node})])
    assert not cluster.ended
    return rows[0], [name for name, _ in doubts(rows)]


def test_a_leader_that_ends_because_of_its_heap_under_load_proves_the_effect(cluster: Scripted) -> None:
    row, found = played(cluster, "out_of_memory")
    assert found == []
    assert "node 1 ended with OutOfMemoryError; led t/0" in row["effect"]["because"]
    assert cluster.let == [1]
    assert cluster.memory == []


@pytest.mark.parametrize(
    ("what", "because"),
    [
        ({"ends": ""}, "still runs"),
        ({"says": "", "ends": "signal SIGSEGV"}, "ended (signal SIGSEGV), but not for lack of memory"),
        ({"acks_ago_s": 5.0}, "acks in the last second"),
    ],
)
def test_another_reason_or_no_load_proves_nothing(cluster: Scripted, what: dict[str, Any], because: str) -> None:
    for name, value in what.items():
        setattr(cluster, name, value)
    row, found = played(cluster, "out_of_memory")
    assert found == ["no_effect"]
    assert because in row["effect"]["because"]


def test_an_earlier_error_does_not_count(cluster: Scripted) -> None:
    cluster.console.write_text(OF_HEAP)
    cluster.says = ""
    assert played(cluster, "out_of_memory")[1] == ["no_effect"]


def test_a_kill_by_the_kernel_proves_the_effect_and_the_limit_is_lifted_before_the_start(cluster: Scripted) -> None:
    cluster.ends, cluster.says = OF_LIMIT, ""
    row, found = played(cluster, "oom_killed")
    assert found == []
    assert "was killed by the kernel" in row["effect"]["because"]
    assert row["resolved"]["limit_bytes"] == 1 << 28
    assert cluster.memory == ["squeezed", "released"]


def test_an_end_because_of_the_heap_is_no_kill_by_the_kernel(cluster: Scripted) -> None:
    row, found = played(cluster, "oom_killed")
    assert found == ["no_effect"]
    assert "not for lack of memory" in row["effect"]["because"]
    assert cluster.memory == ["squeezed", "released"]


def test_processes_say_why_their_memory_cannot_be_limited() -> None:
    reported = OomKilled.lacks(CAPABILITIES["processes"])
    assert reported is not None
    assert "use --backend containers" in reported
    assert OutOfMemory.lacks(CAPABILITIES["processes"]) is None


# --- filling a heap ---


def test_each_connection_announces_a_request_and_does_not_send_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_filler, "CONNECTIONS", 2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        with heap_filler.filled_heap(server.getsockname()):
            taken = [server.accept()[0] for _ in range(2)]
            assert [struct.unpack(">i", one.recv(64)) for one in taken] == [(heap_filler.ANNOUNCED,)] * 2
        assert [one.recv(1) for one in taken] == [b"", b""]
        for one in taken:
            one.close()


def test_the_heap_of_a_node_that_does_not_listen_cannot_be_filled() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone = server.getsockname()
    with pytest.raises(HarnessFailure, match="accepts no request"), heap_filler.filled_heap(gone):
        pass


def test_the_kernel_reports_the_private_memory_of_a_process() -> None:
    assert 1 << 20 < _own_bytes(os.getpid()) < 1 << 36
