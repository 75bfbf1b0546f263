"""Random histories: a legal one is never accused, and one with a single defect always is, of exactly that defect.

Every run draws fresh seeds and prints them. VERIFY_SEEDS=7,9 or VERIFY_SEEDS=100-299 in the environment replays seeds;
those in regression_seeds.txt are judged in every run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status
from suites.verify.judging import HistoryBatch, reported
from suites.verify.random_histories import legal, with_one_defect

HISTORIES: Final = 200
REPLAYED: Final = "VERIFY_SEEDS"
KEPT: Final = Path(__file__).with_name("regression_seeds.txt")


def chosen_seeds(environment: Mapping[str, str], kept: str, draw: Random) -> list[int]:
    """The seeds to replay; without any, the kept ones and fresh consecutive ones, HISTORIES together.

    At least half of them are fresh.
    """
    if given := environment.get(REPLAYED):
        ranges = [part.partition("-") for part in given.split(",")]
        return [seed for first, _, last in ranges for seed in range(int(first), int(last or first) + 1)]
    texts = [line.partition("#")[0].strip() for line in kept.splitlines()]
    seeds = [int(text) for text in texts if text]
    fresh = max(HISTORIES - len(seeds), HISTORIES // 2)
    first = draw.getrandbits(40)
    return [*seeds, *range(first, first + fresh)]


def as_text(seeds: Iterable[int]) -> str:
    """Seeds as `chosen_seeds` reads them, consecutive ones as a range."""
    spans: list[list[int]] = []
    for seed in seeds:
        if spans and spans[-1][1] + 1 == seed:
            spans[-1][1] = seed
        else:
            spans.append([seed, seed])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in spans)


SEEDS: Final = chosen_seeds(os.environ, KEPT.read_text(encoding="utf-8"), SystemRandom())
LEGAL: Final = [legal(Random(seed)) for seed in SEEDS]
WITH_ONE_DEFECT: Final = [with_one_defect(Random(seed)) for seed in SEEDS]
LEGAL_BATCH: Final = HistoryBatch(LEGAL)
DEFECT_BATCH: Final = HistoryBatch(history for _, history, _ in WITH_ONE_DEFECT)


@pytest.fixture(scope="module", autouse=True)
def _print_seeds(request: pytest.FixtureRequest) -> None:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\nrandom histories; replay them with {REPLAYED}={as_text(SEEDS)}")


def how_to_go_on(failed: Mapping[int, object]) -> str:
    """The failures, and how to replay and keep their seeds."""
    lines = [f"  {seed}  # {what}" for seed, what in failed.items()]
    again = f"replay with {REPLAYED}={','.join(map(str, failed))}, and add the seeds to {KEPT.name}:"
    return "\n".join([again, *lines])


def test_legal_histories_are_never_accused(spark: SparkSession) -> None:
    accused = {
        seed: f"{history.name}: {reported(verdict)}, doubts {[doubt.name for doubt in verdict.doubts]}"
        for seed, history, verdict in zip(SEEDS, LEGAL, LEGAL_BATCH.verdicts(spark), strict=True)
        if verdict.status is not Status.PASS
    }
    assert not accused, how_to_go_on(accused)


def test_one_defect_is_always_found_and_nothing_else(spark: SparkSession) -> None:
    judged = DEFECT_BATCH.verdicts(spark)
    wrong = {
        seed: f"{what} in {history.name}: {reported(verdict)} instead of {sorted(kinds)}"
        for seed, (what, history, kinds), verdict in zip(SEEDS, WITH_ONE_DEFECT, judged, strict=True)
        if {finding.kind.value for finding in verdict.findings if finding.condemns} != kinds
    }
    assert not wrong, how_to_go_on(wrong)


def test_a_run_judges_kept_seeds_and_fresh_ones() -> None:
    kept = "# a comment\n7\n\n9  # lost a record\n"
    first, second = (chosen_seeds({}, kept, Random(run)) for run in (1, 2))
    assert first[:2] == second[:2] == [7, 9]
    assert len(first) == len(set(first)) == HISTORIES
    assert not set(first[2:]) & set(second[2:])


def test_kept_seeds_leave_room_for_fresh_ones() -> None:
    kept = "\n".join(map(str, range(5 * HISTORIES)))
    assert len(chosen_seeds({}, kept, Random(1))) == 5 * HISTORIES + HISTORIES // 2


def test_seeds_can_be_replayed() -> None:
    assert chosen_seeds({REPLAYED: "7,100-102"}, "9", Random(1)) == [7, 100, 101, 102]
    run = chosen_seeds({}, "7\n9", Random(1))
    assert chosen_seeds({REPLAYED: as_text(run)}, "", Random(2)) == run


def test_a_failure_says_how_to_replay_it() -> None:
    text = how_to_go_on({7: "AAA: ['lost 1']"})
    assert f"{REPLAYED}=7, and" in text
    assert "  7  # AAA: ['lost 1']" in text
