"""Of a producer that is not idempotent: copies and turns that a retry can have made, beside those that it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import append, swap
from suites.verify.excuses.test_excuses import ones, turned
from suites.verify.history import START_NS, Built
from suites.verify.judging import Entered, reported


def client(built: Built, **settings: Any) -> Built:
    """Changes the contract of the producer."""
    built.run["contract"]["producers"]["p"].update(settings)
    return built


def unbroken(built: Built, do: str = "hold") -> Built:
    """Nobody did anything to the cluster."""
    built.steps[0].update(do=do, is_fault=False, effect=None, healed_ns=None)
    return built


def ended(built: Built, healed_ns: int) -> Built:
    """The fault was over by then."""
    built.steps[0].update(started_ns=healed_ns - 10**9, ended_ns=healed_ns - 10**8, healed_ns=healed_ns)
    return built


def took(built: Built, milliseconds: int, seq: int) -> Built:
    """The answer to one record came so long after it was sent."""
    (row,) = built.rows("ledger", seq=seq)
    row["called_ns"] = row["returned_ns"] - milliseconds * 10**6
    return built


# name -> (history, what condemns, number of records that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "twice": (ones("AAA").build(append(1, 1)), [], 1),
    "out of order": (ones("AAAA").build(swap(1, 2)), [], 1),
    "twice, and it sends nothing again": (
        client(ones("AAA").build(append(1, 1)), retries=False),
        ["duplicated 1"],
        0,
    ),
    "out of order, and it sends nothing again": (
        client(ones("AAAA").build(swap(1, 2)), retries=False),
        ["reordered 1"],
        0,
    ),
    "twice, one in flight": (client(ones("AAA").build(append(1, 1)), one_in_flight=True), [], 1),
    "out of order, one in flight": (
        client(ones("AAAA").build(swap(1, 2)), one_in_flight=True),
        ["reordered 1"],
        0,
    ),
    "out of order, one in flight, and no answer came of it": (
        client(ones("AuA").build(turned), one_in_flight=True),
        [],
        1,
    ),
    "twice, and nothing was broken": (unbroken(ones("AAA").build(append(1, 1))), ["duplicated 1"], 0),
    "twice, and somebody waited": (
        unbroken(ones("AAA").build(append(1, 1)), do="wait_acks"),
        ["duplicated 1"],
        0,
    ),
    "twice, and a setting was changed": (
        unbroken(ones("AAA").build(append(1, 1)), do="alter_topic"),
        [],
        1,
    ),
    "twice, nothing was broken, and it took a second": (
        unbroken(took(ones("AAA").build(append(1, 1)), 1000, seq=1)),
        [],
        1,
    ),
    "twice, nothing was broken, and it took less": (
        unbroken(took(ones("AAA").build(append(1, 1)), 999, seq=1)),
        ["duplicated 1"],
        0,
    ),
    "twice, while what was broken came back": (
        ended(ones("AAA").build(append(1, 1)), START_NS - 29 * 10**9),
        [],
        1,
    ),
    "twice, long after what was broken came back": (
        ended(ones("AAA").build(append(1, 1)), START_NS - 31 * 10**9),
        ["duplicated 1"],
        0,
    ),
    "out of order, and nothing was broken": (
        unbroken(ones("AAAA").build(swap(1, 2))),
        ["reordered 1"],
        0,
    ),
}

ENTERED = Entered(history for history, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_retry_excuses_what_it_can_have_made_and_nothing_else(name: str, judged: dict[str, Verdict]) -> None:
    verdict, (_, condemning, excused) = judged[name], CASES[name]
    assert reported(verdict) == condemning
    assert sum(finding.count for finding in verdict.findings if finding.excused_by) == excused
