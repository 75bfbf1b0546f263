"""Timestamps to the millisecond, and the batches on disk, compared with what was reported and declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.edits import contract
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

TEXT: Final = "AAAAAA"


def timed(kind: str = "create", *, of: str = "create", by_ms: Mapping[int, int] | None = None) -> Built:
    """Every record's exact timestamp was reported with a type, except for these; the topic's type is `of`."""
    built = contract(History(TEXT).build(), timestamp_type=of)
    built.run["timestamps"] = "send"
    for row in built.tables["batches"]:
        row["timestamp_type"] = of
    for row in built.tables["ledger"]:
        at_ms = START_NS // MS + 1 + row["offset"]
        row |= {"timestamp_type": kind, "timestamp_ms": at_ms + (by_ms or {}).get(row["offset"], 0)}
    return built


def with_codec(
    declared: str,
    found: str = "gzip",
    *,
    offset: int | None = 3,
    steps: tuple[str, ...] = (),
    do: str = "alter_topic",
    topic: str = "t",
    own: str | None = None,
) -> Built:
    """A topic with batches of one codec, except for one batch. `steps` are settings that a step changed, `own` is one
    with which the topic was created."""
    built = contract(History(TEXT).build(), codec=declared)
    if own:
        built.scenario["topics"] = [{"name": "t", "config": {own: "zstd"}}]
    for row in built.tables["batches"]:
        row["codec"] = found if row["base_offset"] == offset else "zstd"
    step = built.steps[0]
    for key in steps:
        more = {"name": "turn", "do": do, "args": {"topic": topic, "config": {key: "gzip"}}}
        built.steps.append(step | more | {"is_fault": False, "effect": None})
    return built


def with_append_times(*at_ms: int, elected_at: int | None = None, of: str = "append", **event: Any) -> Built:
    """The LogAppendTime of its batches, in order, in ms after the start. elected_at: where another leader began."""

    def elect(history: History) -> None:
        history.lineage[0] += [] if elected_at is None else [[1, elected_at]]

    built = contract(History(TEXT).build(elect), timestamp_type=of)
    for row in built.tables["batches"]:
        at = row["base_offset"]
        row |= {"timestamp_type": of, "max_timestamp_ms": START_NS // MS + at_ms[at]}
    return built.event("clock", nodes=[1], **event) if event else built


BACK: Final = (1000, 2000, 3000, 1500, 3001, 3002)

CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    "as reported": (timed(), []),
    "one millisecond off": (timed(by_ms={2: 1}), ["corrupt 1"]),
    "two records one millisecond off": (timed(by_ms={2: 1, 4: -1}), ["corrupt 1", "corrupt 1"]),
    "as the leader reported": (timed("append", of="append"), []),
    "one millisecond off the leader's report": (timed("append", of="append", by_ms={5: 1}), ["corrupt 1"]),
    "the leader reported no time": (timed("create", of="append", by_ms={5: 100}), []),
    "a record without a reported time": (timed(by_ms={2: 1}).change("ledger", {"timestamp_ms": None}, offset=2), []),
    "another codec": (with_codec("zstd"), ["corrupt 1"]),
    "the declared codec": (with_codec("gzip", offset=None).change("batches", {"codec": "gzip"}), []),
    "the producer's codec": (with_codec("producer"), []),
    "uncompressed as declared": (
        with_codec("uncompressed", "none").change("batches", {"codec": "none"}),
        [],
    ),
    "uncompressed, and another codec is declared": (with_codec("zstd", "none"), ["corrupt 1"]),
    "an older codec, and a step changed it": (with_codec("zstd", steps=("compression.type",)), []),
    "another codec, and a step changed another setting": (with_codec("zstd", steps=("flush.ms",)), ["corrupt 1"]),
    "another codec, and a step toggled it": (
        with_codec("zstd", steps=("compression.type",), do="reconfigure"),
        [],
    ),
    "another codec, and a step toggled it for all topics": (
        with_codec("zstd", steps=("compression.type",), do="reconfigure", topic=""),
        [],
    ),
    "another codec than the topic's own, and a step toggled it for all topics": (
        with_codec("zstd", steps=("compression.type",), do="reconfigure", topic="", own="compression.type"),
        ["corrupt 1"],
    ),
    "another codec than the topic's own, and a step toggled that": (
        with_codec("zstd", steps=("compression.type",), do="reconfigure", own="compression.type"),
        [],
    ),
    "another codec, and a step toggled it for all topics, of which one has another setting": (
        with_codec("zstd", steps=("compression.type",), do="reconfigure", topic="", own="flush.ms"),
        [],
    ),
    "another codec, and a step toggled it for another topic": (
        with_codec("zstd", steps=("compression.type",), do="reconfigure", topic="other"),
        ["corrupt 1"],
    ),
    "an uncompressed control batch": (
        with_codec("zstd", "none").change("batches", {"control": "commit"}, base_offset=3),
        [],
    ),
    "times that go back": (with_append_times(*BACK), ["corrupt 1"]),
    "times that increase": (with_append_times(*sorted(BACK)), []),
    "times that go back by less than clocks differ": (with_append_times(1000, 2000, 3000, 2600, 3001, 3002), []),
    "times of another leader that go back": (with_append_times(*BACK, elected_at=3), []),
    "client times that go back": (with_append_times(*BACK, of="create"), []),
    "times that go back after a clock was set": (with_append_times(*BACK, jump_ms=-2000, rate=1.0), []),
}

BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_difference_is_found_and_nothing_else(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


def test_findings_report_the_difference(judged: dict[str, Verdict]) -> None:
    names = ("one millisecond off", "another codec", "times that go back")
    (off,), (codec,), (back,) = (judged[name].findings for name in names)
    assert (off.offset_first, off.seq_first) == (2, 2)
    assert off.detail == (
        "the record's timestamp is not the one that the client set or the leader reported: "
        f"timestamp {START_NS // MS + 4} ms"
    )
    assert codec.offset_first == back.offset_first == 3
    assert codec.detail == "the record's batch on disk has another codec than the topic's compression.type"
    assert back.detail == (
        f"the record's batch is older than a batch before it in the log, which has timestamp {START_NS // MS + 3000} ms"
    )
