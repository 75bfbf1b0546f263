"""Reads that began anywhere, against the drain: what they passed over, were denied or should not have been given."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.edits import contract, run_finished, start_at
from suites.verify.history import MS, RC, RU, START_NS, Built, History
from suites.verify.judging import Entered, reported

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
    """One read from an offset, which was given these; `more` is of its row in `probes`."""
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
    """Five records in a row have one key, and compaction may take all of them but the last. A follower's cleaner was at
    work, and the last record is in a segment of its own."""
    for row in built.tables["ledger"]:
        row["key_hash"] = row["seq"] // 5
    for offset in (1, 2):
        built.drop("batches", broker=2, base_offset=offset)
    built.change("batches", {"segment": 11}, base_offset=11)
    return contract(built, compacted=True)


CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    "from a record": (probed(1, [1, 2, 3, 5]), []),
    "over a marker": (probed(4, [5, 6]), []),
    "over what was aborted": (probed(7, [10, 11, 12][:2]), []),
    "what was aborted too": (probed(7, [7, 8, 10], isolation=RU), []),
    "to the end": (probed(11, [11], reported="end"), []),
    "nothing but the end": (probed(12, [], reported="end", end_offset=12), []),
    "one too late": (probed(2, [3, 5]), ["skipped_read 1"]),
    "two too late": (probed(1, [3, 5]), ["skipped_read 2"]),
    "the first of what was aborted": (probed(7, [8, 10], isolation=RU), ["skipped_read 1"]),
    "a hole": (probed(1, [1, 2, 5]), ["skipped_read 1"]),
    "an end too early": (probed(6, [6, 10], reported="end", end_offset=12), ["skipped_read 1"]),
    "an end, and nothing before": (probed(10, [], reported="end", end_offset=12), ["skipped_read 2"]),
    "no answer": (probed(2, [], reported="silent"), []),
    "few, and no end": (probed(2, [2, 3], reported="silent"), []),
    "a record of an aborted transaction": (probed(6, [6, 7, 10]), ["aborted_read 1"]),
    "two reads of one reader": (probed(5, [5, 6], history=probed(1, [1, 2]), session=1), []),
    "a read backwards, too": (probed(1, [1, 2], history=probed(5, [5, 6]), session=1), []),
    "out of range, and it is there": (probed(2, [], reported="out_of_range"), ["skipped_read 1"]),
    "out of range, and behind the end": (probed(12, [], reported="out_of_range"), []),
    "out of range, and deleted": (
        probed(1, [], reported="out_of_range", log_start=3, log_start_after=3, history=started_at(3)),
        [],
    ),
    "out of range, and deleted meanwhile": (probed(2, [], reported="out_of_range", log_start_after=3), []),
    "from the start on in place of a deleted one": (
        probed(1, [3, 5], log_start=3, log_start_after=3, history=started_at(3)),
        [],
    ),
    "beyond the start": (
        probed(1, [5, 6], log_start=3, log_start_after=3, history=started_at(3)),
        ["skipped_read 1"],
    ),
    "deleted meanwhile": (probed(1, [3, 5], log_start_after=3), []),
    "a deleted one": (
        probed(2, [2, 3, 5], log_start=3, log_start_after=3, history=started_at(3)),
        ["log_start 1"],
    ),
    "over what compaction took": (compacted(probed(1, [3, 5])), []),
    "over the newest of its key": (compacted(probed(5, [6])), ["skipped_read 1"]),
    "the first of a time": (probed(2, [2, 3], why="time", time_ms=START_NS // MS + 3), []),
    "one of before that time": (probed(2, [2, 3], why="time", time_ms=START_NS // MS + 5), ["offset_lookup 1"]),
    "a run that died half way": (run_finished(probed(1, [3, 5]), finished=False), []),
}

ENTERED = Entered(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_read_from_anywhere_is_given_what_is_there_from_there_on(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    if name != "a run that died half way":
        assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


def test_a_finding_says_where_the_read_began_and_what_it_was_not_given(judged: dict[str, Verdict]) -> None:
    (passed,), (denied,), (served,) = (
        judged[name].findings for name in ("two too late", "out of range, and it is there", "a deleted one")
    )
    assert (passed.offset_first, passed.offset_last, passed.seq_first, passed.reader) == (1, 2, 1, "probe")
    assert passed.detail == "a read that began at offset 1 was not given it"
    assert denied.offset_first == 2
    assert denied.detail == "a leader says that it is out of range, and its log starts at offset 0"
    assert served.offset_first == 2
    assert served.detail == "a reader was given it, and the log started at offset 3"
