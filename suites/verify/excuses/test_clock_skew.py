"""A broker clock that a step set wrong excuses LogAppendTime timestamps, as far as it was wrong and while it was."""

from __future__ import annotations

from typing import TypedDict, Unpack

import pytest
from pyspark.sql import SparkSession

from harness.model.clock import CLOCKS_MS
from harness.workload.producers.produce_arguments import UNORDERED_MS
from suites.verify.edits import contract
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

TEN_MINUTES_MS = 600_000


class Times(TypedDict, total=False):
    started_ns: int
    ended_ns: int
    healed_ns: int


def off(
    by_ms: int, *, kind: str = "append", jump_ms: int | None = None, rate: float = 1.0, **step: Unpack[Times]
) -> Built:
    """Two records with timestamps that are off by this much; meanwhile a clock was set by `jump_ms`, unless that is
    None."""
    built = contract(History("AA").build(), timestamp_type=kind)
    built.run["timestamps"] = "send"
    for row in built.tables["observations"]:
        row["timestamp_ms"] += by_ms
    for row in built.tables["batches"]:
        row["timestamp_type"] = kind
        row["max_timestamp_ms"] += by_ms
    if jump_ms is not None:
        event = {"kind": "clock", "nodes": [1], "jump_ms": jump_ms, "rate": rate, "at_ns": built.steps[0]["started_ns"]}
        built.steps[0]["events"].append(event)
        built.steps[0].update(step)
    return built


def backdated(by_ms: int, built: Built) -> Built:
    """Its producers backdate their records by this much."""
    for producer in built.run["contract"]["producers"].values():
        producer["backdated_ms"] = by_ms
    return built


def deleted_young(ahead_ms: int) -> Built:
    """The log starts after its first record, which is younger than the topic's retention by the harness's clock."""
    built = History("A.A").build(lambda history: history.starts.__setitem__(0, 1))
    built = contract(built, retention_ms=TEN_MINUTES_MS)
    built.event("clock", nodes=[1], jump_ms=ahead_ms, rate=1.0)
    return built


BEFORE: Times = {
    "started_ns": START_NS - 60_000 * MS,
    "ended_ns": START_NS - 59_000 * MS,
    "healed_ns": START_NS - 50_000 * MS,
}
LONG: Times = {"healed_ns": START_NS + 100_000 * MS}

# name -> (history, what condemns)
CASES: dict[str, tuple[Built, list[str]]] = {
    "LogAppendTime of a correct clock": (off(0), []),
    "LogAppendTime of a clock that is ahead": (off(TEN_MINUTES_MS, jump_ms=TEN_MINUTES_MS), []),
    "LogAppendTime of a clock that is behind": (off(-TEN_MINUTES_MS, jump_ms=-TEN_MINUTES_MS), []),
    "LogAppendTime of another broker's correct clock": (off(0, jump_ms=TEN_MINUTES_MS), []),
    "LogAppendTime of a clock that is too fast": (off(9_000, jump_ms=0, rate=1.1, **LONG), []),
    "farther ahead than the clock was": (off(TEN_MINUTES_MS + 5_000, jump_ms=TEN_MINUTES_MS), ["corrupt 2"]),
    "behind where the clock was ahead": (off(-TEN_MINUTES_MS, jump_ms=TEN_MINUTES_MS), ["corrupt 2"]),
    "farther ahead than the fast clock": (off(15_000, jump_ms=0, rate=1.1, **LONG), ["corrupt 2"]),
    "ahead without any step": (off(TEN_MINUTES_MS), ["corrupt 2"]),
    "ahead after the clock was corrected": (off(TEN_MINUTES_MS, jump_ms=TEN_MINUTES_MS, **BEFORE), ["corrupt 2"]),
    "CreateTime does not come from the broker's clock": (
        off(TEN_MINUTES_MS, kind="create", jump_ms=TEN_MINUTES_MS),
        ["corrupt 2"],
    ),
    "backdated by its producer": (backdated(TEN_MINUTES_MS, off(-TEN_MINUTES_MS, kind="create")), []),
    "farther back than its producer backdates": (backdated(5_000, off(-TEN_MINUTES_MS, kind="create")), ["corrupt 2"]),
    "not backdated, although its producer backdates": (backdated(TEN_MINUTES_MS, off(0, kind="create")), ["corrupt 2"]),
    "backdated by its producer, with correct LogAppendTime": (backdated(TEN_MINUTES_MS, off(0)), []),
    "backdated by its producer, and LogAppendTime is as old": (
        backdated(TEN_MINUTES_MS, off(-TEN_MINUTES_MS)),
        ["corrupt 2"],
    ),
    "retention by a clock that is ahead": (deleted_young(2 * TEN_MINUTES_MS), []),
    "retention by a clock that is not ahead enough": (deleted_young(1_000), ["log_start 1"]),
    "retention by a clock that is behind": (deleted_young(-TEN_MINUTES_MS), ["log_start 1"]),
}


BATCH = HistoryBatch(built for built, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, list[str]]:
    return {name: reported(verdict) for name, verdict in zip(CASES, BATCH.verdicts(spark), strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_clock_excuses_only_its_own_error(judged: dict[str, list[str]], name: str) -> None:
    assert judged[name] == CASES[name][1]


def test_the_disorder_of_backdated_records_is_less_than_clocks_may_differ() -> None:
    assert UNORDERED_MS < CLOCKS_MS
