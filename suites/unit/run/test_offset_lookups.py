"""Offsets by time and epoch: asked for over the whole run and beyond, again while there are errors, all written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.evidence import BundleWriter
from harness.kafka.admin.offsets import EpochEnd, TimedOffset
from harness.kafka.admin.topics import PartitionState
from harness.model.wait_budget import WaitBudget
from harness.run import offset_lookups
from harness.run.offset_lookups import AnswerWaits

MS = 10**6
STARTED_NS, ENDED_NS = 1_000_000 * MS, 1_023_000 * MS


class Leaders:
    """Two partitions: one answers with its time as an offset, the other with these answers, of which the last stays."""

    def __init__(self, *other: TimedOffset | None) -> None:
        self.other = list(other)
        self.asked: list[int] = []

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        assert topics == ["t"]
        whole = {"topic": "t", "topic_id": "i", "leader": 1, "leader_epoch": 0, "isr": (1,), "replicas": (1,)}
        return [PartitionState(partition=p, **whole) for p in (0, 1)]  # type: ignore[arg-type]

    def offsets_by_epoch(self, epochs: dict[tuple[str, int], int]) -> dict[tuple[str, int], EpochEnd]:
        (epoch,) = set(epochs.values())
        self.asked.append(epoch)
        return {place: EpochEnd(epoch, 10 * epoch) for place in epochs if place != ("t", 1) or epoch != 1}

    def offsets_by_time(self, times_ms: dict[tuple[str, int], int]) -> dict[tuple[str, int], TimedOffset]:
        (time_ms,) = set(times_ms.values())
        self.asked.append(time_ms)
        if ("t", 1) not in times_ms:
            return {("t", 0): TimedOffset(time_ms, time_ms, 0)}
        other = self.other.pop(0) if len(self.other) > 1 else self.other[0]
        return {("t", 0): TimedOffset(time_ms, time_ms, 0)} | ({("t", 1): other} if other else {})


def rows(leaders: Leaders, folder: Path, holed: tuple[tuple[str, int], ...] = ()) -> list[dict[str, Any]]:
    bundle = BundleWriter(folder / "bundle")
    waits = AnswerWaits()
    offset_lookups.look_up(leaders, ["t"], bundle, STARTED_NS, ENDED_NS, waits, holed)  # type: ignore[arg-type]
    return written(folder)


def written(folder: Path) -> list[dict[str, Any]]:
    """The rows of `lookups`, which are several parts on a busy machine."""
    parts = sorted((folder / "bundle" / "lookups").glob("*.parquet"))
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


def test_times_cover_the_whole_run_and_lie_beyond_both_ends(tmp_path: Path) -> None:
    leaders = Leaders(TimedOffset(None, None, None))
    reported = rows(leaders, tmp_path)
    times = [1_000_000 - 3_600_000, *range(1_000_000, 1_024_000, 1000), 1_023_000 + 3_600_000]
    assert leaders.asked == [*times, -3, -2]
    assert [row["time_ms"] for row in reported if row["partition"] == 0] == leaders.asked
    assert all(row["offset"] == row["time_ms"] for row in reported if row["partition"] == 0)
    assert all(row["offset"] is None and row["error"] is None for row in reported if row["partition"] == 1)
    assert {row["topic_id"] for row in reported} == {"i"}


def test_an_error_is_asked_about_again(tmp_path: Path) -> None:
    leaders = Leaders(TimedOffset(None, None, None, "NOT_LEADER_OR_FOLLOWER"), None, TimedOffset(5, 6, 7))
    reported = [row for row in rows(leaders, tmp_path) if row["partition"] == 1]
    assert (reported[0]["offset"], reported[0]["timestamp_ms"], reported[0]["leader_epoch"], reported[0]["error"]) == (
        5,
        6,
        7,
        None,
    )
    assert leaders.asked.count(reported[0]["time_ms"]) == 3


@pytest.mark.parametrize(
    ("holed", "error", "answered_at_once"),
    [
        ((("t", 1),), "UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR"),
        ((("t", 1),), "REQUEST_TIMED_OUT", None),
        ((("t", 0),), "UNKNOWN_SERVER_ERROR", None),
    ],
)
def test_an_offset_that_the_leader_cannot_read_is_asked_for_once(
    holed: tuple[tuple[str, int], ...], error: str, answered_at_once: str | None, tmp_path: Path
) -> None:
    leaders = Leaders(TimedOffset(None, None, None, error), TimedOffset(5, 6, 7))
    reported = [row for row in rows(leaders, tmp_path, holed) if row["partition"] == 1]
    assert (reported[0]["error"], reported[1]["error"]) == (answered_at_once, None)
    assert len(leaders.asked) == len(reported) + (answered_at_once is None)


def test_a_leader_that_never_answers_has_rows_that_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_lookups, "DEADLINE_S", 0.01)
    monkeypatch.setattr(offset_lookups, "TIMES", 2)
    reported = [row for row in rows(Leaders(None), tmp_path) if row["partition"] == 1]
    assert [row["error"] for row in reported] == ["no answer from a leader"] * 6


def asked_again(batches: list[tuple[int, int, int]], folder: Path, none: tuple[int, ...] = ()) -> list[int]:
    """The times that the leader of t/0, broker 1, is asked for. batches: broker, segment, latest time. none: times
    for which it had no record."""
    bundle = BundleWriter(folder / "bundle")
    (folder / "bundle" / "batches").mkdir(parents=True)
    columns = dict(zip(("broker", "segment", "max_timestamp_ms"), map(list, zip(*batches, strict=True)), strict=True))
    columns |= {"topic": ["t"] * len(batches), "partition": [0] * len(batches)}
    pq.write_table(pa.table(columns), folder / "bundle" / "batches" / "disks-0.parquet")
    leaders = Leaders(None)
    answered = {("t", 0): none} if none else {}
    offset_lookups.look_up_again(leaders, ["t"], bundle, answered, AnswerWaits())  # type: ignore[arg-type]
    assert [row["time_ms"] for row in written(folder)] == leaders.asked
    assert {row["partition"] for row in written(folder)} <= {0}
    return leaders.asked


def test_times_around_the_ends_of_closed_segments_are_asked_for(tmp_path: Path) -> None:
    batches = [(1, 0, 10), (1, 0, 30), (1, 0, 20), (1, 5, 28), (1, 5, 50), (1, 9, 70), (1, 12, 90), (2, 3, 40)]
    assert asked_again(batches, tmp_path) == [29, 30, 31, 28, 49, 50, 51, 70, 69, 70, 71, 90]


def test_of_many_closed_segments_some_are_chosen_evenly_with_the_first_and_the_last(tmp_path: Path) -> None:
    asked = asked_again([(1, n, 100 * n) for n in range(23)], tmp_path)
    assert [time_ms // 100 for time_ms in asked if time_ms % 100 == 1] == [0, 3, 6, 9, 12, 15, 18, 21]


def test_times_around_the_end_of_the_last_segment_that_only_the_remote_tier_has_are_asked_for(tmp_path: Path) -> None:
    tiered = [(-1, n, 100 * n) for n in range(12)]
    local = [(1, n, 100 * n) for n in range(11, 23)]
    asked = asked_again(tiered + local, tmp_path)
    assert [time_ms // 100 for time_ms in asked if time_ms % 100 == 1] == [0, 3, 6, 9, 10, 12, 15, 18, 21]


def test_of_a_log_with_one_segment_no_edge_is_asked_for(tmp_path: Path) -> None:
    assert asked_again([(1, 0, 10), (2, 0, 10), (2, 5, 20)], tmp_path) == []


def test_times_without_a_record_are_asked_for_again_after_the_disks_were_read(tmp_path: Path) -> None:
    assert asked_again([(1, 0, 10)], tmp_path, none=(4, -3)) == [4, -3]


def test_times_of_the_run_without_a_record_are_returned(tmp_path: Path) -> None:
    leaders, bundle = Leaders(TimedOffset(None, None, None)), BundleWriter(tmp_path / "bundle")
    none = offset_lookups.look_up(leaders, ["t"], bundle, STARTED_NS, ENDED_NS, AnswerWaits())  # type: ignore[arg-type]
    assert none == {("t", 1): [time_ms for time_ms in leaders.asked if time_ms <= ENDED_NS // MS]}


class Silent(Leaders):
    """No leader answers."""

    def offsets_by_epoch(self, epochs: dict[tuple[str, int], int]) -> dict[tuple[str, int], EpochEnd]:
        super().offsets_by_epoch(epochs)
        return {}


class Led(Leaders):
    """The first partition had three leaders, the second one two."""

    def __init__(self, *epochs: int) -> None:
        super().__init__(None)
        self.epochs = epochs

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        return [replace(s, leader_epoch=e) for s, e in zip(super().partitions(topics), self.epochs, strict=True)]


def epoch_rows(leaders: Leaders, folder: Path) -> list[tuple[Any, ...]]:
    bundle = BundleWriter(folder / "bundle")
    offset_lookups.look_up_epochs(leaders, ["t"], bundle, AnswerWaits())  # type: ignore[arg-type]
    (part,) = (folder / "bundle" / "epoch_ends").glob("*.parquet")
    names = ("partition", "epoch", "reported_epoch", "end_offset", "error")
    return [tuple(row[name] for name in names) for row in pq.read_table(part).to_pylist()]


def test_every_epoch_of_a_partition_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_lookups, "DEADLINE_S", 0.01)
    assert epoch_rows(Led(2, 1), tmp_path) == [
        (0, 0, 0, 0, None),
        (1, 0, 0, 0, None),
        (0, 1, 1, 10, None),
        (1, 1, None, None, "no answer from a leader"),
        (0, 2, 2, 20, None),
    ]


def test_of_very_many_epochs_a_sample_with_both_ends_is_asked_for(tmp_path: Path) -> None:
    leaders = Led(900, 0)
    reported = epoch_rows(leaders, tmp_path)
    assert len(reported) == offset_lookups.EPOCHS + 1
    assert (leaders.asked[0], leaders.asked[-1]) == (0, 900)


def test_questions_without_an_answer_share_one_time_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_lookups, "DEADLINE_S", 0.3)
    leaders = Leaders(None)
    reported = rows(leaders, tmp_path)
    assert [row["error"] for row in reported if row["partition"] == 1] == ["no answer from a leader"] * 28
    times = [leaders.asked.count(row["time_ms"]) for row in reported if row["partition"] == 1]
    assert times[0] > 2
    assert times[2:] == [1] * 26


def test_little_time_is_left_for_questions_when_the_budget_of_the_run_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_lookups, "LEAST_S", 0.0)
    budget, leaders = WaitBudget(0.0), Silent(None)
    budget.begin("the cluster did not recover")
    waits = AnswerWaits(budget)
    offset_lookups.look_up_epochs(leaders, ["t"], BundleWriter(tmp_path / "bundle"), waits)  # type: ignore[arg-type]
    assert 1 <= len(leaders.asked) <= 2
