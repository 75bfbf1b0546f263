"""Reads that started at arbitrary offsets, compared with the drain."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.edits import contract, run_finished, start_at
from suites.verify.history import MS, RC, RU, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported

# Offset 4 is the marker of a commit, 7 and 8 are aborted, 9 is their marker.
TEXT: Final = "AA(AA)AA[AA]AA"


def probed(
    offset: int,
    given: Collection[int],
    *,
    history: Built | None = None,
    isolation: str = RC,
    session: int = 0,
    **more: Any,
) -> Built:
    """One read from an offset that returned `given`; `more` is part of its row in `probes`."""
    built = history or History(TEXT).build()
    place = {"topic": "t", "topic_id": "T", "partition": 0}
    end = None if more.get("reported", "enough") != "end" else 13
    built.tables["probes"].append(
        place
        | {"reader": "probe", "session": session, "isolation": isolation, "why": "batch", "offset": offset}
        | {"time_ms": None, "log_start": 0, "log_start_after": 0, "records": len(given), "reported": "enough"}
        | {"end_offset": end, "asked_ns": START_NS, "at_ns": START_NS}
        | more
    )
    there = {
        row["offset"]: row
        for row in History(TEXT).build().tables["observations"]
        if (row["kind"], row["isolation"]) == ("drain", RU)
    }
    built.tables["observations"] += [
        there[at] | {"reader": "probe", "kind": "probe", "isolation": isolation, "session": session, "replica": None}
        for at in given
    ]
    return built


def started_at(offset: int) -> Built:
    """The log starts there, by retention."""
    built = History(TEXT).build(start_at(offset))
    built.run["contract"]["topics"]["t"]["retention_bytes"] = 300
    return built


def compacted(built: Built) -> Built:
    """Five consecutive records have one key, and compaction may remove all of them but the last. A follower's
    cleaner has run, and the last record is in a segment of its own."""
    for row in built.tables["ledger"]:
        row["key_hash"] = row["seq"] // 5
    for offset in (1, 2):
        built.drop("batches", broker=2, base_offset=offset)
    built.change("batches", {"segment": 11}, base_offset=11)
    return contract(built, compacted=True)


CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    "from a record": (probed(1, [1, 2, 3, 5]), []),
    "over a marker": (probed(4, [5, 6]), []),
    "over aborted records": (probed(7, [10, 11, 12][:2]), []),
    "aborted records, uncommitted": (probed(7, [7, 8, 10], isolation=RU), []),
    "to the end": (probed(11, [11], reported="end"), []),
    "nothing but the end": (probed(12, [], reported="end", end_offset=12), []),
    "one record too late": (probed(2, [3, 5]), ["skipped_read 1"]),
    "two records too late": (probed(1, [3, 5]), ["skipped_read 2"]),
    "without the first aborted record, uncommitted": (probed(7, [8, 10], isolation=RU), ["skipped_read 1"]),
    "a gap": (probed(1, [1, 2, 5]), ["skipped_read 1"]),
    "the end reported too early": (probed(6, [6, 10], reported="end", end_offset=12), ["skipped_read 1"]),
    "the end reported and no record": (probed(10, [], reported="end", end_offset=12), ["skipped_read 2"]),
    "no answer": (probed(2, [], reported="silent"), []),
    "few records and no end": (probed(2, [2, 3], reported="silent"), []),
    "a record of an aborted transaction": (probed(6, [6, 7, 10]), ["aborted_read 1"]),
    "two reads by one reader": (probed(5, [5, 6], history=probed(1, [1, 2]), session=1), []),
    "two reads by one reader, the second at a lower offset": (
        probed(1, [1, 2], history=probed(5, [5, 6]), session=1),
        [],
    ),
    "out of range, and the record exists": (probed(2, [], reported="out_of_range"), ["skipped_read 1"]),
    "out of range, after the end": (probed(12, [], reported="out_of_range"), []),
    "out of range, and the record was deleted": (
        probed(1, [], reported="out_of_range", log_start=3, log_start_after=3, history=started_at(3)),
        [],
    ),
    "out of range, and the record was deleted meanwhile": (
        probed(2, [], reported="out_of_range", log_start_after=3),
        [],
    ),
    "from the log start on instead of a deleted record": (
        probed(1, [3, 5], log_start=3, log_start_after=3, history=started_at(3)),
        [],
    ),
    "from after the log start instead of a deleted record": (
        probed(1, [5, 6], log_start=3, log_start_after=3, history=started_at(3)),
        ["skipped_read 1"],
    ),
    "records deleted meanwhile": (probed(1, [3, 5], log_start_after=3), []),
    "a deleted record": (
        probed(2, [2, 3, 5], log_start=3, log_start_after=3, history=started_at(3)),
        ["log_start 1"],
    ),
    "over records that compaction removed": (compacted(probed(1, [3, 5])), []),
    "over the newest record of a key": (compacted(probed(5, [6])), ["skipped_read 1"]),
    "the first of a time": (probed(2, [2, 3], why="time", time_ms=START_NS // MS + 3), []),
    "a record from before that time": (probed(2, [2, 3], why="time", time_ms=START_NS // MS + 5), ["offset_lookup 1"]),
    "a run that did not finish": (run_finished(probed(1, [3, 5]), finished=False), []),
}

BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_read_must_return_the_records_from_its_offset_on(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    if name != "a run that did not finish":
        assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


def test_a_finding_names_the_start_of_the_read_and_the_missing_record(judged: dict[str, Verdict]) -> None:
    (passed,), (denied,), (served,) = (
        judged[name].findings
        for name in ("two records too late", "out of range, and the record exists", "a deleted record")
    )
    assert (passed.offset_first, passed.offset_last, passed.seq_first, passed.reader) == (1, 2, 1, "probe")
    assert passed.detail == "a read that started at offset 1 did not return the record"
    assert denied.offset_first == 2
    assert denied.detail == "the leader answered that the record is out of range, and the log starts at offset 0"
    assert served.offset_first == 2
    assert served.detail == "a reader received the record, although the log started at offset 3"
