"""When power loss and failing disks have an effect, the evidence of it, and that they leave nothing broken."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.disks.loop_devices import OWN
from harness.faults.disks import disk_failed, disk_stalled
from harness.faults.nodes import power_loss
from harness.faults.nodes.process import injection
from harness.faults.steps import effect
from harness.faults.steps.registry import build_step
from harness.faults.steps.step import EffectProof, Injection
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.admin.client import PartitionState
from harness.model.errors import BadInput
from harness.model.facts import FactKind, Stop
from harness.model.scenario.scenario import ClusterShape, Producer, Reader, Scenario, Step, Topic
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on
from suites.unit.kafka.storage.test_damage import segment

SHUT, FROZEN, READ_ONLY, SLOW = "shut", "frozen", "read-only", "slow"


@dataclass
class Scripted:
    """Partition t/0 on brokers 1 and 2, led by 1. Both logs end at 8. Implements the disks of its brokers, too."""

    root: Path
    unflushed: bool = True  # whether the power loss takes the second segment
    ends_by_itself: bool = False
    last_words: str = "ERROR Shutdown broker because all log dirs in /x have failed\n"
    slows: bool = True  # whether a slowed disk is slow
    acks_ago_s: float = 0.1
    brokers: tuple[int, ...] = (1, 2)
    controllers: tuple[int, ...] = (101,)
    down: set[int] = field(default_factory=set)
    state: dict[Path, str] = field(default_factory=dict)
    did: list[str] = field(default_factory=list)
    deaths: int = 0

    @property
    def disks(self) -> Scripted:
        return self

    def log_directories(self, node: int) -> tuple[Path, ...]:
        return (self.root / f"b{node}" / "data", self.root / f"b{node}" / "data-2")

    def server_log(self, node: int) -> Path:
        return self.root / f"b{node}.log"

    # --- processes ---

    def pause(self, *nodes: int) -> None:
        self.did.append(f"pause {nodes}")

    def kill(self, *nodes: int) -> None:
        self.did.append(f"kill {nodes}")
        self.down |= set(nodes)
        self.deaths += 1

    def start(self, *nodes: int) -> None:
        self.down -= set(nodes)

    def running(self, node: int) -> bool:
        return node not in self.down

    def wait_started(self, node: int, deadline_s: float) -> None:
        assert all(self.usable(path) for path in self.log_directories(node))

    def let_end(self, node: int) -> None:
        self.did.append(f"may end {node}")

    # --- disks ---

    def usable(self, directory: Path) -> bool:
        return self.state.get(directory) not in (SHUT, READ_ONLY)

    def shut_down(self, directory: Path) -> None:
        self.did.append(f"shut down {directory.parent.name}/{directory.name}")
        self._fail(directory, SHUT)

    def turn_read_only(self, directory: Path) -> None:
        self._fail(directory, READ_ONLY)

    def _fail(self, directory: Path, how: str) -> None:
        self.state[directory] = how
        if self.ends_by_itself:
            self.down.add(1)
            self.deaths += 1
            self.server_log(1).write_text(self.last_words)
        else:
            self.server_log(1).write_text(f"ERROR Stopping serving logs in dir {directory}\n")

    def remount(self, directory: Path, *, as_remembered: bool = False) -> None:
        self.did.append(f"mount {directory.parent.name}/{directory.name}{' as it was' if as_remembered else ''}")
        if self.unflushed and (tail := directory / "t-0" / f"{4:020}.log").exists():
            tail.unlink()
        del self.state[directory]

    def remember(self, directory: Path) -> None:
        self.did.append(f"remember {directory.parent.name}/{directory.name}")

    def freeze(self, directory: Path) -> None:
        self.state[directory] = FROZEN

    def thaw(self, directory: Path) -> None:
        self.state.pop(directory, None)

    def slow(self, directory: Path, writes_per_s: int | None) -> None:
        self.state.pop(directory, None)
        if writes_per_s is not None:
            self.state[directory] = SLOW

    def flush_s(self, directory: Path) -> float:
        return 0.4 if self.state.get(directory) == SLOW and self.slows else 0.01

    def fill(self, directory: Path, spare_kb: int) -> int:
        self._fail(directory, "full")
        return 1 << 20

    def make_room(self, directory: Path) -> None:
        self.state.pop(directory, None)

    # --- answers of brokers ---

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        leader, epoch = (2, 1) if self.deaths else (1, 0)
        return [
            PartitionState(
                topic="t", topic_id="i", partition=0, leader=leader, leader_epoch=epoch, isr=(1, 2), replicas=(1, 2)
            )
        ]

    def replica_offsets(self, topics: list[str]) -> dict[tuple[str, int, int], tuple[int, int]]:
        return {("t", 0, 1): (0, 8), ("t", 0, 2): (0, 8)}


@pytest.fixture
def cluster(tmp_path: Path) -> Scripted:
    for broker in (1, 2):
        folder = tmp_path / f"b{broker}" / "data"
        (tmp_path / f"b{broker}" / "data-2").mkdir(parents=True)
        folder.mkdir()
        segment(folder / "t-0", 0, range(4))
        segment(folder / "t-0", 4, range(4, 8))
        (folder / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    return Scripted(tmp_path)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    monkeypatch.setattr(disk_failed, "DEADLINE_S", 0.2)
    monkeypatch.setattr(power_loss, "injection", lambda *reported: replace(injection(*reported), deadline_s=0.2))


def played(cluster: Scripted, *steps: Step, flush: str | None = None) -> list[dict[str, Any]]:
    topic = Topic(name="t", partitions=1, config={"flush.messages": flush} if flush else {})
    rows = run_steps(context_on(cluster, topic=topic), steps)
    assert not cluster.down
    assert cluster.state == {}
    return rows


def power(**args: Any) -> Step:
    return Step(do="power_loss", name="dark", args={"node": "leader(t/0)", **args})


def test_the_power_is_cut_while_all_victims_are_paused(cluster: Scripted) -> None:
    rows = played(cluster, power())
    assert doubts(rows) == []
    assert cluster.did == [
        "pause (1,)",
        "shut down b1/data",
        "shut down b1/data-2",
        "kill (1,)",
        "mount b1/data",
        "mount b1/data-2",
    ]
    assert rows[0]["resolved"]["log_ends"] == {"t/0 of 1": [8, 4]}
    (reported,) = [event for event in rows[0]["events"] if event["kind"] == "power_loss"]
    facts = {key: reported[key] for key in ("broker", "isr", "log_end", "recovery_point", "pretended")}
    assert facts == {"broker": 1, "isr": [1, 2], "log_end": 8, "recovery_point": 2, "pretended": False}


def test_a_power_loss_that_loses_no_record_proves_nothing(cluster: Scripted) -> None:
    cluster.unflushed = False
    ((name, text),) = doubts(played(cluster, power()))
    assert name == "no_effect"
    assert "no log lost a record" in text


def test_a_power_loss_of_flushed_records_proves_the_effect(cluster: Scripted) -> None:
    cluster.unflushed = False
    (row,) = played(cluster, power(), flush="1")
    assert "every record was flushed" in row["effect"]["because"]


def test_a_power_loss_without_load_proves_nothing(cluster: Scripted) -> None:
    cluster.acks_ago_s = 9
    ((_, text),) = doubts(played(cluster, power()))
    assert "acks in the last second" in text


def test_a_staggered_power_loss_takes_one_broker_after_the_other(cluster: Scripted) -> None:
    rows = played(cluster, power(node="brokers", stagger_s=0.01))
    assert [line for line in cluster.did if line.startswith("kill")] == ["kill (1,)", "kill (2,)"]
    at_ns = [event["at_ns"] for event in rows[0]["events"] if event["kind"] == "power_loss"]
    assert at_ns[1] - at_ns[0] >= 10_000_000


def test_disks_that_lie_are_restored_to_their_earlier_content(cluster: Scripted) -> None:
    lie = Step(do="disk_lies", name="lie", args={"node": "brokers"})
    _, row = played(cluster, lie, power(lying_since="lie"))
    assert cluster.did[:2] == ["remember b1/data", "remember b1/data-2"]
    assert "mount b1/data as it was" in cluster.did
    assert all(event["pretended"] for event in row["events"] if event["kind"] == "power_loss")


def test_an_interrupt_leaves_no_disk_broken(cluster: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Path) -> None:
        cluster.state[cluster.log_directories(1)[0]] = SHUT
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "shut_down", interrupted)
    with pytest.raises(KeyboardInterrupt):
        played(cluster, power())
    assert cluster.state == {}
    assert cluster.did == ["pause (1,)", "kill (1,)", "mount b1/data"]


FAILING: list[tuple[str, dict[str, Any], str]] = [
    ("disk_failed", {}, "ended"),
    ("disk_read_only", {}, "ended"),
    ("disk_filled", {}, "ended"),
]


@pytest.mark.parametrize(("do", "args", "because"), FAILING)
def test_a_broker_ends_because_of_its_disk(cluster: Scripted, do: str, args: dict[str, Any], because: str) -> None:
    cluster.ends_by_itself = True
    rows = played(cluster, Step(do=do, name="dead", args={"node": "broker(1)", **args}))
    assert doubts(rows) == []
    assert because in rows[0]["effect"]["because"]
    assert cluster.did[0] == "may end 1"


BOTH = (
    "ERROR Error while appending records to __cluster_metadata-0 in dir /x (org.apache.kafka.LogDirFailureChannel)\n"
    "ERROR Encountered fatal fault: Unexpected error in raft IO thread (ProcessTerminatingFaultHandler)\n"
)


@pytest.mark.parametrize(("said", "held"), [(BOTH, True), (BOTH.split("\n")[1], False), ("INFO bye\n", False)])
def test_the_last_words_of_a_broker_prove_that_its_disk_is_the_reason(cluster: Scripted, said: str, held: bool) -> None:
    """The thread of the metadata log may get the error first; without that error there was another reason."""
    cluster.ends_by_itself, cluster.last_words = True, said
    rows = played(cluster, Step(do="disk_failed", name="dead", args={"node": "broker(1)"}))
    assert (doubts(rows) == []) is held


def test_a_broker_that_still_runs_proves_nothing(cluster: Scripted) -> None:
    ((_, text),) = doubts(played(cluster, Step(do="disk_failed", name="dead", args={"node": "broker(1)"})))
    assert "still runs" in text


def test_a_broker_that_ends_because_of_one_disk_of_two_proves_nothing(cluster: Scripted) -> None:
    cluster.ends_by_itself = True
    step = Step(do="disk_failed", name="dead", args={"node": "broker(1)", "log_dir": 2})
    ((_, text),) = doubts(played(cluster, step))
    assert "only one of its log directories failed" in text


def test_a_freeze_that_is_too_short_cannot_stop_acks(cluster: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_stalled, "acks_stalled", lambda *_: lambda: EffectProof(True, "acks stopped"))
    step = Step(do="disk_stalled", name="s", args={"node": "broker(1)", "freeze_s": 0.01, "thaw_s": 0.01, "for_s": 0.3})
    with monkeypatch.context() as soon:
        soon.setattr(disk_stalled, "Injection", partial(Injection, deadline_s=1.0))
        ((_, text),) = doubts(played(cluster, step))
    assert "a freeze of 0.01 s is too short to stop acks visibly" in text  # they had another reason
    monkeypatch.setattr(disk_stalled, "STALL_S", 0.01)
    (row,) = played(cluster, step)
    assert row["effect"]["seen"]["stalls"] >= 2
    time.sleep(0.05)
    assert cluster.state == {}  # and it is not frozen any more


@pytest.mark.parametrize(("slows", "stalls"), [(True, True), (True, False), (False, True)])
def test_a_slow_disk_that_stalls_acks_proves_the_effect(
    cluster: Scripted, monkeypatch: pytest.MonkeyPatch, slows: bool, stalls: bool
) -> None:
    cluster.slows = slows
    monkeypatch.setattr(disk_stalled, "acks_stalled", lambda *_: lambda: EffectProof(stalls, "acks"))
    monkeypatch.setattr("harness.faults.steps.step_runner.wait_for", lambda probe, **_: probe())
    (row,) = played(cluster, Step(do="disk_slow", name="s", args={"node": "broker(1)", "for_s": 0.1}))
    assert row["effect"]["held"] is (slows and stalls)
    assert row["resolved"]["flush_s"] == [0.01, 0.4 if slows else 0.01]


# --- at load ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("log_dir", "ends"), [(1, {Stop.CRASHED}), (2, {Stop.KILLED})])
def test_a_broker_ends_by_itself_only_with_its_first_log_directory(log_dir: int, ends: set[Stop]) -> None:
    kind = build_step(Step(do="disk_failed", name="dead", args={"node": "broker(1)", "log_dir": log_dir}))
    assert {fact.how for fact in kind.declared() if fact.kind is FactKind.STOPPED} == ends


def foreseen(step: Step, earlier: dict[str, Step] | None = None, group: str | None = None, **shape: Any) -> None:
    scenario = Scenario(
        name="s",
        title="",
        property="",
        shape=ClusterShape(**shape),
        topics=(Topic(name="t", partitions=1),),
        producers=(Producer(name="p", topics=("t",)),),
        readers=(Reader(name="r", topics=("t",), group=group),),
        steps=(step,),
    )
    plan = StepValidation(scenario, {name: build_step(before) for name, before in (earlier or {}).items()})
    build_step(step).validate(plan)


LIE = Step(do="disk_lies", name="lie", args={"node": "broker(2)"})
REFUSED: dict[str, tuple[Callable[[], None], str]] = {
    "no disks": (lambda: foreseen(power()), 'set disk = "xfs" or "ext4"'),
    "no second directory": (
        lambda: foreseen(Step(do="disk_failed", name="d", args={"node": "broker(1)", "log_dir": 2}), disk="xfs"),
        "set log_dirs = 2",
    ),
    "XFS is never read-only": (
        lambda: foreseen(Step(do="disk_read_only", name="d", args={"node": "broker(1)"}), disk="xfs"),
        'set disk = "ext4"',
    ),
    "disks that do not lie": (
        lambda: foreseen(power(node="brokers", lying_since="lie"), {"lie": LIE}, disk="xfs"),
        "is not about all disks of",
    ),
    "committed offsets that are not flushed": (
        lambda: foreseen(power(node="brokers"), group="g", disk="xfs"),
        "remove groups and transactions",
    ),
    "no flush": (
        lambda: foreseen(Step(do="disk_slow", name="s", args={"node": "broker(1)"}), disk="xfs"),
        "no acknowledgement waits for a flush",
    ),
    "no lie": (
        lambda: foreseen(power(lying_since="dark"), {"dark": power()}, disk="xfs"),
        "name a step disk_lies",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_arguments_are_refused(name: str) -> None:
    refused, because = REFUSED[name]
    with pytest.raises(BadInput, match=because):
        refused()


def test_possible_arguments_are_accepted() -> None:
    flushed = {"log.flush.interval.messages": "1"}
    foreseen(power(node="brokers"), disk="xfs")
    foreseen(power(node="brokers"), group="g", disk="xfs", config=flushed)
    foreseen(power(node="broker(1)"), group="g", disk="ext4")
    foreseen(power(node="broker(2)", lying_since="lie"), {"lie": LIE}, disk="xfs")
    foreseen(Step(do="disk_failed", name="d", args={"node": "broker(1)", "log_dir": 2}), disk="xfs", log_dirs=2)


def test_each_of_these_faults_needs_disks_of_the_brokers_own() -> None:
    for do in ("power_loss", "disk_lies", "disk_failed", "disk_filled", "disk_stalled"):
        step = Step(do=do, name="x", args={"node": "broker(1)"})
        assert OWN in build_step(step).needs
