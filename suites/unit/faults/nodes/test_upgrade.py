"""Upgrades: when `roll`, `raise_features` and `downgrade_refused` have an effect, and near misses. All is scripted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.faults.controllers import common as controllers
from harness.faults.nodes import downgrade_refused, process, roll, rolling_restart
from harness.faults.steps import effect
from harness.kafka.admin.client import PartitionState, Quorum
from harness.kafka.release.release import Release
from harness.model.errors import HarnessFailure, HarnessTimeout
from harness.model.scenario.scenario import Step
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on

RELEASES = {"start": Release("3.9.1", "a", "here", ()), "tested": Release("4.3.1", "b", "here", ())}
REFUSAL = "INVALID_UPDATE_VERSION (it might delete metadata information)"
CANNOT_READ = "Caused by: UnsupportedVersionException: Can't read version 4 of BrokerEndpoint\n"


@dataclass
class Scripted:
    """Three brokers, of which 1 leads t/0 until it stops, and three controllers. A start logs the version."""

    folder: Path
    runs: dict[int, str] = field(default_factory=lambda: dict.fromkeys((1, 2, 3, 101, 102, 103), "start"))
    says: str | None = None  # the version that a start logs instead of the real one
    takes_over: bool = True
    catches_up: bool = True
    kept_out: str | None = CANNOT_READ  # the log line of a broker of the earlier release when it ends; None: it starts
    levels: dict[str, int] = field(default_factory=lambda: {"metadata.version": 21, "kraft.version": 0})
    known: dict[str, int] = field(
        default_factory=lambda: {"metadata.version": 30, "group.version": 1, "kraft.version": 1}
    )
    refuses: Mapping[str, str] = field(default_factory=lambda: {"down": REFUSAL})
    acks_ago_s: float = 0.1
    brokers: tuple[int, ...] = (1, 2, 3)
    controllers: tuple[int, ...] = (101, 102, 103)
    gone: set[int] = field(default_factory=set)
    expected: set[int] = field(default_factory=set)
    high: int = 100
    epoch: int = 4
    leader: int = 1
    rolled: bool = False
    releases: Mapping[str, Release] = field(default_factory=lambda: RELEASES)

    def server_log(self, node: int) -> Path:
        return self.folder / f"{node}.log"

    def release_of(self, node: int) -> Release:
        return self.releases[self.runs[node]]

    def use_release(self, node: int, which: str) -> None:
        assert node in self.gone
        self.runs[node] = which

    def let_end(self, node: int) -> None:
        self.expected.add(node)

    def terminate(self, node: int, deadline_s: float = 30) -> None:
        self.kill(node)

    def kill(self, *nodes: int) -> None:
        self.gone |= set(nodes)
        if self.leader in nodes and self.takes_over:
            self.leader, self.epoch = next(b for b in self.brokers if b not in nodes), self.epoch + 1

    def start(self, *nodes: int) -> None:
        for node in nodes:
            self.gone.discard(node)
            self._say(node, f"INFO Kafka version: {self.says or self.release_of(node).version} (AppInfoParser)\n")
            if self.levels["metadata.version"] > 21 and self.runs[node] == "start":
                self._say(node, "INFO Kafka Server started\n" if self.kept_out is None else self.kept_out)
                self.gone |= {node} if self.kept_out is not None else set()

    def _say(self, node: int, text: str) -> None:
        with self.server_log(node).open("a") as log:
            log.write(text)

    def running(self, node: int) -> bool:
        return node not in self.gone

    def wait_started(self, node: int, deadline_s: float) -> None:
        if node in self.gone:
            raise HarnessFailure(f"{node} ended before it had started")

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        isr = tuple(b for b in self.brokers if b not in self.gone)
        return [
            PartitionState(
                topic="t",
                topic_id="i",
                partition=0,
                leader=self.leader,
                leader_epoch=self.epoch,
                isr=isr,
                replicas=self.brokers,
            )
        ]

    def quorum(self, deadline_s: float = 20.0) -> Quorum:
        left = [c for c in self.controllers if c not in self.gone]
        if len(left) < 2:
            raise HarnessTimeout("none says that it leads")
        self.high += 1
        ends = {c: self.high if self.catches_up or c == left[0] else 7 for c in self.controllers}
        return Quorum(leader=left[0], leader_epoch=3, high_watermark=self.high, voters=ends, observers={})

    def active_controller(self) -> int:
        return self.quorum().leader

    def features(self) -> dict[str, int]:
        return dict(self.levels)

    def supported_features(self) -> dict[str, int]:
        return dict(self.known)

    def update_features(self, levels: Mapping[str, int], direction: str) -> str | None:
        if direction not in self.refuses:
            self.levels |= levels
        return self.refuses.get(direction)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    monkeypatch.setattr(rolling_restart, "EFFECT_DEADLINE_S", 0.1)
    monkeypatch.setattr(controllers, "COMMITTED_DEADLINE_S", 0.2)
    monkeypatch.setattr(roll, "CAUGHT_UP_DEADLINE_S", 0.2)
    monkeypatch.setattr(downgrade_refused, "REFUSED_DEADLINE_S", 0.2)
    monkeypatch.setattr(process, "RESTART_DEADLINE_S", 0.2)


@pytest.fixture
def cluster(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path)


def played(cluster: Scripted, *steps: tuple[str, dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The row of the last step, and the names of its doubts."""
    rows = run_steps(
        context_on(cluster), [Step(do=do, name=f"step{n}", args=args) for n, (do, args) in enumerate(steps)]
    )
    assert not cluster.gone
    return rows[-1], [name for name, _ in doubts(rows[-1:])]


