"""When a broker counts as killed during compaction, and when producer state has expired. The cluster is scripted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.faults.nodes import kill_cleaning
from harness.faults.nodes.process import injection
from harness.faults.steps.log_waits import first_gap
from harness.faults.steps.registry import check_steps
from harness.kafka.admin.client import PartitionState
from harness.kafka.storage.log_directory import being_cleaned
from harness.model.clock import now_ns
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Producer, Scenario, Step, Topic
from suites.steps_json import doubts, run_steps
from suites.unit.faults.steps.scripted import context_on
from suites.unit.kafka.storage.test_record_batch import batch_bytes

KEYED = Topic(name="t", partitions=1, replicas=2, config={"cleanup.policy": "compact"}, assignment=((1, 2),))
PLAIN = Topic(name="plain", partitions=1)
CLEANED, SWAP = f"{0:020}.log.cleaned", f"{0:020}.log.swap"


@dataclass
class Scripted:
    """Brokers 1 and 2. At the first wait, broker 1 begins to compact into `written`; `over` times its files are deleted
    when it is paused, and it begins again when it resumes. known: the number of its producers, look by look."""

    disk: Path
    written: tuple[str, ...] = ()
    over: int = 0
    moves: bool = True
    known: list[Mapping[tuple[str, int], int]] = field(default_factory=list)
    brokers: tuple[int, ...] = (1, 2)
    controllers: tuple[int, ...] = (101,)
    down: set[int] = field(default_factory=set)
    deaths: int = 0
    set_to: list[tuple[int, str | None, int]] = field(default_factory=list)

    def alter_broker_config(self, brokers: list[int], config: Mapping[str, str | None]) -> None:
        """Remembers each setting with the number of deaths until then."""
        assert self.running(brokers[0])
        self.set_to += [(broker, value, self.deaths) for broker in brokers for value in config.values()]

    def log_directories(self, node: int) -> list[Path]:
        assert node == 1
        return [self.disk]

    def pause(self, *nodes: int) -> None:
        assert nodes == (1,)
        for name in self.written if self.over else ():
            (self.disk / "t-0" / name).unlink()

    def resume(self, *nodes: int) -> None:
        assert nodes == (1,)
        self.over -= 1
        for name in self.written:
            (self.disk / "t-0" / name).touch()

    def kill(self, *nodes: int) -> None:
        self.down |= set(nodes)
        self.deaths += 1

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

    def remembered(self, topics: list[str]) -> Mapping[tuple[str, int], int]:
        return self.known.pop(0) if len(self.known) > 1 else self.known[0]


def killed(cluster: Scripted, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], str]:
    """The row of the step, and why it had no effect. A file of an earlier compaction is there already."""
    folder = cluster.disk / "t-0"
    folder.mkdir()
    (folder / f"{0:020}.log").touch()
    for base in (0, 7):
        (folder / f"{base:020}.log.cleaned").touch()
        os.utime(folder / f"{base:020}.log.cleaned", ns=(1, 1))
    asked: list[int] = []

    def look(replica: Path, since_ns: int) -> set[str]:
        asked.append(len(asked))
        if len(asked) == 3:
            for name in cluster.written:
                (replica / name).touch()
                os.utime(replica / name, ns=(since_ns, since_ns))
        return being_cleaned(replica, since_ns)

    monkeypatch.setattr(kill_cleaning, "being_cleaned", look)
    monkeypatch.setattr(kill_cleaning, "DEADLINE_S", 0.1)
    step = Step(do="kill_cleaning", name="it", args={"node": "leader(t/0)", "of": "t/0"})
    (row,) = run_steps(context_on(cluster, last_ack_ns=lambda t, p: now_ns()), [step])
    return row, "; ".join(text for _, text in doubts([row]))


@pytest.mark.parametrize("name", [CLEANED, SWAP])
def test_the_unfinished_files_of_a_cleaner_prove_the_effect(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Scripted(tmp_path, written=(name,))
    row, doubt = killed(cluster, monkeypatch)
    # The cleaner is slow until the broker dies, and not after its restart.
    assert cluster.set_to == [(1, str(kill_cleaning.SLOW_BYTES_PER_S), 0), (1, None, 1)]
    assert doubt == ""
    assert name in row["resolved"]["left"]
    assert row["effect"]["because"].startswith("broker 1 left ")


@pytest.mark.parametrize("written", [(), (f"{0:020}.log.deleted",)])
def test_a_cleaner_that_did_not_begin_was_not_interrupted(
    written: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Scripted(tmp_path, written=written)
    row, doubt = killed(cluster, monkeypatch)
    assert "broker 1 was not killed while it compacted t/0" in doubt
    assert row["resolved"]["left"] == []
    assert (cluster.deaths, cluster.down) == (0, set())


def test_a_cleaner_that_has_finished_is_waited_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Scripted(tmp_path, written=(CLEANED,), over=2)
    row, doubt = killed(cluster, monkeypatch)
    assert (doubt, row["resolved"]["left"]) == ("", [CLEANED])
    assert (cluster.deaths, cluster.down, cluster.over) == (1, set(), 0)


def test_a_death_without_consequences_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kill_cleaning, "injection", lambda *reported: replace(injection(*reported), deadline_s=0.1))
    _, doubt = killed(Scripted(tmp_path, written=(CLEANED,), moves=False), monkeypatch)
    assert "of the compaction of t/0; " in doubt


@pytest.mark.parametrize(
    ("of", "node", "said"),
    [
        ("plain/0", "broker(1)", "plain is not compacted; give it"),
        ("t/0", "broker(3)", "broker[(]3[)] has no replica of t/0 to compact"),
    ],
)
def test_partitions_and_brokers_that_do_not_fit_are_refused(of: str, node: str, said: str) -> None:
    step = Step(do="kill_cleaning", name="it", args={"node": node, "of": of})
    producer = Producer(name="p", topics=("t", "plain"), keyed=True)
    scenario = Scenario(name="s", title="", property="", topics=(KEYED, PLAIN), producers=(producer,), steps=(step,))
    with pytest.raises(BadInput, match=said):
        check_steps(scenario)


def waited(tmp_path: Path, *known: Mapping[tuple[str, int], int]) -> dict[str, Any]:
    step = Step(do="wait_producer_expired", name="it", args={"on": ["t/0"], "deadline_s": 0.5})
    (row,) = run_steps(context_on(Scripted(tmp_path, known=list(known)), last_ack_ns=lambda t, p: now_ns()), [step])
    return row


def test_producer_state_has_expired_when_the_leader_says_so(tmp_path: Path) -> None:
    row = waited(tmp_path, {("t", 0): 1}, {("t", 0): 1}, {}, {("t", 0): 0})
    assert (row.get("error"), row["resolved"]["known"]) == (None, {"t/0": "1 known"})


@pytest.mark.parametrize(("known", "seen"), [({}, "no broker answers"), ({("t", 0): 2}, "2 known")])
def test_producer_state_has_not_expired_without_an_answer(
    known: Mapping[tuple[str, int], int], seen: str, tmp_path: Path
) -> None:
    assert seen in waited(tmp_path, known)["error"]


@pytest.mark.parametrize(
    ("files", "gap"),
    [
        ({0: [0, 2], 4: [4]}, None),
        ({0: [0], 4: [4]}, (2, 4)),
        ({0: [], 4: [4]}, (0, 4)),
        ({0: [0, 2], 4: [6]}, None),  # the gap is inside a segment
        ({0: [0]}, None),
    ],
)
def test_a_gap_is_where_a_segment_ends_before_the_next_one_begins(
    files: Mapping[int, list[int]], gap: tuple[int, int] | None, tmp_path: Path
) -> None:
    for folder in ("t-0", "t-1"):
        (tmp_path / folder).mkdir()
    for base, batches in files.items():
        data = b"".join(batch_bytes(first, [b"a", b"b"]) for first in batches)
        (tmp_path / "t-0" / f"{base:020}.log").write_bytes(data)
    assert first_gap([tmp_path], ("t", 0)) == gap
    assert first_gap([tmp_path], ("t", 1)) is None
