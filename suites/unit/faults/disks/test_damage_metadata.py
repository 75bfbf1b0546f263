"""When damaged metadata has an effect, and each near miss. The cluster is scripted; its disks and logs are files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import scenarios
from harness.faults.controllers import common as controllers
from harness.faults.disks import common as disks
from harness.faults.disks import damage_metadata
from harness.faults.disks.damage_metadata import REFUSED, SAYS
from harness.faults.steps import effect
from harness.faults.steps.registry import check_steps
from harness.kafka.admin.client import PartitionState
from harness.kafka.storage.log_directory import METADATA_LOG
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Step
from harness.model.scenario.toml import patched
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on
from suites.unit.kafka.storage.test_damage import segment

PROPERTIES = "cluster.id=mine\nnode.id=2\nversion=1\n"


@dataclass
class Scripted:
    """Partition t/0 on three brokers, led by 1. The disk of 2 (or 102) is `data`; `says`: what it logs when damaged."""

    data: Path
    what: str
    says: str = ""
    ends: bool = True  # it ends when it starts with a disk that it cannot use
    catches_up: bool = True
    acks_ago_s: float = 0.1
    brokers: tuple[int, ...] = (1, 2, 3)
    controllers: tuple[int, ...] = (101, 102, 103)
    down: set[int] = field(default_factory=set)
    committed: int = 50
    starts: int = 0
    may_end: list[int] = field(default_factory=list)

    def let_end(self, node: int) -> None:
        self.may_end.append(node)

    def server_log(self, node: int) -> Path:
        return self.data.parent / "server.log"

    def log_directories(self, node: int) -> tuple[Path, ...]:
        return (self.data,)

    def kill(self, *nodes: int) -> None:
        self.down |= set(nodes)

    def terminate(self, node: int, deadline_s: float = 30) -> None:
        self.down.add(node)

    def start(self, *nodes: int) -> None:
        if not nodes:
            return
        self.starts += 1
        with self.server_log(2).open("a") as log:
            log.write(f"[2026-11-22 18:33:31,301] {self.says}\n" if self.starts == 1 else "INFO started\n")
        if self.what in REFUSED - {"cluster_id"} and self.starts == 1 and self.ends:
            return
        self.down -= set(nodes)

    def running(self, node: int) -> bool:
        return node not in self.down

    def wait_started(self, node: int, deadline_s: float) -> None:
        assert node not in self.down

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        isr = tuple(b for b in self.brokers if b not in self.down)
        state = PartitionState(
            topic="t", topic_id="i", partition=0, leader=1, leader_epoch=4, isr=isr, replicas=self.brokers
        )
        return [state]

    def replica_offsets(self, topics: list[str]) -> dict[tuple[str, int, int], tuple[int, int]]:
        return {("t", 0, 2): (0, 26)}

    def quorum(self) -> Any:
        self.committed += 1
        mine = 0 if not self.catches_up else self.committed
        voters = dict.fromkeys(self.controllers, self.committed) | {102: mine}
        observers = dict.fromkeys(self.brokers, self.committed) | {2: mine}
        return SimpleNamespace(leader=101, high_watermark=self.committed, voters=voters, observers=observers)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    segment(folder / "t-0", 0, range(26))
    (folder / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: i")
    segment(folder / METADATA_LOG, 0, range(40))
    (folder / METADATA_LOG / f"{30:020}-{1:010}.checkpoint").write_bytes(b"snapshot " * 20)
    (folder / "meta.properties").write_text(PROPERTIES)
    return folder


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    monkeypatch.setattr(damage_metadata, "RECOVERED_DEADLINE_S", 0.2)
    monkeypatch.setattr(disks, "REFUSED_DEADLINE_S", 0.3)
    monkeypatch.setattr(disks, "NOT_NEEDED_DEADLINE_S", 0.2)
    monkeypatch.setattr(controllers, "COMMITTED_DEADLINE_S", 0.2)


def damaged(cluster: Scripted, node: str = "broker(2)", **args: Any) -> tuple[dict[str, Any], list[str]]:
    """The row of the step, and the names of its doubts."""
    admin = SimpleNamespace(
        partitions=cluster.partitions,
        replica_offsets=cluster.replica_offsets,
        quorum=cluster.quorum,
        active_controller=lambda: 101,
    )
    of = {"of": "t/0"} if cluster.what == "partition_metadata" else {}
    step = Step(do="damage_metadata", name="it", args={"node": node, "what": cluster.what, **of, **args})
    rows = run_steps(context_on(cluster, admin=admin), [step])
    assert not cluster.down
    return rows[0], [name for name, _ in doubts(rows)]


def line(what: str) -> str:
    return "WARN " + " of something, ".join(SAYS[what])


@pytest.mark.parametrize("how", ["killed", "cleanly"])
@pytest.mark.parametrize("what", sorted(SAYS))
def test_damage_that_a_broker_notices_and_repairs_proves_the_effect(data: Path, what: str, how: str) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    cluster = Scripted(data, what, line(what))
    row, found = damaged(cluster, how=how)
    assert found == []
    assert "has recovered" in row["effect"]["because"]
    changed = [path for path, was in before.items() if not path.is_file() or path.read_bytes() != was]
    assert bool(changed) != (what in REFUSED)  # the file is restored


@pytest.mark.parametrize("what", sorted(SAYS.keys() - {"partition_metadata"}))
def test_damage_that_a_controller_notices_and_repairs_proves_the_effect(data: Path, what: str) -> None:
    row, found = damaged(Scripted(data, what, line(what)), node="controller_follower")
    assert found == []
    assert row["resolved"]["nodes"] == [102]


@pytest.mark.parametrize("what", sorted(SAYS))
def test_damage_that_the_node_does_not_notice_proves_nothing(data: Path, what: str) -> None:
    row, found = damaged(Scripted(data, what, "INFO all is well"))
    assert found == ["no_effect"]
    assert "nothing shows that node 2 noticed it" in row["effect"]["because"]


@pytest.mark.parametrize("what", sorted(REFUSED - {"cluster_id"}))
def test_a_node_that_starts_anyway_proves_nothing(data: Path, what: str) -> None:
    assert damaged(Scripted(data, what, line(what), ends=False))[1] == ["no_effect"]


def test_a_node_that_does_not_catch_up_has_not_recovered(data: Path) -> None:
    row, found = damaged(Scripted(data, "log_flip", line("log_flip"), catches_up=False))
    assert found == ["no_effect"]
    assert "it has the metadata up to 0 of" in row["effect"]["because"]


def test_damage_without_load_proves_nothing(data: Path) -> None:
    for node in ("broker(2)", "controller_follower"):
        row, found = damaged(Scripted(data, "log_tear", line("log_tear"), acks_ago_s=5.0), node=node)
        assert found == ["no_effect"]
        assert "acks in the last second" in row["effect"]["because"]


@pytest.mark.parametrize(
    ("what", "gone"), [("snapshot", f"{METADATA_LOG}/*.checkpoint"), ("partition_metadata", "t-0/part*")]
)
def test_without_a_file_to_damage_nothing_is_proven(data: Path, what: str, gone: str) -> None:
    for path in data.glob(gone):
        path.unlink()
    row, found = damaged(Scripted(data, what, line(what), ends=False))
    assert found == ["no_effect"]
    assert row["resolved"]["changed"] == "there was nothing to damage"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"node": "broker(2)", "what": "partition_metadata"}, "needs `of`"),
        ({"node": "broker(2)", "what": "log_flip", "of": "plain/0"}, "leave out `of`"),
        ({"node": "controllers", "what": "log_flip"}, "names 3 controllers"),
        ({"node": "controller", "what": "partition_metadata", "of": "plain/0"}, "have no partitions"),
    ],
)
def test_impossible_arguments_are_refused(step: dict[str, Any], words: str) -> None:
    scenario = scenarios.load("metadata_damaged")
    with pytest.raises(BadInput, match=words):
        patched(scenario, {"steps.+": [{"do": "damage_metadata", **step}]}, check_steps)


def test_one_controller_has_no_majority_left() -> None:
    scenario = scenarios.load("calm")
    step = {"do": "damage_metadata", "what": "log_flip", "node": "controller"}
    with pytest.raises(BadInput, match="there is no majority left"):
        patched(scenario, {"steps.+": [step]}, check_steps)
