"""Promises to admins: too little proves nothing, and a finding says which operation it is about and who says what."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.checks.operations import doubtful, operated
from suites.verify.history import START_NS
from suites.verify.judging import Entered

DOUBTFUL = doubtful()
TOLD = {
    "lost": operated("a4096 a4097", "4096"),
    "refused": operated("a4096 r4098", "4098"),
    "behind": operated("a4096 a4097", {1: "4097", 2: "4096", 3: "-", 101: "4097"}),
    "many": operated("a1 a2 a3", "3"),
}


HISTORIES = {**{name: history for name, (history, _) in DOUBTFUL.items()}, **TOLD}
ENTERED = Entered(HISTORIES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(HISTORIES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", DOUBTFUL)
def test_too_little_is_no_pass(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    assert verdict.status is Status.INCONCLUSIVE
    assert {doubt.name for doubt in verdict.doubts} == {DOUBTFUL[name][1]}


def test_a_finding_tells_which_operation_and_who_says_what(judged: dict[str, Verdict]) -> None:
    (lost,) = judged["lost"].findings
    assert (lost.reader, lost.first_ns) == ("nodes 1, 2, 3, 101", START_NS + 10**9)
    assert lost.detail.startswith("user ops-user-1 SCRAM-SHA-256: operation 1 of ops (set_user), acknowledged ")
    assert lost.detail.endswith("made it 4097; nodes 1, 2, 3, 101 say 4096")
    assert "metadata log" in lost.contract
    (refused,) = judged["refused"].findings
    assert "only operation 1 of ops asked for 4098, and it was refused (_TIMED_OUT)" in refused.detail
    (behind,) = judged["behind"].findings
    assert "node 2 says 4096; nodes 1, 101 say 4097; node 3 says that it is not there" in behind.detail


def test_the_score_counts_what_had_the_last_word(judged: dict[str, Verdict]) -> None:
    for name, figures in {"many": (3, 1, 1), "lost": (2, 1, 0)}.items():
        score = judged[name].score
        assert score is not None
        assert (score.operations_acked, score.operations_standing, score.operations_held) == figures
    assert not any("operations of admins" in what for what in judged["many"].not_covered)
    assert judged["many"].status is Status.PASS
