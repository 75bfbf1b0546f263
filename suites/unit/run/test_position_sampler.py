"""Samples of scripted brokers: which answers become rows, and silence, crashes and the end of a run."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.evidence import BundleWriter
from harness.kafka.admin.positions import Position, Replica, SampledTopic
from harness.model.clock import now_ns
from harness.model.errors import HarnessFailure
from harness.model.waiting import wait_for
from harness.run import position_sampler
from harness.run.position_sampler import Changes, PositionRow, PositionSampler

S = 10**9
ONE, TWO = Replica("t", "T", 0), Replica("t", "T", 1)
AT = Position(log_start=0, high_watermark=5, last_stable_offset=5, leader_epoch=0, log_end=5)
LATER = replace(AT, log_end=6)
TOPICS = [SampledTopic("t", "T", 2, tiered=False)]


# --- which answers become rows ---


def shown(rows: Sequence[PositionRow]) -> list[tuple[int, float, int, bool]]:
    """Partition, time in seconds, log end, after_silence."""
    return [(r.replica.partition, r.at_ns / S, r.position.log_end, r.after_silence) for r in rows]


def sampled(changes: Changes, at_s: float, **of: Position) -> list[tuple[int, float, int, bool]]:
    """The rows that an answer at this time adds; it reports `one` of partition 0 and `two` of partition 1."""
    found = {{"one": ONE, "two": TWO}[name]: position for name, position in of.items()}
    return shown(changes.answered(int(at_s * S) - 1000, int(at_s * S), found))


def test_only_changes_are_rows() -> None:
    changes = Changes()
    assert sampled(changes, 1.0, one=AT, two=AT) == [(0, 1.0, 5, True), (1, 1.0, 5, True)]
    assert sampled(changes, 1.5, one=AT, two=AT) == []
    assert sampled(changes, 2.0, one=AT, two=LATER) == [(1, 2.0, 6, False)]
    assert sampled(changes, 2.5, one=LATER, two=LATER) == [(0, 2.5, 6, False)]


@pytest.mark.parametrize("name", [name for name in Position.__slots__ if name != "log_end"])
def test_each_value_counts_as_a_change(name: str) -> None:
    changes = Changes()
    sampled(changes, 1.0, one=AT)
    changed: dict[str, Any] = {name: 7}
    assert len(sampled(changes, 1.5, one=replace(AT, **changed))) == 1


def test_a_replica_without_changes_has_a_row_every_10_s() -> None:
    changes = Changes()
    times = [row for n in range(61) for row in sampled(changes, 1 + n / 2, one=AT)]
    assert times == [(0, 1.0, 5, True), (0, 11.0, 5, False), (0, 21.0, 5, False), (0, 31.0, 5, False)]


def test_a_silence_has_a_row_on_both_sides() -> None:
    changes = Changes()
    sampled(changes, 1.0, one=AT)
    sampled(changes, 1.5, one=AT)
    assert shown(changes.silent()) == [(0, 1.5, 5, False)]
    assert changes.silent() == []
    assert sampled(changes, 2.0, one=AT) == [(0, 2.0, 5, True)]


def test_the_last_answer_is_not_written_twice() -> None:
    changes = Changes()
    sampled(changes, 1.0, one=AT)
    assert changes.silent() == []


@pytest.mark.parametrize(("next_s", "silent"), [(2.9, False), (3.1, True)])
def test_answers_more_than_a_second_and_a_half_apart_have_a_silence_between_them(next_s: float, silent: bool) -> None:
    changes = Changes()
    sampled(changes, 1.0, one=AT)
    sampled(changes, 1.5, one=AT)
    wanted = [(0, 1.5, 5, False), (0, next_s, 5, True)] if silent else []
    assert sampled(changes, next_s, one=AT) == wanted


def test_a_replica_that_an_answer_lacks_is_silent_alone() -> None:
    changes = Changes()
    sampled(changes, 1.0, one=AT, two=AT)
    sampled(changes, 1.5, one=AT, two=AT)
    assert sampled(changes, 2.0, one=AT) == [(1, 1.5, 5, False)]
    assert sampled(changes, 2.5, one=AT, two=AT) == [(1, 2.5, 5, True)]


def test_a_topic_that_is_created_again_is_another_replica() -> None:
    changes = Changes()
    sampled(changes, 1.0, one=AT)
    again = Replica("t", "U", 0)
    (row,) = changes.answered(S, 2 * S, {again: AT})
    assert (row.replica, row.after_silence) == (again, True)


# --- threads ---


@dataclass
class Script:
    """A broker. answers: what it reports now; None: it refuses connections. frozen: it does not answer.

    connections, answered: how often it was connected to, and how many samples it answered.
    """

    answers: dict[Replica, Position] | None = field(default_factory=lambda: {ONE: AT})
    frozen: bool = False
    connections: int = 0
    answered: int = 0

    def wait_answers(self) -> None:
        """Waits until the answers of now are rows."""
        before = self.answered
        wait_for(lambda: self.answered, until=lambda n: n >= before + 3, deadline_s=10, what="more samples")

    def report(self, log_end: int) -> None:
        """Changes the log end, and waits until that is sampled."""
        self.answers = {ONE: replace(AT, log_end=log_end)}
        self.wait_answers()


class Scripted:
    """A connection to a broker with a script."""

    def __init__(self, script: Script, give_up_at: float, login: None) -> None:
        self.script = script
        self.interrupted = threading.Event()
        script.connections += 1
        if script.answers is None:
            raise ConnectionRefusedError

    def interrupt(self) -> None:
        self.interrupted.set()

    def close(self) -> None:
        self.interrupted.set()

    def positions(self, topics: Sequence[SampledTopic], give_up_at: float) -> dict[Replica, Position]:
        while self.script.frozen:
            if self.interrupted.wait(0.001):
                raise ConnectionError("interrupted")
            if time.monotonic() > give_up_at:
                raise TimeoutError("no answer in time")
        if self.script.answers is None:
            raise ConnectionResetError
        self.script.answered += 1
        return {replica: p for replica, p in self.script.answers.items() if len(topics) == 1}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_sampler, "SAMPLE_S", 0.01)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_sampler, "Connection", Scripted)
    monkeypatch.setattr(position_sampler, "positions", Scripted.positions)


def sampler(folder: Path, *scripts: Any, topics: Callable[[], Sequence[SampledTopic]] = lambda: TOPICS) -> Any:
    """The broker of the first script is number 1."""
    return PositionSampler(dict(enumerate(scripts, start=1)), topics, BundleWriter(folder / "bundle"))


def rows_of(folder: Path, broker: int) -> list[dict[str, Any]]:
    """The rows of one broker in the order of time."""
    files = sorted((folder / "bundle" / "positions").glob(f"broker-{broker}-*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: row["at_ns"])


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("sampler of the positions")]


@pytest.mark.usefixtures("scripted")
def test_the_rows_of_a_broker_are_its_own_answers(tmp_path: Path) -> None:
    first, second = Script({ONE: AT, TWO: replace(AT, high_watermark=None, highest_tiered=-1)}), Script({TWO: LATER})
    with sampler(tmp_path, first, second) as running:
        first.wait_answers()
        first.report(9)
        second.wait_answers()
    assert running.died == running.late == []
    rows = rows_of(tmp_path, 1)
    assert [(r["partition"], r["log_end"]) for r in rows if r["after_silence"]] == [(0, 5), (1, 5)]
    assert {(r["partition"], r["log_end"]) for r in rows} == {(0, 5), (1, 5), (0, 9)}
    (other, *_) = [row for row in rows if row["partition"] == 1]
    assert (other["topic"], other["topic_id"], other["broker"]) == ("t", "T", 1)
    assert (other["high_watermark"], other["highest_tiered"], other["local_log_start"]) == (None, -1, None)
    assert all(row["asked_ns"] <= row["at_ns"] for row in rows)
    assert {(r["broker"], r["partition"], r["log_end"]) for r in rows_of(tmp_path, 2)} == {(2, 1, 6)}


@pytest.mark.usefixtures("scripted")
def test_a_frozen_broker_delays_no_other_one_and_not_the_end(tmp_path: Path) -> None:
    frozen, other = Script(frozen=True), Script()
    with sampler(tmp_path, frozen, other) as running:
        for end in range(10, 15):
            other.report(end)
        stopping = time.monotonic()
    assert time.monotonic() - stopping < 2.0
    assert threads() == []
    assert running.died == running.late == []
    assert rows_of(tmp_path, 1) == []
    assert {row["log_end"] for row in rows_of(tmp_path, 2)} >= set(range(10, 15))
    assert frozen.connections == 1


@pytest.mark.usefixtures("scripted")
def test_a_resumed_broker_answers_on_the_connection_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position_sampler, "SILENCE_S", 0.5)
    broker = Script()
    with sampler(tmp_path, broker):
        broker.report(7)
        broker.frozen = True
        time.sleep(1.0)
        broker.frozen = False
        broker.wait_answers()
    assert broker.connections == 1
    (late,) = [row for row in rows_of(tmp_path, 1) if row["at_ns"] - row["asked_ns"] > 0.9 * S]
    assert (late["after_silence"], late["log_end"]) == (True, 7)


@pytest.mark.usefixtures("scripted")
def test_a_dead_broker_has_no_rows_until_it_is_back(tmp_path: Path) -> None:
    broker = Script()
    with sampler(tmp_path, broker):
        broker.report(7)
        broker.answers = None
        died_ns = now_ns()
        time.sleep(0.2)
        back_ns = now_ns()
        broker.report(7)
    rows = rows_of(tmp_path, 1)
    assert [row for row in rows if died_ns < row["asked_ns"] < back_ns] == []
    before = [row for row in rows if row["asked_ns"] < back_ns]
    after = [row for row in rows if row["asked_ns"] >= back_ns]
    assert [row["log_end"] for row in before][-2:] == [7, 7], "the last answer is a row, although nothing had changed"
    assert after[0]["after_silence"]


@pytest.mark.usefixtures("scripted")
def test_a_broker_that_does_not_answer_is_given_up_and_asked_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position_sampler, "_HELD_S", 0.05)
    monkeypatch.setattr(position_sampler, "_RETRY_S", 0.2)
    broker = Script(frozen=True)
    started = time.monotonic()
    with sampler(tmp_path, broker):
        wait_for(lambda: broker.connections, until=lambda n: n == 4, deadline_s=20, what="the fourth connection")
    assert time.monotonic() - started > 0.6


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, HarnessFailure])
def test_threads_end_with_whatever_ends_the_run(tmp_path: Path, ending: type[BaseException]) -> None:
    with pytest.raises(ending), sampler(tmp_path, Script(), Script(frozen=True)):
        raise ending
    assert threads() == []


@pytest.mark.usefixtures("scripted")
def test_the_crash_of_a_thread_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    first = iter([True])

    def topics() -> list[SampledTopic]:
        if next(first, False):
            raise RuntimeError("at once")
        return TOPICS

    one, two = Script(), Script()
    with sampler(tmp_path, one, two, topics=topics) as running:
        wait_for(lambda: one.answered + two.answered, until=lambda n: n > 3, deadline_s=10, what="samples")
    (problem,) = running.died
    assert "died: RuntimeError: at once" in problem
    assert sum(bool(rows_of(tmp_path, broker)) for broker in (1, 2)) == 1


@pytest.mark.usefixtures("scripted")
def test_a_thread_ends_when_its_table_is_closed(tmp_path: Path) -> None:
    broker = Script()
    bundle = BundleWriter(tmp_path / "bundle")
    with PositionSampler({1: broker}, lambda: TOPICS, bundle):  # type: ignore[dict-item]
        bundle.close()
        broker.answers = {ONE: LATER}
        wait_for(threads, until=lambda alive: not alive, deadline_s=5, what="the thread to end")


def test_a_listener_that_never_answers_does_not_hold_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_sampler, "ANSWER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with sampler(tmp_path, silent.getsockname()) as running:
            time.sleep(0.1)
            stopping = time.monotonic()
        assert time.monotonic() - stopping < 2.0
    assert running.died == running.late == []
    assert threads() == []
    assert rows_of(tmp_path, 1) == []
