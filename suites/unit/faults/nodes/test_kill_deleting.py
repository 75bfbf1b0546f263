"""When a broker counts as killed during local deletion. The cluster is scripted, its disk is a folder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.faults.nodes import kill_deleting
from harness.faults.nodes.process import injection
from harness.faults.steps.registry import check_steps
from harness.kafka.admin.client import PartitionState
from harness.kafka.storage.log_directory import deleted_segments
from harness.model.clock import now_ns
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape, Producer, Scenario, Step, Topic
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on

FAR = Topic(name="t", partitions=1, replicas=2, config={"remote.storage.enable": "true"}, assignment=((1, 2),))
NEAR = Topic(name="near", partitions=1)
ARGS = {"node": "leader(t/0)", "of": "t/0"}


@dataclass
class Scripted:
    """Brokers 1 and 2. At the first wait, broker 1 renames `to_delete`; when it dies, `removed` are already removed."""

    disk: Path
    to_delete: tuple[int, ...]
    removed: tuple[int, ...] = ()
    moves: bool = True
    brokers: tuple[int, ...] = (1, 2)
    controllers: tuple[int, ...] = (101,)
    down: set[int] = field(default_factory=set)
    deaths: int = 0

    def log_directories(self, node: int) -> list[Path]:
        assert node == 1
        return [self.disk]

    def begin_to_delete(self) -> None:
        for base in self.to_delete:
            path = self.disk / "t-0" / f"{base:020}.log"
            path.rename(f"{path}.deleted")

    def kill(self, *nodes: int) -> None:
        self.down |= set(nodes)
        self.deaths += 1
        for base in self.removed:
            (self.disk / "t-0" / f"{base:020}.log.deleted").unlink()

    def start(self, *nodes: int) -> None:
        self.down -= set(nodes)

    def running(self, node: int) -> bool:
        return node not in self.down

    def wait_started(self, node: int, deadline_s: float) -> None:
        assert node not in self.down

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        moved = int(bool(self.deaths) and self.moves)
        return [
            PartitionState(
                topic="t", topic_id="i", partition=0, leader=1 + moved, leader_epoch=moved, isr=(1, 2), replicas=(1, 2)
            )
        ]


def killed(
    cluster: Scripted, monkeypatch: pytest.MonkeyPatch, before: tuple[int, ...] = ()
) -> tuple[dict[str, Any], str]:
    """The row of the step, and why it had no effect. Segments 0 to 4 are there, those of `before` already renamed."""
    folder = cluster.disk / "t-0"
    folder.mkdir()
    for base in range(5):
        (folder / (f"{base:020}.log" + (".deleted" if base in before else ""))).touch()
    looks = deleted_segments
    asked: list[int] = []

    def look(replica: Path) -> set[int]:
        asked.append(len(asked))
        if len(asked) == 3:
            cluster.begin_to_delete()
        return looks(replica)

    monkeypatch.setattr(kill_deleting, "deleted_segments", look)
    monkeypatch.setattr(kill_deleting, "DEADLINE_S", 0.1)
    step = Step(do="kill_deleting", name="it", args=ARGS)
    (row,) = run_steps(context_on(cluster, last_ack_ns=lambda t, p: now_ns()), [step])
    return row, "; ".join(text for _, text in doubts([row]))


def test_renamed_segments_prove_the_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row, doubt = killed(Scripted(tmp_path, to_delete=(1, 2)), monkeypatch, before=(0,))
    assert (doubt, row["resolved"]) == ("", {"nodes": [1], "renamed": [1, 2], "left": [3, 4]})
    assert row["effect"]["because"].startswith("broker 1 was about to delete segments [1, 2] of t/0; led t/0 with acks")


@pytest.mark.parametrize(("to_delete", "removed", "deaths"), [((), (), 0), ((1,), (1,), 1)])
def test_a_deletion_that_did_not_begin_or_is_complete_was_not_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_delete: tuple[int, ...], removed: tuple[int, ...], deaths: int
) -> None:
    cluster = Scripted(tmp_path, to_delete=to_delete, removed=removed)
    _, doubt = killed(cluster, monkeypatch, before=(0,))
    assert "broker 1 was not killed while it deleted segments of t/0" in doubt
    assert (cluster.deaths, cluster.down) == (deaths, set())


def test_a_death_without_consequences_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kill_deleting, "injection", lambda *reported: replace(injection(*reported), deadline_s=0.1))
    _, doubt = killed(Scripted(tmp_path, to_delete=(1,), moves=False), monkeypatch)
    assert "was about to delete segments [1] of t/0; " in doubt


@pytest.mark.parametrize(
    ("of", "node", "tier", "said"),
    [
        ("t/0", "broker(1)", "", 'kill_deleting needs a remote tier; set tier = "local"'),
        ("near/0", "broker(1)", "local", "topic near is not in the remote tier"),
        ("t/0", "broker(3)", "local", "broker[(]3[)] has no replica of t/0 to delete"),
    ],
)
def test_partitions_and_brokers_that_do_not_fit_are_refused(of: str, node: str, tier: Any, said: str) -> None:
    step = Step(do="kill_deleting", name="it", args={"node": node, "of": of})
    scenario = Scenario(
        name="s",
        title="",
        property="",
        shape=ClusterShape(tier=tier),
        topics=(FAR, NEAR),
        producers=(Producer(name="p", topics=("t", "near")),),
        steps=(step,),
    )
    with pytest.raises(BadInput, match=said):
        check_steps(scenario)
