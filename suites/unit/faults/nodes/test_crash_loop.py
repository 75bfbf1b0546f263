"""When a broker counts as killed during its recovery. The cluster is scripted, its logs are files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.nodes.node_logs import STARTED
from harness.faults.nodes import crash_loop
from harness.faults.nodes.crash_loop import RECOVERING
from harness.faults.nodes.process import injection
from harness.kafka.admin.client import PartitionState
from harness.model.clock import now_ns
from harness.model.doubt_names import DoubtName
from harness.model.scenario.scenario import Step
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on

LOOP = Step(do="crash_loop", name="loop", args={"node": "leader(t/0)", "times": 2})


@dataclass
class Scripted:
    """Three brokers; each start writes the given lines to the log. The death of a leader moves the leadership."""

    log: Path
    at_start: list[bytes]
    brokers: tuple[int, ...] = (1, 2, 3)
    controllers: tuple[int, ...] = (101,)
    down: set[int] = field(default_factory=set)
    deaths: int = 0

    def server_log(self, node: int) -> Path:
        assert node == 1
        return self.log

    def kill(self, *nodes: int) -> None:
        self.down |= set(nodes)
        self.deaths += 1

    def start(self, *nodes: int) -> None:
        self.down -= set(nodes)
        with self.log.open("ab") as log:
            log.write(self.at_start.pop(0))

    def running(self, node: int) -> bool:
        return node not in self.down

    def wait_started(self, node: int, deadline_s: float) -> None:
        assert node not in self.down

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        leader = 2 if self.deaths else 1
        epoch = int(bool(self.deaths))
        return [
            PartitionState(
                topic="t", topic_id="i", partition=0, leader=leader, leader_epoch=epoch, isr=(1, 2, 3), replicas=(1, 2)
            )
        ]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing effect is waited for as long as on a real cluster."""
    monkeypatch.setattr(crash_loop, "RESTART_DEADLINE_S", 0.2)
    monkeypatch.setattr(crash_loop, "injection", lambda *reported: replace(injection(*reported), deadline_s=0.2))


def looped(cluster: Scripted) -> tuple[dict[str, Any], list[tuple[DoubtName, str]]]:
    (row,) = run_steps(context_on(cluster, last_ack_ns=lambda t, p: now_ns()), [LOOP])
    return row, doubts([row])


def test_a_broker_that_dies_in_each_recovery_was_interrupted(tmp_path: Path) -> None:
    cluster = Scripted(tmp_path / "server.log", [RECOVERING, RECOVERING, RECOVERING + STARTED])
    row, found = looped(cluster)
    assert (row["resolved"]["crashes_in_recovery"], cluster.deaths, found) == (2, 3, [])


@pytest.mark.parametrize("at_start", [(RECOVERING + STARTED, RECOVERING), (RECOVERING, RECOVERING + STARTED)])
def test_a_broker_that_had_started_was_not_interrupted(tmp_path: Path, at_start: tuple[bytes, ...]) -> None:
    cluster = Scripted(tmp_path / "server.log", [*at_start, STARTED])
    row, found = looped(cluster)
    assert not row["effect"]["held"]
    assert [name for name, _ in found] == ["no_effect"]
    assert cluster.running(1)


def test_a_broker_that_does_not_recover_ends_the_steps_and_is_started(tmp_path: Path) -> None:
    cluster = Scripted(tmp_path / "server.log", [STARTED, STARTED])
    row, found = looped(cluster)
    assert "broker 1 to recover its logs" in row["error"]
    assert [name for name, _ in found] == ["step_failed", "no_effect"]
    assert cluster.running(1)
