"""When a damaged disk has an effect, and each near miss. The cluster is scripted; its disks and logs are files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import scenarios
from harness.faults.disks import common as disks
from harness.faults.disks import damage
from harness.faults.disks.damage import CHECKPOINTS, NOTICED, Damage
from harness.faults.steps import effect
from harness.faults.steps.registry import check_steps
from harness.kafka.admin.client import PartitionState
from harness.kafka.storage.damage import log_end
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Step
from harness.model.scenario.toml import patched
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on
from suites.unit.kafka.storage.test_damage import segment

Noticing = Callable[["Scripted"], str]


@dataclass
class Scripted:
    """Partition t/0 on three brokers, led by 1. Broker 2's disk is `data`; `on_start` is the log line of its start."""

    data: Path
    on_start: Noticing
    acks_ago_s: float = 0.1
    keeps: bool = False  # it stays in the ISR while it is down
    catches_up: bool = True
    brokers: tuple[int, ...] = (1, 2, 3)
    controllers: tuple[int, ...] = (101,)
    down: set[int] = field(default_factory=set)
    stops: list[str] = field(default_factory=list)
    started: bool = False
    ended_at: int = 26

    @property
    def replica(self) -> Path:
        return self.data / "t-0"

    def server_log(self, node: int) -> Path:
        return self.data.parent / "server.log"

    def log_directories(self, node: int) -> tuple[Path, ...]:
        return (self.data,)

    def let_end(self, node: int) -> None: ...

    def kill(self, *nodes: int) -> None:
        self.down |= set(nodes)
        self.stops.append("killed")

    def terminate(self, node: int, deadline_s: float = 30) -> None:
        self.down.add(node)
        self.stops.append("cleanly")

    def wipe(self, node: int) -> None:
        assert node in self.down
        self.stops.append("wiped")

    def start(self, *nodes: int) -> None:
        self.down -= set(nodes)
        self.started = True
        with self.server_log(2).open("a") as log:
            log.write(self.on_start(self))

    def running(self, node: int) -> bool:
        return node not in self.down

    def wait_started(self, node: int, deadline_s: float) -> None:
        assert node not in self.down

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        away = bool(self.down) or (self.started and not self.catches_up)
        isr = (1, 3) if away and not self.keeps else (1, 2, 3)
        return [
            PartitionState(topic="t", topic_id="i", partition=0, leader=1, leader_epoch=4, isr=isr, replicas=(1, 2, 3))
        ]

    def replica_offsets(self, topics: list[str]) -> dict[tuple[str, int, int], tuple[int, int]]:
        return {("t", 0, 2): (0, self.ended_at)}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    segment(folder / "t-0", 0, range(20))
    segment(folder / "t-0", 20, range(20, 26))
    (folder / "t-0" / f"{26:020}.snapshot").write_bytes(b"\0\1" + b"c" * 20)
    (folder / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
    (folder / "log-start-offset-checkpoint").write_text("0\n1\nt 0 9\n")
    return folder


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    monkeypatch.setattr(damage, "RECOVERED_DEADLINE_S", 0.2)
    monkeypatch.setattr(disks, "NOT_NEEDED_DEADLINE_S", 0.2)


def loaded(replica: Path, start: int, end: int) -> str:
    """The line of a broker of 4.3.1."""
    return (
        f"[2026-11-22 13:40:20,511] INFO Completed load of Log(dir={replica}, topicId=i, topic=t, partition=0, "
        f"highWatermark=0, lastStableOffset=0, logStartOffset={start}, logEndOffset={end}) with 2 segments, "
        f"local-log-start-offset {start} and log-end-offset {end} in 76ms (14/21 completed) (kafka.log.LogManager)\n"
    )


def recovers(cluster: Scripted) -> str:
    return loaded(cluster.replica, 0, 20)


def believes(cluster: Scripted) -> str:
    """Serves its log as it is."""
    return loaded(cluster.replica, 9, 26)


def damaged(cluster: Scripted, **args: Any) -> tuple[dict[str, Any], list[str]]:
    """The row of the step, and the names of its doubts."""
    of = {} if args["what"] == "wiped" else {"of": "t/0"}
    rows = run_steps(context_on(cluster), [Step(do="damage", name="it", args={"node": "broker(2)", **of, **args})])
    assert not cluster.down
    return rows[0], [name for name, _ in doubts(rows)]


def rewritten(suffix: str) -> Noticing:
    def start(cluster: Scripted) -> str:
        for path in cluster.replica.glob(f"*{suffix}"):
            path.write_bytes(b"\0" * 8)
        return recovers(cluster)

    return start


def epochs_rewritten(cluster: Scripted) -> str:
    (cluster.replica / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
    return recovers(cluster)


def distrusts(cluster: Scripted) -> str:
    (snapshot,) = cluster.replica.glob("*.snapshot")
    return f"WARN Failed to load producer snapshot from '{snapshot}': checksum\n"


def misses_index(cluster: Scripted) -> str:
    log = cluster.replica / f"{20:020}.log"
    return f"ERROR Could not find offset index file corresponding to log file {log}, recovering segment and ...\n"


CASES: list[tuple[str, str, Noticing]] = [
    ("flip", "killed", recovers),
    ("torn_tail", "killed", recovers),
    ("torn_tail", "cleanly", recovers),
    ("index", "killed", rewritten(".index")),
    ("index", "cleanly", misses_index),
    ("time_index", "killed", rewritten(".timeindex")),
    ("leader_epoch_checkpoint", "killed", epochs_rewritten),
    ("start_offset_checkpoint", "cleanly", lambda cluster: loaded(cluster.replica, 0, 26)),
    ("producer_snapshot", "cleanly", distrusts),
    ("wiped", "killed", lambda cluster: f"INFO No logs found to be loaded in {cluster.data} (kafka.log.LogManager)\n"),
]


@pytest.mark.parametrize(("what", "how", "noticing"), CASES)
def test_damage_that_is_noticed_and_repaired_proves_the_effect(
    data: Path, what: str, how: str, noticing: Noticing
) -> None:
    cluster = Scripted(data, noticing)
    row, found = damaged(cluster, what=what, how=how)
    assert found == []
    assert "have recovered" in row["effect"]["because"]
    assert cluster.stops[0] == how


@pytest.mark.parametrize(("what", "how"), [(what, how) for what, how, _ in CASES])
def test_damage_that_the_broker_does_not_notice_proves_nothing(data: Path, what: str, how: str) -> None:
    row, found = damaged(Scripted(data, believes), what=what, how=how)
    assert found == ["no_effect"]
    assert "noticed" in row["effect"]["because"]


def test_older_lines_of_the_log_do_not_count(data: Path) -> None:
    cluster = Scripted(data, lambda _: "")
    cluster.server_log(2).write_text(recovers(cluster))
    assert damaged(cluster, what="flip")[1] == ["no_effect"]


def test_lines_about_another_partition_do_not_count(data: Path) -> None:
    _, found = damaged(Scripted(data, lambda c: loaded(c.data / "t-00", 0, 20)), what="flip")
    assert found == ["no_effect"]


@pytest.mark.parametrize("lacking", [{"catches_up": False}, {"ended_at": 25}])
def test_a_replica_that_has_not_recovered_proves_nothing_yet(data: Path, lacking: dict[str, Any]) -> None:
    row, found = damaged(Scripted(data, recovers, **lacking), what="flip")
    assert found == ["no_effect"]
    assert "not recovered" in row["effect"]["because"]


def test_damage_to_an_idle_partition_proves_nothing(data: Path) -> None:
    row, found = damaged(Scripted(data, recovers, acks_ago_s=5.0), what="flip")
    assert found == ["no_effect"]
    assert "acks in the last second" in row["effect"]["because"]


def test_without_a_file_to_damage_nothing_is_proven(data: Path) -> None:
    for path in (data / "t-0").glob("*.log"):
        path.write_bytes(b"")
    for what in ("flip", "wiped"):
        cluster = Scripted(data, recovers, ended_at=0)
        row, found = damaged(cluster, what=what)
        assert found == ["no_effect"]
        assert row["resolved"]["changed"] == "there was nothing on it to damage"
        assert "wiped" not in cluster.stops


class Alone(Scripted):
    """Broker 2 has the only replica of the partition."""

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        leader = -1 if self.down else 2
        return [
            PartitionState(topic="t", topic_id="i", partition=0, leader=leader, leader_epoch=4, isr=(2,), replicas=(2,))
        ]


def test_records_that_were_only_on_the_disk_are_lost_and_recorded_as_an_event(data: Path) -> None:
    cluster = Alone(data, recovers)
    row, _ = damaged(cluster, what="wiped", alone=True)
    assert "error" not in row or row["error"] is None
    assert cluster.stops == ["killed", "wiped"]
    (event,) = [event for event in row["events"] if event["kind"] == "only_disk_lost"]
    assert (event["topic"], event["partition"], event["broker"], event["log_end"]) == ("t", 0, 2, 26)


class AloneInSync(Scripted):
    """Broker 2 is the only in-sync one of three: no other can lead."""

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        leader = -1 if self.down else 2
        place: dict[str, Any] = {"topic": "t", "topic_id": "i", "partition": 0, "leader": leader, "leader_epoch": 4}
        return [PartitionState(**place, isr=(2,), replicas=(1, 2, 3))]


def test_records_of_the_only_in_sync_replica_are_lost_and_recorded_as_an_event(data: Path) -> None:
    cluster = AloneInSync(data, recovers)
    row, _ = damaged(cluster, what="wiped", alone=True)
    assert "error" not in row or row["error"] is None
    (event,) = [event for event in row["events"] if event["kind"] == "only_disk_lost"]
    assert (event["broker"], event["log_end"], event["isr"], event["leader_epoch"]) == (2, 26, [2], 4)


def test_a_log_start_that_no_other_replica_has_is_lost_without_records(data: Path) -> None:
    cluster = Alone(data, lambda cluster: loaded(cluster.replica, 0, 26))
    row, _ = damaged(cluster, what="start_offset_checkpoint", how="cleanly", alone=True)
    assert "error" not in row or row["error"] is None
    assert row["resolved"]["changed"] != "there was nothing on it to damage"
    assert row["events"] == []


def test_a_disk_with_copies_elsewhere_leaves_no_event(data: Path) -> None:
    row, _ = damaged(Scripted(data, recovers), what="wiped", alone=True)
    assert not [event for event in row["events"] if event["kind"] == "only_disk_lost"]


def test_the_disk_of_the_only_in_sync_replica_is_not_damaged(data: Path) -> None:
    """Its records would be lost by design."""
    row, found = damaged(Scripted(data, recovers, keeps=True), what="torn_tail")
    assert "broker 2 to leave every ISR and ELR" in row["error"]
    assert found == ["step_failed", "no_effect"]
    assert log_end(data / "t-0") == 26


def test_damage_takes_one_broker(data: Path) -> None:
    with pytest.raises(BadInput, match="one of the nodes 1, 2, 3, not 2, 3"):
        damaged(Scripted(data, recovers), what="flip", node="followers(t/0)")
    with pytest.raises(BadInput, match="not 101"):
        damaged(Scripted(data, recovers), what="flip", node="controllers")


@pytest.mark.parametrize("what", sorted(NOTICED))
@pytest.mark.parametrize("how", ["killed", "cleanly"])
def test_damage_that_no_broker_notices_is_refused(what: Any, how: Any) -> None:
    of = "" if what == "wiped" else "t/0"
    if how in NOTICED[what]:
        Damage(node="broker(2)", what=what, how=how, of=of)
        return
    with pytest.raises(BadInput, match="by design"):
        Damage(node="broker(2)", what=what, how=how, of=of)


def test_a_negative_control_may_flip_a_bit_that_no_broker_notices(data: Path) -> None:
    row, found = damaged(Scripted(data, believes), what="flip", how="cleanly", unnoticed=True)
    assert found == ["no_effect"]
    assert "flipped" in row["effect"]["seen"]["changed"]
    with pytest.raises(BadInput, match="only a flip"):
        Damage(node="broker(2)", what="time_index", how="cleanly", of="t/0", unnoticed=True)


def test_a_partition_is_named_exactly_where_one_is_damaged() -> None:
    with pytest.raises(BadInput, match="flip needs `of`"):
        Damage(node="broker(2)", what="flip")
    with pytest.raises(BadInput, match="leave out `of`"):
        Damage(node="broker(2)", what="wiped", of="t/0")


class Refusing(Scripted):
    """Ends by itself until the file is restored."""

    def start(self, *nodes: int) -> None:
        began = self.started
        super().start(*nodes)
        if not began:
            self.down |= set(nodes)


def unreadable(cluster: Scripted) -> str:
    names = ("t-0/leader-epoch-checkpoint", "log-start-offset-checkpoint")
    return "".join(f"ERROR Error while reading checkpoint file {cluster.data / name} (x)\n" for name in names)


@pytest.mark.parametrize(
    ("what", "by", "how", "noticing"),
    [
        ("index", "flip", "killed", rewritten(".index")),
        ("index", "cut", "killed", rewritten(".index")),
        ("index", "cut", "cleanly", believes),
        ("time_index", "flip", "killed", rewritten(".timeindex")),
        ("time_index", "cut", "cleanly", believes),
        ("producer_snapshot", "cut", "cleanly", distrusts),
    ],
)
def test_a_flipped_bit_or_half_a_file_proves_the_effect_like_a_whole_file(
    data: Path, what: str, by: str, how: str, noticing: Any
) -> None:
    row, found = damaged(Scripted(data, noticing), what=what, by=by, how=how)
    assert found == []
    assert ("flipped" if by == "flip" else "was cut from") in row["resolved"]["changed"]
    assert damaged(Scripted(data, lambda _: ""), what=what, by=by, how=how)[1] == ["no_effect"]


@pytest.mark.parametrize("what", sorted(CHECKPOINTS))
@pytest.mark.parametrize("by", ["flip", "cut"])
@pytest.mark.parametrize("how", ["killed", "cleanly"])
def test_healing_restores_a_checkpoint_that_cannot_be_parsed(data: Path, what: str, by: str, how: str) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    row, found = damaged(Refusing(data, unreadable), what=what, by=by, how=how)
    assert found == []
    assert "it did not start; its replicas have recovered" in row["effect"]["because"]
    assert before == {path: path.read_bytes() for path in before}


def test_a_broker_that_starts_anyway_has_not_noticed_the_damage(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "REFUSED_DEADLINE_S", 0.2)
    row, found = damaged(Scripted(data, unreadable), what="leader_epoch_checkpoint", by="cut")
    assert found == ["no_effect"]
    assert "nothing shows that broker 2 noticed it" in row["effect"]["because"]


def test_a_shorter_index_with_a_lost_tail_proves_nothing(data: Path) -> None:
    cluster = Scripted(data, lambda c: loaded(c.replica, 0, 20))
    assert damaged(cluster, what="index", by="cut", how="cleanly")[1] == ["no_effect"]


def test_a_checkpoint_without_an_entry_is_not_changed(data: Path) -> None:
    (data / "log-start-offset-checkpoint").write_text("0\n1\nother 0 9\n")
    row, found = damaged(Scripted(data, unreadable), what="start_offset_checkpoint", by="flip")
    assert found == ["no_effect"]
    assert row["resolved"]["changed"] == "there was nothing on it to damage"


def test_changes_that_no_broker_notices_are_refused() -> None:
    with pytest.raises(BadInput, match="by: there is only one way to do torn_tail"):
        Damage(node="broker(2)", what="torn_tail", of="t/0", by="cut")
    with pytest.raises(BadInput, match="by design"):
        Damage(node="broker(2)", what="index", of="t/0", by="flip", how="cleanly")
    step = {"do": "damage", "what": "leader_epoch_checkpoint", "by": "cut", "of": "plain/0", "node": "broker(2)"}
    with pytest.raises(BadInput, match="leave out log_dirs"):
        patched(scenarios.load("disk_damaged"), {"shape.log_dirs": 2, "steps.+": [step]}, check_steps)
