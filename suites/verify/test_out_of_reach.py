"""What only files of brokers show is named as not covered where the harness could not read them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from harness.verify.conclude import OF_FILES, UNWATCHED
from suites.verify.history import Built, History
from suites.verify.judging import HistoryBatch

EXITS: list[Any] = []


def run(**more: Any) -> Built:
    built = History("AAAA").build()
    built.run.update(more)
    return built


def unwatched() -> Built:
    built = run(capabilities=["kill", "restart"])
    built.run.pop("exits", None)
    return built


def not_declared() -> Built:
    """A bundle of another client."""
    built = run()
    del built.run["capabilities"]
    return built


CASES = {
    "an existing cluster": (unwatched(), [*OF_FILES, UNWATCHED]),
    "its processes were watched": (run(capabilities=[], exits=EXITS), [*OF_FILES]),
    "a cluster of the harness": (run(capabilities=["disk.read", "kill"], exits=EXITS), []),
    "nothing is said": (not_declared(), []),
}
BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_files_that_were_out_of_reach_are_not_covered_and_no_doubt(name: str, judged: dict[str, Verdict]) -> None:
    verdict, said = judged[name], CASES[name][1]
    assert verdict.status is Status.PASS
    assert [what for what in verdict.not_covered if what in (*OF_FILES, UNWATCHED)] == said
