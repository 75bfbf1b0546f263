"""Random legal histories are never accused, random wrong ones always, and of exactly what is wrong with them."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from harness.model.verdict import Status
from suites.verify.judging import reported, verdicts
from suites.verify.random_histories import legal, spoiled

HISTORIES = 200
SEEDS = st.lists(st.integers(0, 2**32), min_size=HISTORIES, max_size=HISTORIES, unique=True)
# One example holds hundreds of histories, because one Spark query judges them all; a failure names the seed of its own.
ONE_QUERY = settings(
    max_examples=1,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@ONE_QUERY
@given(seeds=SEEDS)
def test_legal_histories_are_never_accused(spark: SparkSession, seeds: list[int]) -> None:
    histories = [legal(Random(seed)) for seed in seeds]
    judged = verdicts(spark, histories)
    accused = {
        (seed, history.name): (reported(verdict), [doubt.name for doubt in verdict.doubts])
        for seed, history, verdict in zip(seeds, histories, judged, strict=True)
        if verdict.status is not Status.PASS
    }
    assert accused == {}


@ONE_QUERY
@given(seeds=SEEDS)
def test_one_thing_wrong_is_always_found_and_nothing_else(spark: SparkSession, seeds: list[int]) -> None:
    histories = [spoiled(Random(seed)) for seed in seeds]
    judged = verdicts(spark, [history for _, history, _ in histories])
    wrong = {
        (seed, what, history.name): (reported(verdict), kinds)
        for seed, (what, history, kinds), verdict in zip(seeds, histories, judged, strict=True)
        if {finding.kind.value for finding in verdict.findings if finding.condemns} != kinds
    }
    assert wrong == {}
