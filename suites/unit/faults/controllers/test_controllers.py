"""Snapshots that controllers load, and voters that are removed and added: when each has an effect. All is scripted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.faults.controllers import common as controllers
from harness.faults.controllers import metadata_snapshot, remove_voter
from harness.faults.controllers.common import rejoin
from harness.faults.steps import effect
from harness.kafka.admin.client import PartitionState, Quorum
from harness.model.errors import HarnessTimeout
from harness.model.scenario.scenario import Step
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on
from suites.unit.faults.steps.test_step_validation import with_steps
from suites.unit.model.scenario.test_toml import read, refused

LOADED = "INFO [MetadataLoader id=1] handleLoadSnapshot({offset:020d}-0000000001): incrementing (x)\n"
VOTERS = "INFO [RaftManager] Latest set of voters is VoterSet(voters={{{them}}}) at offset 7 (x)\n"


@dataclass
class Scripted:
    """Broker 1 leads t/0; 101 leads controllers that commit at every look and write a snapshot of it."""

    folder: Path
    begins_at: int | None = None  # the snapshot that a controller loads instead of its newest one; -1: none
    writes_snapshots: bool = True
    forgets: str = ""  # "settings", "isr" or "epoch": what differs after the restart
    changes_voters: bool = True
    tells: bool = True  # controllers log the voters
    commits: bool = True
    acks_ago_s: float = 0.1
    brokers: tuple[int, ...] = (1, 2, 3)
    controllers: tuple[int, ...] = (101, 102, 103)
    removed: set[int] = field(default_factory=set)
    started: bool = False
    high: int = 100
    voting: dict[int, str] = field(default_factory=lambda: {101: "d101", 102: "d102", 103: "d103"})
    disks: dict[int, str] = field(default_factory=lambda: {101: "d101", 102: "d102", 103: "d103"})
    asked: list[tuple[str, int, str]] = field(default_factory=list)

    def server_log(self, node: int) -> Path:
        return self.folder / f"{node}.log"

    def log_directories(self, node: int) -> tuple[Path, ...]:
        return (self.folder / str(node),)

    def directory_id(self, node: int) -> str:
        return self.disks[node]

    def kill(self, *nodes: int) -> None:
        self.removed |= set(nodes)

    def start(self, *nodes: int) -> None:
        self.removed -= set(nodes)
        for node in nodes:
            self.started = True
            begins = self.newest if self.begins_at is None else self.begins_at
            self._say(node, LOADED.format(offset=begins) if begins >= 0 else "INFO nothing to load\n")

    def _say(self, node: int, text: str) -> None:
        with self.server_log(node).open("a") as log:
            log.write(text)

    def running(self, node: int) -> bool:
        return node not in self.removed

    def wait_started(self, node: int, deadline_s: float) -> None:
        assert node not in self.removed

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        forgot = self.forgets if self.started else ""
        isr, epoch = ((1,) if forgot == "isr" else (1, 2)), (3 if forgot == "epoch" else 4)
        return [
            PartitionState(
                topic="t", topic_id="i", partition=0, leader=1, leader_epoch=epoch, isr=isr, replicas=(1, 2, 3)
            )
        ]

    def topic_configs(self, topics: list[str]) -> dict[str, dict[str, str]]:
        return {"t": {"max.message.bytes": "1" if self.started and self.forgets == "settings" else "2"}}

    def features(self) -> dict[str, int]:
        return {"metadata.version": 30}

    def quorum(self, deadline_s: float = 20.0) -> Quorum:
        self.high += self.commits
        if self.writes_snapshots:
            self.newest = self.high
            for node in self.controllers:
                folder = self.folder / str(node) / "__cluster_metadata-0"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{self.high:020d}-0000000001.checkpoint").touch()
                (folder / f"{self.high + 50:020d}-0000000001.checkpoint.part").touch()
        return Quorum(
            leader=min(self.voting),
            leader_epoch=3,
            high_watermark=self.high,
            voters=dict.fromkeys(self.voting, self.high),
            observers={},
            directories={node: directory for node, directory in self.voting.items() if directory},
        )

    def active_controller(self) -> int:
        return self.quorum().leader

    def remove_voter(self, node: int, directory: str, deadline_s: float = 20.0) -> None:
        self.asked.append(("remove", node, directory))
        if self.changes_voters:
            assert self.voting.pop(node) == directory
        self._tell()

    def add_voter(self, node: int, directory: str, deadline_s: float = 20.0) -> None:
        self.asked.append(("add", node, directory))
        self.voting[node] = directory
        self._tell()

    def _tell(self) -> None:
        them = ", ".join(f"{id_}=VoterNode(voterKey=ReplicaKey(id={id_}, directoryId=x))" for id_ in self.voting)
        for node in self.controllers if self.tells else self.controllers[:1]:
            self._say(node, VOTERS.format(them=them))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    monkeypatch.setattr(metadata_snapshot, "LOADED_DEADLINE_S", 0.2)
    monkeypatch.setattr(controllers, "REJOINED_DEADLINE_S", 0.2)
    monkeypatch.setattr(remove_voter, "EFFECT_DEADLINE_S", 0.2)


@pytest.fixture
def cluster(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path)


def played(cluster: Scripted, do: str, **args: Any) -> tuple[dict[str, Any], list[str]]:
    """The row of the step, and the names of its doubts."""
    held: list[Step] = (
        [] if do == "metadata_snapshot" else [Step(do="wait_effect", name="affected", args={"fault": "it"})]
    )
    rows = run_steps(context_on(cluster), [Step(do=do, name="it", args=args), *held])
    assert not cluster.removed
    return rows[0], [name for name, _ in doubts(rows)]


# --- metadata_snapshot ---


@pytest.mark.parametrize(("node", "nodes"), [("controllers", [101, 102, 103]), ("controller", [101])])
def test_controllers_that_load_their_snapshot_prove_the_effect(cluster: Scripted, node: str, nodes: list[int]) -> None:
    row, found = played(cluster, "metadata_snapshot", node=node)
    assert found == []
    assert row["resolved"]["nodes"] == nodes
    assert set(row["resolved"]["snapshots"]) == set(map(str, nodes))
    assert "and the metadata is as before" in row["effect"]["because"]


@pytest.mark.parametrize(
    ("what", "because"),
    [
        ({"begins_at": 7}, "[101] did not load the snapshots"),
        ({"begins_at": -1}, "[101] did not load the snapshots"),
        ({"forgets": "settings"}, "topic t has another id or other settings than before"),
        ({"forgets": "isr"}, "ISR [1], leader epoch 4; it had [1, 2, 3], [1, 2], 4"),
        ({"forgets": "epoch"}, "leader epoch 3; it had"),
        ({"acks_ago_s": 5.0}, "acks in the last second"),
    ],
)
def test_controllers_that_load_another_snapshot_or_lose_metadata_prove_nothing(
    cluster: Scripted, what: dict[str, Any], because: str
) -> None:
    for name, value in what.items():
        setattr(cluster, name, value)
    row, found = played(cluster, "metadata_snapshot", node="controller")
    assert found == ["no_effect"]
    assert because in row["effect"]["because"]


def test_without_a_snapshot_no_controller_is_killed(cluster: Scripted) -> None:
    cluster.writes_snapshots = False
    row, found = played(cluster, "metadata_snapshot", deadline_s=0.2)
    assert "snapshots of the metadata up to offset 101 on [101, 102, 103]" in row["error"]
    assert found == ["step_failed", "no_effect"]
    assert not cluster.started


# --- remove_voter ---


@pytest.mark.parametrize(("node", "removed"), [("controller", 101), ("controller_follower", 102)])
def test_a_voter_that_is_removed_and_added_again_proves_the_effect(cluster: Scripted, node: str, removed: int) -> None:
    row, found = played(cluster, "remove_voter", node=node)
    assert found == []
    assert row["resolved"]["nodes"] == [removed]
    assert ("102 leads in place of 101" in row["effect"]["because"]) == (removed == 101)
    assert cluster.asked == [("remove", removed, f"d{removed}"), ("add", removed, f"d{removed}")]
    assert set(cluster.voting) == {101, 102, 103}


@pytest.mark.parametrize(
    ("what", "because"),
    [
        ({"changes_voters": False}, "101 still counts"),
        ({"tells": False}, "[102, 103] have not read that the voters are [102, 103]"),
        ({"commits": False}, "the voters committed nothing without 101"),
        ({"acks_ago_s": 5.0}, "acks in the last second"),
    ],
)
def test_voters_that_do_not_change_or_do_not_commit_prove_nothing(
    cluster: Scripted, what: dict[str, Any], because: str
) -> None:
    for name, value in what.items():
        setattr(cluster, name, value)
    row, found = played(cluster, "remove_voter", node="controller")
    assert found == ["no_effect"]
    assert because in row["effect"]["because"]
    assert set(cluster.voting) == {101, 102, 103}


# --- rejoining ---


def test_a_new_disk_is_another_voter(cluster: Scripted) -> None:
    cluster.disks[102] = "other"
    rejoin(context_on(cluster), 102)
    assert cluster.asked == [("remove", 102, "d102"), ("add", 102, "other")]
    rejoin(context_on(cluster), 102)
    assert len(cluster.asked) == 2


def test_static_voters_are_not_changed(cluster: Scripted) -> None:
    cluster.voting = dict.fromkeys(cluster.voting, "")
    rejoin(context_on(cluster), 102)
    assert cluster.asked == []


def test_a_voter_that_is_not_accepted_is_waited_for(cluster: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    del cluster.voting[102]
    monkeypatch.setattr(cluster, "add_voter", lambda *_: None)
    with pytest.raises(HarnessTimeout, match="controller 102 to be a voter"):
        rejoin(context_on(cluster), 102)


# --- at load ---


@pytest.mark.parametrize(
    ("step", "shape", "reported"),
    [
        ('do = "remove_voter"', "controllers = 3", 'static voters cannot change; set voters = "dynamic" in [shape]'),
        ('do = "remove_voter"', 'voters = "dynamic"', "no majority left; set controllers = 3"),
        ('do = "remove_voter", node = "controllers"', 'controllers = 3\nvoters = "dynamic"', "this step takes one"),
        ('do = "metadata_snapshot", node = "controller_follower"', "controllers = 3", "nothing shows its absence"),
        ('do = "metadata_snapshot", node = "controller_majority"', "controllers = 3", "no majority of 3 is left"),
        ('do = "metadata_snapshot", node = "brokers"', "", "takes controllers only"),
    ],
)
def test_a_fault_that_could_not_prove_an_effect_is_refused(step: str, shape: str, reported: str) -> None:
    assert reported in refused(with_steps(f"{{ {step} }}", shape=shape))


def test_an_only_controller_may_load_a_snapshot() -> None:
    assert read(with_steps('{ do = "metadata_snapshot" }')).steps