# --- roll ---


@pytest.mark.parametrize(("node", "nodes"), [("brokers", [1, 2, 3]), ("controllers", [101, 102, 103])])
def test_nodes_whose_absence_was_noticed_and_that_log_another_version_prove_the_effect(
    cluster: Scripted, node: str, nodes: list[int]
) -> None:
    row, found = played(cluster, ("roll", {"node": node}))
    assert found == []
    assert row["resolved"] == {"nodes": nodes, "to": "4.3.1"}
    assert {n for n, which in cluster.runs.items() if which == "tested"} == set(nodes)
    for reported in row["effect"]["seen"].values():
        assert reported["seen"]["release"] == ["3.9.1", "4.3.1"]
        assert reported["seen"]["since_ns"] <= row["ended_ns"]


@pytest.mark.parametrize(
    ("what", "args", "because"),
    [
        ({"says": "3.9.1"}, {}, "its log says that it runs 3.9.1 after 3.9.1, not 4.3.1"),
        ({}, {"to": "start"}, "it already ran 3.9.1 before"),
        ({"takes_over": False}, {"node": "broker(1)"}, "did not rise"),
        ({"acks_ago_s": 5.0}, {"node": "broker(1)"}, "in the last second"),
        ({"acks_ago_s": 5.0}, {"node": "controller"}, "no partition had acks in the last second"),
    ],
)
def test_an_unnoticed_absence_or_the_same_version_proves_nothing(
    cluster: Scripted, what: dict[str, Any], args: dict[str, Any], because: str
) -> None:
    for name, value in what.items():
        setattr(cluster, name, value)
    row, found = played(cluster, ("roll", args))
    assert found == ["no_effect"]
    assert because in row["effect"]["because"]


def test_the_next_controller_is_not_restarted_before_this_one_has_caught_up(cluster: Scripted) -> None:
    cluster.catches_up = False
    row, found = played(cluster, ("roll", {"node": "controllers"}))
    assert "controller 102 to catch up with what was committed without it" in row["error"]
    assert found == ["step_failed", "no_effect"]
    assert [cluster.runs[c] for c in cluster.controllers] == ["tested", "tested", "start"]


# --- raise_features ---


def test_levels_that_rise_under_load_prove_the_effect(cluster: Scripted) -> None:
    row, found = played(cluster, ("raise_features", {}))
    assert found == []
    assert row["resolved"]["levels"] == {"metadata.version": [21, 30], "group.version": [0, 1]}
    assert cluster.levels == {"metadata.version": 30, "group.version": 1, "kraft.version": 0}


@pytest.mark.parametrize(
    ("what", "because"),
    [
        ({"known": {"metadata.version": 21}}, "the highest level that all nodes support"),
        ({"refuses": {"up": "NOT_CONTROLLER (x)"}}, "the active controller refused: NOT_CONTROLLER"),
        ({"acks_ago_s": 5.0}, "acks in the last second"),
    ],
)
def test_levels_that_do_not_rise_under_load_prove_nothing(
    cluster: Scripted, what: dict[str, Any], because: str
) -> None:
    for name, value in what.items():
        setattr(cluster, name, value)
    row, found = played(cluster, ("raise_features", {}))
    assert found == ["no_effect"]
    assert because in row["effect"]["because"]


# --- downgrade_refused ---

UP: tuple[tuple[str, dict[str, Any]], ...] = (("roll", {}), ("raise_features", {}))


def test_a_downgrade_that_is_refused_twice_proves_the_effect(cluster: Scripted) -> None:
    row, found = played(cluster, *UP, ("downgrade_refused", {"node": "broker(2)"}))
    assert found == []
    assert row["resolved"]["request"] == REFUSAL
    assert "broker 2 ended by itself on 3.9.1: Caused by: UnsupportedVersionException" in row["effect"]["because"]
    assert cluster.expected == {2}
    assert cluster.runs[2] == "tested"


@pytest.mark.parametrize(
    ("what", "because"),
    [
        ({"refuses": {}}, "the active controller lowered metadata.version from 30 to 21"),
        ({"kept_out": None}, "broker 2 started on 3.9.1, which does not know these feature levels"),
        ({"kept_out": "INFO publishing metadata.version\n"}, "logged no reason about feature levels"),
        ({"takes_over": False}, "did not rise"),
    ],
)
def test_a_downgrade_that_is_not_refused_proves_nothing(cluster: Scripted, what: dict[str, Any], because: str) -> None:
    setup = UP if "takes_over" not in what else UP[1:]
    if "takes_over" in what:
        cluster.leader = 2
        cluster.runs = dict.fromkeys(cluster.runs, "tested")
    for name, value in what.items():
        setattr(cluster, name, value)
    row, found = played(cluster, *setup, ("downgrade_refused", {"node": "broker(2)"}))
    assert found == ["no_effect"]
    assert because in row["effect"]["because"]
    assert cluster.runs[2] == "tested"


def test_levels_that_were_not_raised_cannot_be_lowered(cluster: Scripted) -> None:
    row, found = played(cluster, ("downgrade_refused", {}))
    assert found == ["no_effect"]
    assert row["effect"]["because"] == "metadata.version was not raised"
