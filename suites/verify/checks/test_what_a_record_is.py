"""Times to the millisecond, and how batches stand on disk: whatever differs from what was told or declared is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.edits import contract
from suites.verify.history import MS, START_NS, Built, History
from suites.verify.judging import Entered, reported

TEXT: Final = "AAAAAA"


def timed(kind: str = "create", *, of: str = "create", by_ms: Mapping[int, int] | None = None) -> Built:
    """Every record's time was reported as being of a kind, exactly, but for these; the topic has times `of` a kind."""
    built = contract(History(TEXT).build(), timestamp_type=of)
    built.run["timestamps"] = "send"
    for row in built.tables["batches"]:
        row["timestamp_type"] = of
    for row in built.tables["ledger"]:
        at_ms = START_NS // MS + 1 + row["offset"]
        row |= {"timestamp_type": kind, "timestamp_ms": at_ms + (by_ms or {}).get(row["offset"], 0)}
    return built


def packed(declared: str, found: str = "gzip", *, offset: int | None = 3, steps: tuple[str, ...] = ()) -> Built:
    """A topic whose batches stand in a codec, but for one."""
    built = contract(History(TEXT).build(), codec=declared)
    for row in built.tables["batches"]:
        row["codec"] = found if row["base_offset"] == offset else "zstd"
    step = built.steps[0]
    for key in steps:
        more = {"name": "turn", "do": "alter_topic", "args": {"topic": "t", "config": {key: "gzip"}}}
        built.steps.append(step | more | {"is_fault": False, "effect": None})
    return built


def own_times(*at_ms: int, epoch: Mapping[int, int] | None = None, of: str = "append", **event: Any) -> Built:
    """The log's own times of its batches, in order, as milliseconds after the start."""
    built = contract(History(TEXT).build(), timestamp_type=of)
    for row in built.tables["batches"]:
        at = row["base_offset"]
        more = {"timestamp_type": of, "leader_epoch": (epoch or {}).get(at, 0)}
        row |= more | {"max_timestamp_ms": START_NS // MS + at_ms[at]}
    return built.event("clock", **event) if event else built


BACK: Final = (1000, 2000, 3000, 1500, 3001, 3002)

CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    "as reported": (timed(), []),
    "one millisecond off": (timed(by_ms={2: 1}), ["corrupt 1"]),
    "two of them": (timed(by_ms={2: 1, 4: -1}), ["corrupt 1", "corrupt 1"]),
    "as the leader told": (timed("append", of="append"), []),
    "otherwise than the leader told": (timed("append", of="append", by_ms={5: 1}), ["corrupt 1"]),
    "the leader told none": (timed("create", of="append", by_ms={5: 100}), []),
    "some were not reported": (timed(by_ms={2: 1}).change("ledger", {"timestamp_ms": None}, offset=2), []),
    "another codec": (packed("zstd"), ["corrupt 1"]),
    "the codec": (packed("gzip", offset=None).change("batches", {"codec": "gzip"}), []),
    "as it came": (packed("producer"), []),
    "not at all": (packed("uncompressed", "none").change("batches", {"codec": "none"}), []),
    "uncompressed": (packed("zstd", "none"), ["corrupt 1"]),
    "an older one": (packed("zstd", steps=("compression.type",)), []),
    "another setting was changed": (packed("zstd", steps=("flush.ms",)), ["corrupt 1"]),
    "a control batch": (packed("zstd", "none").change("batches", {"control": "commit"}, base_offset=3), []),
    "times go back": (own_times(*BACK), ["corrupt 1"]),
    "times go on": (own_times(*sorted(BACK)), []),
    "times go back a little": (own_times(1000, 2000, 3000, 2600, 3001, 3002), []),
    "of another leader": (own_times(*BACK, epoch={3: 1, 4: 1, 5: 1}), []),
    "times of clients": (own_times(*BACK, of="create"), []),
    "a clock was set": (own_times(*BACK, jump_ms=-2000, rate=1.0), []),
}

ENTERED = Entered(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_is_named_and_nothing_else(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


def test_findings_say_what_was_there(judged: dict[str, Verdict]) -> None:
    names = ("one millisecond off", "another codec", "times go back")
    (off,), (packing,), (back,) = (judged[name].findings for name in names)
    assert (off.offset_first, off.seq_first) == (2, 2)
    assert off.detail == f"not of the time that it was sent with, timestamp {START_NS // MS + 4} ms"
    assert packing.offset_first == back.offset_first == 3
    assert packing.detail == "batches on disk are packed otherwise than the topic's compression.type says"
    assert back.detail == f"of before a batch in front of it, timestamp {START_NS // MS + 3000} ms"
