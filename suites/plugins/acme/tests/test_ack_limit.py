"""ack_limit finds a late acknowledgement, and slow connections excuse it."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from harness.commands.plugins import loaded
from suites.verify.history import Built, History
from suites.verify.judging import verdicts

ACME = Path(__file__).parents[1]
MS = 10**6


def waited(ms: int, slow_ms: int = 0) -> Built:
    """The second of three records waits `ms`, and connections are slow for the first `slow_ms` of that time."""
    history = History("AAA", name=f"waited {ms} ms, slow for {slow_ms} ms").build()
    (row,) = history.rows("ledger", seq=1)
    row["returned_ns"] = row["called_ns"] + ms * MS
    slow = {"from_ns": row["called_ns"], "to_ns": row["called_ns"] + slow_ms * MS, "nodes": [1]}
    history.steps[0]["facts"] = [{"kind": "links_slow", **slow}] if slow_ms else []
    return history


def test_a_late_ack_condemns_unless_connections_were_slow_when_it_came(spark: SparkSession) -> None:
    near, late, before, excused = [waited(12_000), waited(12_001), waited(12_001, 12_000), waited(12_001, 12_001)]
    with loaded([ACME]):
        judged = verdicts(spark, [near, late, before, excused])
    found = [[(f.kind.value, f.excused_by) for f in verdict.findings] for verdict in judged]
    assert found == [[], [("late_ack", None)], [("late_ack", None)], [("late_ack", "kill slowed connections")]]
