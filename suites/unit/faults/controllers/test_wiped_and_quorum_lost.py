"""Full disks, lost quorums and wiped controllers: when each has an effect, and its near misses. All is scripted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.choosing import CAPABILITIES
from harness.faults.controllers import common as controllers
from harness.faults.controllers import controller_wiped, quorum_lost
from harness.faults.disks import disk_full
from harness.faults.disks.disk_full import DiskFull
from harness.faults.steps import effect
from harness.kafka.admin.client import PartitionState, Quorum
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import Step
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on

GAVE_UP = "FATAL Shutdown broker because all log dirs in /b1/data have failed (kafka.log.LogManager)\n"
EMPTY = "INFO [LogLoader partition=__cluster_metadata-0, dir=/c/data] Loading producer state till offset 0 (x)\n"


@dataclass
class Scripted:
    """Broker 1 leads t/0 until it ends; controller 101 leads a quorum of three that commits at every look."""

    log: Path
    dies_of_limit: bool = True
    says: str = GAVE_UP
    on_start: str = EMPTY
    acks_ago_s: float = 0.1
    commits: bool = True
    catches_up: bool = True
    brokers: tuple[int, ...] = (1, 2, 3)
    controllers: tuple[int, ...] = (101, 102, 103)
    gone: set[int] = field(default_factory=set)  # by a kill or a pause
    limits: list[int | None] = field(default_factory=list)
    wiped: list[int] = field(default_factory=list)
    deaths: int = 0
    high: int = 100

    def server_log(self, node: int) -> Path:
        return self.log

    def limit_file_size(self, node: int, size_bytes: int | None) -> None:
        self.limits.append(size_bytes)
        if size_bytes is not None and self.dies_of_limit:
            self.kill(node)
            self._say(self.says)

    def kill(self, *nodes: int) -> None:
        self.gone |= set(nodes)
        self.deaths += sum(node in self.brokers for node in nodes)

    pause = kill

    def resume(self, *nodes: int) -> None:
        self.gone -= set(nodes)

    def start(self, *nodes: int) -> None:
        self.gone -= set(nodes)
        if nodes:
            self._say(self.on_start)

    def wipe(self, node: int) -> None:
        assert node in self.gone
        self.wiped.append(node)

    def running(self, node: int) -> bool:
        return node not in self.gone

    def wait_started(self, node: int, deadline_s: float) -> None:
        assert node not in self.gone

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        leader, epoch = (2, 5) if self.deaths else (1, 4)
        return [
            PartitionState(
                topic="t", topic_id="i", partition=0, leader=leader, leader_epoch=epoch, isr=(1, 2, 3), replicas=(1, 2)
            )
        ]

    def quorum(self, deadline_s: float = 20.0) -> Quorum:
        left = [c for c in self.controllers if c not in self.gone]
        if len(left) < 2 and (self.commits or not left):
            raise HarnessTimeout("none says that it leads")
        self.high += len(left) > 1
        ends = {c: self.high if self.catches_up or c not in self.wiped else 7 for c in self.controllers}
        return Quorum(leader=left[0], leader_epoch=3, high_watermark=self.high, voters=ends, observers={})

    def active_controller(self) -> int:
        return self.quorum().leader

    def _say(self, text: str) -> None:
        with self.log.open("a") as log:
            log.write(text)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    monkeypatch.setattr(disk_full, "DEADLINE_S", 0.2)
    monkeypatch.setattr(quorum_lost, "NO_COMMIT_S", 0.01)
    monkeypatch.setattr(quorum_lost, "DEADLINE_S", 0.2)
    monkeypatch.setattr(controller_wiped, "CAUGHT_UP_DEADLINE_S", 0.2)
    monkeypatch.setattr(controllers, "COMMITTED_DEADLINE_S", 0.2)


@pytest.fixture
def cluster(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path / "server.log")


def played(cluster: Scripted, do: str, **args: Any) -> tuple[dict[str, Any], list[str]]:
    """The row of the step, and the names of its doubts."""
    rows = run_steps(context_on(cluster), [Step(do=do, name="it", args=args)])
    assert not cluster.gone
    return rows[0], [name for name, _ in doubts(rows)]


# --- disk_full ---


def test_a_broker_that_ends_because_of_its_disk_under_load_proves_the_effect(cluster: Scripted) -> None:
    cluster.log.write_bytes(b"x" * 1000)
    row, found = played(cluster, "disk_full", node="leader(t/0)")
    assert found == []
    assert "took its log directory offline" in row["effect"]["because"]
    assert cluster.limits == [1000 + 256 * 1024, None]


@pytest.mark.parametrize(
    ("what", "because"),
    [
        ({"dies_of_limit": False}, "still runs"),
        ({"says": "ERROR out of memory\n"}, "but not because of its log directory"),
        ({"acks_ago_s": 5.0}, "no partition had both acks in the last second"),
    ],
)
def test_a_full_disk_without_consequences_proves_nothing(cluster: Scripted, what: dict[str, Any], because: str) -> None:
    for name, value in what.items():
        setattr(cluster, name, value)
    row, found = played(cluster, "disk_full", node="leader(t/0)")
    assert found == ["no_effect"]
    assert because in row["effect"]["because"]
    assert cluster.limits[-1] is None


def test_an_earlier_failure_of_a_disk_does_not_count(cluster: Scripted) -> None:
    cluster.log.write_text(GAVE_UP)
    cluster.says = ""
    assert played(cluster, "disk_full", node="broker(1)")[1] == ["no_effect"]


def test_containers_say_why_their_files_cannot_be_limited() -> None:
    reported = DiskFull.lacks(CAPABILITIES["containers"])
    assert reported is not None
    assert "a container's process; use --backend processes" in reported
    assert DiskFull.lacks(CAPABILITIES["processes"]) is None


# --- quorum_lost ---


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_controllers_without_a_leader_under_load_prove_the_effect(cluster: Scripted, how: str) -> None:
    row, found = played(cluster, "quorum_lost", how=how)
    assert found == []
    assert row["resolved"]["nodes"] == [101, 102]
    assert "there is none" in row["effect"]["because"]


def test_a_leader_that_commits_nothing_proves_the_effect(cluster: Scripted) -> None:
    cluster.commits = False
    row, found = played(cluster, "quorum_lost")
    assert found == []
    assert "103 committed nothing" in row["effect"]["because"]


def test_a_remaining_majority_proves_nothing(cluster: Scripted) -> None:
    row, found = played(cluster, "quorum_lost", node="controller_follower")
    assert found == ["no_effect"]
    assert "are a majority" in row["effect"]["because"]


def test_a_majority_that_continues_to_commit_proves_nothing(cluster: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "kill", lambda *nodes: None)
    row, found = played(cluster, "quorum_lost")
    assert found == ["no_effect"]
    assert "leads a majority" in row["effect"]["because"]


def test_a_lost_quorum_without_load_proves_nothing(cluster: Scripted) -> None:
    cluster.acks_ago_s = 5.0
    row, found = played(cluster, "quorum_lost")
    assert found == ["no_effect"]
    assert "acks in the last second" in row["effect"]["because"]


def test_brokers_are_no_quorum(cluster: Scripted) -> None:
    with pytest.raises(BadInput, match=r"\[1, 2, 3\] are no controllers"):
        played(cluster, "quorum_lost", node="brokers")


# --- controller_wiped ---


def test_a_controller_that_started_empty_and_caught_up_proves_the_effect(cluster: Scripted) -> None:
    row, found = played(cluster, "controller_wiped")
    assert found == []
    assert cluster.wiped == row["resolved"]["nodes"] == [102]
    assert row["resolved"]["committed_without_it"] > 100
    assert "started with an empty log and caught up" in row["effect"]["because"]


@pytest.mark.parametrize(
    ("what", "because"),
    [
        ({"on_start": EMPTY.replace("offset 0", "offset 99")}, "still had a log up to 99"),
        ({"on_start": EMPTY.replace("__cluster_metadata", "t")}, "has not logged where its log ends"),
        ({"catches_up": False}, "has the log up to 7 of"),
        ({"acks_ago_s": 5.0}, "acks in the last second"),
    ],
)
def test_a_controller_that_lost_no_log_or_did_not_catch_up_proves_nothing(
    cluster: Scripted, what: dict[str, Any], because: str
) -> None:
    for name, value in what.items():
        setattr(cluster, name, value)
    row, found = played(cluster, "controller_wiped")
    assert found == ["no_effect"]
    assert because in row["effect"]["because"]


def test_the_disk_of_a_controller_stays_while_the_others_commit_nothing(
    cluster: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    standstill = cluster.quorum()
    monkeypatch.setattr(cluster, "quorum", lambda deadline_s=20.0: standstill)
    row, found = played(cluster, "controller_wiped")
    assert "the other controllers to commit without 102" in row["error"]
    assert found == ["step_failed", "no_effect"]
    assert cluster.wiped == []


def test_an_only_controller_keeps_its_disk(cluster: Scripted) -> None:
    cluster.controllers = (101, 102)
    with pytest.raises(BadInput, match="needs 3 controllers"):
        played(cluster, "controller_wiped")
    with pytest.raises(BadInput, match="not 1"):
        played(cluster, "controller_wiped", node="broker(1)")
