"""EndTxn requests that arrive again during the next transaction: what they excuse, and what not."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import hide, show
from suites.verify.history import Built, History
from suites.verify.judging import HistoryBatch, reported


def late(built: Built, *, epoch_each: bool = False, before: int = 2, after: int = 0, **frame: Any) -> Built:
    """A frame that was held when the record at offset `after` was acknowledged, and answered before the record at
    `before` was."""
    rows = {row["offset"]: row for row in built.rows("ledger", outcome="acked", partition=0)}
    built.run["contract"]["producers"]["p"].update(transactional=True, epoch_each=epoch_each)
    facts = {
        "link": "client > b1",
        "api": "EndTxn",
        "version": 4,
        "client": "p-1-0",
        "held_ns": rows[after]["returned_ns"],
        "answered_ns": rows[before]["returned_ns"],
        "errors": [],
    }
    return built.event("held_frame", **(facts | frame))


def shown() -> Built:
    """The first of two records of an aborted transaction is returned as committed."""
    return History("A[AA]").build(show(1))


CASES: dict[str, tuple[Built, list[str], int]] = {
    "an old commit keeps an aborted record": (late(shown()), [], 1),
    "an old abort drops committed records": (late(History("A(AA)").build(hide(1))), [], 2),
    "each transaction has an epoch": (late(shown(), epoch_each=True), ["aborted_read 1"], 0),
    "a request version with epochs": (late(shown(), version=5), ["aborted_read 1"], 0),
    "another request": (late(shown(), api="AddOffsetsToTxn"), ["aborted_read 1"], 0),
    "refused": (late(shown(), errors=["INVALID_PRODUCER_EPOCH"]), ["aborted_read 1"], 0),
    "never answered": (late(shown(), errors=None, answered_ns=None), ["aborted_read 1"], 0),
    "a frame of another producer": (late(shown(), client="pp-1-0"), ["aborted_read 1"], 0),
    "before the record was sent": (late(shown(), after=0, before=0), ["aborted_read 1"], 0),
    "after the record was acknowledged": (late(shown(), after=2), ["aborted_read 1"], 0),
    "a loss on another partition": (
        late(History("A[AA]", "AA").build(show(1)).drop("observations", partition=1, offset=1)),
        ["lost 1"],
        1,
    ),
}

BATCH = HistoryBatch(built for built, _, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_late_end_excuses_only_what_it_may_have_ended(name: str, judged: dict[str, Verdict]) -> None:
    _, condemning, excused = CASES[name]
    verdict = judged[name]
    assert reported(verdict) == condemning
    assert (
        sum(
            f.count for f in verdict.findings if (f.excused_by or "").startswith("an EndTxn of p arrived a second time")
        )
        == excused
    )
