"""Columns of observations: when a live reader got a record for the first time, and which one it got before."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Message

from harness.evidence.writer import BundleWriter
from harness.workload.records import observations
from harness.workload.records.observations import Observer


class Rows:
    """A table that keeps its rows in memory."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def append(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


def records(*offsets: int, partition: int = 0) -> list[Message]:
    return [
        Message(
            topic="t",
            partition=partition,
            offset=offset,
            key=b"",
            value=b"",
            timestamp=(1, 9),
            latency=0.0,
            leader_epoch=0,
        )
        for offset in offsets
    ]


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    reported = list(range(100, 110))
    monkeypatch.setattr(observations, "now_ns", lambda: reported.pop(0))
    return reported


def observer(kind: str, rows: Rows) -> Observer:
    made = Observer(cast(Any, rows), {"t": "T"}, 1, reader="r", kind=kind, isolation="read_committed")
    made.new_session([("t", 0)])
    return made


@pytest.mark.usefixtures("times")
def test_records_that_are_read_again_have_no_time() -> None:
    rows = Rows()
    reader = observer("live", rows)
    reader.observe(records(0, 1, 2))
    reader.new_session([("t", 0)])
    for again in (records(0, 1), records(2, 3), records(4)):
        reader.observe(again)
    assert [row["given_ns"] for row in rows.rows] == [100, None, None, 103]


@pytest.mark.usefixtures("times")
def test_records_of_a_recreated_topic_have_a_time_again() -> None:
    rows = Rows()
    reader = observer("live", rows)
    reader.observe(records(0, 1))
    reader.start_new_topic("t", "U")
    reader.observe(records(0))
    assert [row["given_ns"] for row in rows.rows] == [100, 101]


@pytest.mark.parametrize("kind", ["drain", "replica"])
@pytest.mark.usefixtures("times")
def test_records_of_the_drain_have_no_time(kind: str) -> None:
    rows = Rows()
    observer(kind, rows).observe(records(0))
    assert rows.rows[0]["given_ns"] is None


def test_each_record_names_the_one_before_it_in_its_session(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path)
    table = bundle.table("observations", "r")
    reader = Observer(table, {"t": "T"}, 1, reader="r", kind="live", isolation="read_committed")
    reader.new_session([("t", 0), ("t", 1)])
    reader.observe([*records(0, 1), *records(7, partition=1), *records(3)])
    reader.observe([*records(9, 8, partition=1), *records(4)])
    reader.new_session([("t", 0)])
    reader.observe([*records(2, 3), *records(10, partition=1)])
    reader.start_new_topic("t", "U")
    reader.observe(records(0))
    bundle.close()
    rows = pq.read_table(tmp_path / "observations").to_pylist()
    of = {p: [(row["offset"], row["previous_offset"]) for row in rows if row["partition"] == p] for p in (0, 1)}
    assert of[0] == [(0, None), (1, 0), (3, 1), (4, 3), (2, None), (3, 2), (0, None)]
    assert of[1] == [(7, None), (9, 7), (8, 9), (10, 8)]
