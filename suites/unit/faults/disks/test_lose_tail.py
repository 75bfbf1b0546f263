"""When the lost tail of a last replica has an effect, and near misses. The cluster is scripted, its disk is files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import scenarios
from harness.faults.disks import lose_tail
from harness.faults.steps import effect
from harness.faults.steps.registry import check_steps
from harness.kafka.admin.client import PartitionState
from harness.kafka.storage.damage import log_end
from harness.model.clock import now_ns
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Step
from harness.model.scenario.toml import patched
from suites.steps_json import doubts, run_steps
from suites.unit.faults.disks.test_damage_steps import loaded
from suites.unit.faults.steps.scripted import context_on
from suites.unit.kafka.storage.test_damage import segment

ON = {"metadata.version": 25, "eligible.leader.replicas.version": 1}


@dataclass
class Scripted:
    """Partition t/0, led by broker 1. Its log ends at 26."""

    data: Path
    isr: tuple[int, ...] = (1,)
    acked: int = 25
    loads: int | None = None  # the log end offset that it loads; None = that of the file
    next_leader: int = 1
    levels: dict[str, int] = field(default_factory=lambda: {"metadata.version": 25})
    brokers: tuple[int, ...] = (1, 2, 3)
    controllers: tuple[int, ...] = (101,)
    down: bool = False
    epoch: int = 4

    @property
    def replica(self) -> Path:
        return self.data / "t-0"

    def server_log(self, node: int) -> Path:
        return self.data.parent / "server.log"

    def log_directories(self, node: int) -> tuple[Path, ...]:
        return (self.data,)

    def kill(self, *nodes: int) -> None:
        assert nodes == (1,)
        self.down = True
        self.epoch += 1

    def start(self, *nodes: int) -> None:
        self.down = False
        self.epoch += 1
        with self.server_log(1).open("a") as log:
            log.write(loaded(self.replica, 0, log_end(self.replica) if self.loads is None else self.loads))

    def running(self, node: int) -> bool:
        return not self.down

    def wait_started(self, node: int, deadline_s: float) -> None:
        assert not self.down

    def features(self) -> dict[str, int]:
        return self.levels

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        leader = -1 if self.down else 1 if self.epoch == 4 else self.next_leader
        return [
            PartitionState(
                topic="t",
                topic_id="i",
                partition=0,
                leader=leader,
                leader_epoch=self.epoch,
                isr=self.isr,
                replicas=(1, 2, 3),
            )
        ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    segment(tmp_path / "data" / "t-0", 0, range(26))
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    monkeypatch.setattr(lose_tail, "LED_DEADLINE_S", 0.2)


def lost(cluster: Scripted, tail_bytes: int = 200) -> tuple[dict[str, Any], list[str]]:
    """The row of the step, and the names of its doubts."""
    context = context_on(cluster, last_ack_ns=lambda t, p: now_ns(), highest_acked=lambda: {("t", 0): cluster.acked})
    rows = run_steps(context, [Step(do="lose_tail", name="it", args={"of": "t/0", "tail_bytes": tail_bytes})])
    assert not cluster.down
    return rows[0], [name for name, _ in doubts(rows)]


def the_event(row: dict[str, Any]) -> dict[str, Any]:
    (event,) = [e for e in row["events"] if e["kind"] == "lost_tail"]
    return dict(event)


@pytest.mark.parametrize(("levels", "level"), [({"metadata.version": 25}, 0), (ON, 1), ({}, None)])
def test_the_event_has_the_log_end_that_was_kept_and_the_level_of_elr(
    data: Path, levels: dict[str, int], level: int | None
) -> None:
    cluster = Scripted(data, levels=levels)
    row, found = lost(cluster)
    assert found == []
    kept = log_end(data / "t-0")
    assert kept < 26
    assert f"returned with {kept} of 26" in row["effect"]["because"]
    event = the_event(row)
    reported = {key: event[key] for key in ("broker", "leader_epoch", "isr", "elr_level", "log_end", "ended_at")}
    assert reported == {
        "broker": 1,
        "leader_epoch": 4,
        "isr": [1],
        "elr_level": level,
        "log_end": kept,
        "ended_at": 26,
    }


@pytest.mark.parametrize(
    ("scripted", "because"),
    [
        ({"isr": (1, 2)}, "was not alone in the ISR: [1, 2]"),
        ({"acked": 9}, "no acknowledged record was truncated"),
        ({"acked": -1}, "no acknowledged record was truncated"),
        ({"loads": 26}, "has not loaded a log that ends at"),
        ({"next_leader": -1}, "has no leader yet"),
    ],
)
def test_near_misses_prove_nothing(data: Path, scripted: dict[str, Any], because: str) -> None:
    row, found = lost(Scripted(data, **scripted))
    assert found == ["no_effect"]
    assert because in row["effect"]["because"]


def test_an_only_replica_is_refused() -> None:
    scenario = scenarios.load("kafka_20734")
    step = {"do": "lose_tail", "of": "half/0", "tail_bytes": 10}
    with pytest.raises(BadInput, match="has only one replica"):
        patched(scenario, {"steps.+": [step]}, check_steps)
