"""Offsets by time and epoch: asked for over the whole run and beyond, again while there are errors, all written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.evidence import BundleWriter
from harness.kafka.admin.offsets import EpochEnd, TimedOffset
from harness.kafka.admin.topics import PartitionState
from harness.run import offset_lookups

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
        other = self.other.pop(0) if len(self.other) > 1 else self.other[0]
        return {("t", 0): TimedOffset(time_ms, time_ms, 0)} | ({("t", 1): other} if other else {})


def rows(leaders: Leaders, folder: Path, holed: tuple[tuple[str, int], ...] = ()) -> list[dict[str, Any]]:
    bundle = BundleWriter(folder / "bundle")
    offset_lookups.look_up(leaders, ["t"], bundle, STARTED_NS, ENDED_NS, holed)  # type: ignore[arg-type]
    (part,) = (folder / "bundle" / "lookups").glob("*.parquet")
    found: list[dict[str, Any]] = pq.read_table(part).to_pylist()
    return found


def test_times_cover_the_whole_run_and_lie_beyond_both_ends(tmp_path: Path) -> None:
    leaders = Leaders(TimedOffset(None, None, None))
    reported = rows(leaders, tmp_path)
    assert leaders.asked == [1_000_000 - 3_600_000, *range(1_000_000, 1_024_000, 1000), 1_023_000 + 3_600_000]
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
    assert [row["error"] for row in reported] == ["no answer from a leader"] * 4


class Led(Leaders):
    """The first partition had three leaders, the second one two."""

    def __init__(self, *epochs: int) -> None:
        super().__init__(None)
        self.epochs = epochs

    def partitions(self, topics: list[str]) -> list[PartitionState]:
        return [replace(s, leader_epoch=e) for s, e in zip(super().partitions(topics), self.epochs, strict=True)]


def epoch_rows(leaders: Leaders, folder: Path) -> list[tuple[Any, ...]]:
    bundle = BundleWriter(folder / "bundle")
    offset_lookups.look_up_epochs(leaders, ["t"], bundle)  # type: ignore[arg-type]
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
    assert [row["error"] for row in reported if row["partition"] == 1] == ["no answer from a leader"] * 26
    times = [leaders.asked.count(row["time_ms"]) for row in reported if row["partition"] == 1]
    assert times[0] > 2
    assert times[2:] == [1] * 24
