"""Ranges of defects: what they count, and that a total never depends on how many of them a verdict lists."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from harness.verify.conclude import _not_listed
from harness.verify.engine.runs import RUNS_MAX, RecordRange, collected, runs_of

NUMBERS = ("bundle", "partition", "offset", "stream", "seq", "called_ns", "returned_ns", "other")
TEXTS = ("kind", "reason", "topic", "topic_id", "reader", "producer", "excused_by", "excuse", "explained_by")
ROW: dict[str, Any] = {"bundle": 0, "kind": "lost", "reason": "absent", "topic": "t", "topic_id": "i", "partition": 0}


def runs(spark: SparkSession, *rows: dict[str, Any]) -> list[RecordRange]:
    columns = [StructField(n, LongType()) for n in NUMBERS] + [StructField(n, StringType()) for n in TEXTS]
    full = [tuple({**ROW, **row}.get(column.name) for column in columns) for row in rows]
    return collected(runs_of(spark.createDataFrame(full, StructType(columns))))


def at(offset: int | None, seq: int | None, stream: int | None = 1, **more: Any) -> dict[str, Any]:
    return {"offset": offset, "seq": seq, "stream": stream, **more}


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([at(7, seq) for seq in range(9)], 9),  # nine records were acknowledged at one offset
        ([at(5, 1), at(6, 2), at(7, 3)], 3),
        ([at(5, 1), at(5, 1)], 1),  # two observations of one record
        ([at(5, 1), at(6, 1)], 2),  # two more copies of one record
        ([at(None, seq) for seq in (3, 4, 5)], 3),
        ([at(5, 1), at(5, 1, stream=2)], 2),
        ([at(5, None, stream=None), at(6, None, stream=None)], 2),  # nobody knows which records these are
    ],
)
def test_a_range_counts_records(spark: SparkSession, rows: list[dict[str, Any]], count: int) -> None:
    (run,) = runs(spark, *rows)
    assert (run.count, run.all_records) == (count, count)


def test_totals_count_ranges_that_the_verdict_does_not_list(spark: SparkSession) -> None:
    condemned = [at(2 * n, 2 * n) for n in range(RUNS_MAX + 50)]
    excused = [at(10_000 + 2 * n, n, stream=2, excused_by="unclean election") for n in range(7)]
    found = runs(spark, *condemned, *excused)
    assert len(found) == RUNS_MAX + 1
    totals = {run.excused_by: run.all_records for run in found}
    assert totals == {None: RUNS_MAX + 50, "unclean election": 7}


def test_what_is_lost_at_one_place_is_counted_behind_the_listed_ranges(spark: SparkSession) -> None:
    first = [at(2 * n, 2 * n) for n in range(RUNS_MAX + 50)]
    second = [at(2 * n, 1000 + 2 * n, partition=1) for n in range(30)]
    found = runs(spark, *first, *second)
    lost = {partition: sum(r.fate_records for r in found if r.partition == partition) for partition in (0, 1)}
    assert lost == {0: RUNS_MAX + 50, 1: 30}
    assert len(found) == RUNS_MAX + 1
    # The verdict has one more finding for each partition.
    assert [(one.topic, one.partition, one.count) for one in _not_listed(found)] == [("t", 0, 50), ("t", 1, 29)]
