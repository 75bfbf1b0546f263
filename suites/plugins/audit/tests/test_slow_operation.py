"""slow_operation finds a slow operation, counts those that it timed, and doubts a run in which it timed none."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from harness.commands.plugins import loaded
from harness.model.verdict import Status
from suites.verify.checks.test_admin_operations import SECOND_NS, operated
from suites.verify.history import Built
from suites.verify.judging import verdicts

AUDIT = Path(__file__).parents[1]


def waited(took_ns: int) -> Built:
    """The first of two operations took so long; the second was not answered."""
    history = operated("a1 u2", "1")
    (first, _) = history.tables["admin_ops"]
    first["returned_ns"] = first["called_ns"] + took_ns
    return history


def test_a_slow_operation_condemns_and_none_is_a_doubt(spark: SparkSession) -> None:
    with loaded([AUDIT]):
        near, late, silent = verdicts(spark, [waited(30 * SECOND_NS), waited(31 * SECOND_NS), operated("u1", "-")])
    assert [(f.kind.value, f.detail) for f in late.findings] == [
        ("slow_operation", "its acknowledgement took 31.0 s"),
    ]
    assert (near.status, near.findings, late.status) == (Status.PASS, (), Status.FAIL)
    timed = {"slow_operation": {"operations": 1}}
    assert [verdict.facts.counts for verdict in (near, late, silent)] == [timed, timed, {}]
    assert [doubt.name for doubt in silent.doubts] == ["no_operation", "no_operation_timed"]
