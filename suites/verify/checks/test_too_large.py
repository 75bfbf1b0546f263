"""Batches on disks beside max.message.bytes of their topic; each with near misses."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.edits import contract
from suites.verify.history import Built, History
from suites.verify.judging import HistoryBatch, reported

LIMIT = 2000


def batch(size: int = LIMIT + 1, *, key: str = "max.message.bytes", **contracted: Any) -> Built:
    """A topic with a limit of its own, and one batch of this size."""
    built = contract(History("AAAA").build(), **contracted)
    built.scenario["topics"] = [{"name": "t", "config": {key: str(LIMIT)}}]
    built.change("batches", {"size_bytes": 100})
    return built.change("batches", {"size_bytes": size}, base_offset=2)


def changed(topic: str, key: str = "max.message.bytes") -> Built:
    built = batch()
    step = built.steps[0]
    at = {"from_ns": step["started_ns"], "to_ns": step["ended_ns"], "config": {key: "9000"}}
    built.steps.append(step | {"name": "alter", "is_fault": False, "effect": None, "do": "alter_topic"})
    built.steps[-1]["facts"] = [{"kind": "config_set", "topic": topic} | at]
    return built


CASES: dict[str, tuple[Built, list[str]]] = {
    "larger": (batch(), ["too_large 1"]),
    "as large": (batch(LIMIT), []),
    "a topic without a limit of its own": (batch(key="segment.ms"), []),
    "a marker": (
        batch(LIMIT).change("batches", {"control": "commit", "size_bytes": LIMIT + 1}, base_offset=3),
        [],
    ),
    "a compacted topic": (batch(compacted=True), []),
    "a step changed the limit": (changed("t"), []),
    "a step changed that of another topic": (changed("other"), ["too_large 1"]),
    "a step changed another setting": (changed("t", "flush.ms"), ["too_large 1"]),
    "a step changed a default of brokers": (changed("", "message.max.bytes"), ["too_large 1"]),
}
BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_batch_that_the_topic_does_not_permit_is_a_finding(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


def test_the_finding_names_the_batch_and_its_size(judged: dict[str, Verdict]) -> None:
    (found,) = judged["larger"].findings
    assert (found.offset_first, found.offset_last) == (2, 2)
    assert found.detail == (
        "the batch that begins with this record has 2,001 bytes on the disk, more than max.message.bytes"
    )
