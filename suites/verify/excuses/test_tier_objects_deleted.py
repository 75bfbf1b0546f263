"""Records that only the remote tier had, after a step deleted their objects; each with near misses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.checks.tier.tiered_history import FINISHED, STARTED, object_row, tiered, wrote
from suites.verify.edits import contract
from suites.verify.excuses.test_tier_metadata_lost import out_of_range, with_hole, without_hole
from suites.verify.history import START_NS, Built
from suites.verify.judging import HistoryBatch, reported


def deleted(
    edit: Callable[[Built], Any] = lambda _: None,
    *,
    gone: tuple[int, ...] = (3, 4, 5),
    acked: int = 10,
    declared: bool = True,
    objects: bool = False,
    **event: Any,
) -> Built:
    """A step deleted the second copy after this many acknowledgements; at the end no reader receives its offsets.
    objects: they exist all the same."""
    built = tiered(with_hole(*gone) if gone else without_hole)
    if not objects:
        built.drop("tier_objects", segment_id="second", look="end")
    at_ns = max(row["returned_ns"] for row in built.tables["ledger"][:acked]) + 1
    copy = {"segment_id": "second", "base_offset": 3, "last_offset": 5, "local_start": 9}
    built.event("objects_deleted", **{**copy, "at_ns": at_ns, **event})
    built.run["contract"]["object_deletions"] = [built.steps[0]["name"]] if declared else ["another"]
    edit(built)
    return built


def other_copy_missing(built: Built) -> None:
    """Objects of a copy that the step did not delete are missing."""
    built.drop("tier_objects", segment_id="third", look="end")


def damaged(built: Built) -> None:
    """The log exists and is truncated: that is no deletion."""
    built.tables["tier_objects"].append(object_row("second", 3, "log", "end") | {"last_offset": 4})


def copied_again(built: Built) -> None:
    """A later complete copy of the same offsets exists: brokers read that one."""
    wrote(built, "again", STARTED, 3, "1:3")
    wrote(built, "again", FINISHED)
    built.tables["tier_objects"] += [object_row("again", 3, kind, "end") for kind in KINDS]


def kept_by_one_broker(built: Built) -> None:
    """One replica has it locally, and no reader receives it."""
    built.change("tier_replicas", {"local_log_start": 3}, broker=1)


def unknown_lineage(built: Built) -> None:
    built.change("tier_replicas", {"epochs": None}, broker=3)


def exactly(count: int) -> Callable[[Built], None]:
    def edit(built: Built) -> None:
        built.run["contract"]["exact_losses"] = [{"topic": "t", "partition": 0, "count": count}]

    return edit


KINDS = ("log", "index", "timeindex", "leader_epoch_checkpoint", "snapshot")
OBJECTS = ["tier_object 3"] * len(KINDS)
LOST = ["lost 3", *OBJECTS]
CASES: dict[str, tuple[Built, list[str]]] = {
    "the deleted copy's records are lost": (deleted(), []),
    "the copy was deleted, and brokers have its records": (deleted(gone=(), local_start=0), []),
    "exactly the exact number of losses": (deleted(exactly(3)), []),
    # --- near misses
    "an undeclared step": (deleted(declared=False), LOST),
    "a deletion of another partition": (deleted(partition=1), LOST),
    "a deletion of another topic": (deleted(topic="u"), LOST),
    "a deletion of another copy": (deleted(segment_id="third", base_offset=6, last_offset=8), LOST),
    "the objects exist": (deleted(objects=True), ["lost 3"]),
    "another copy's objects are missing, too": (deleted(other_copy_missing), OBJECTS),
    "a record above is lost, too": (deleted(gone=(3, 4, 5, 6)), ["lost 1"]),
    "a record below is lost, too": (deleted(gone=(2, 3, 4, 5)), ["lost 1"]),
    "another segment's records are lost as well": (deleted(gone=(3, 4, 5, 6, 7, 8)), ["lost 3"]),
    "a record of the brokers is lost as well": (deleted(gone=(3, 4, 5, 9)), ["lost 1"]),
    "the step deleted a part of the copy": (deleted(last_offset=4), ["lost 1"]),
    "brokers had the records locally": (deleted(local_start=3), ["lost 3"]),
    "brokers had a part of the records locally": (deleted(local_start=5), ["lost 1"]),
    "one broker has the records locally": (deleted(kept_by_one_broker), ["lost 3"]),
    "another copy exists": (deleted(copied_again), ["lost 3"]),
    "the epochs of one replica are unknown": (deleted(unknown_lineage), ["lost 3"]),
    "acknowledged after it was deleted": (deleted(acked=4), ["lost 2"]),
    "more losses than the exact number": (deleted(exactly(2)), ["lost 1"]),
    "the log object exists, truncated": (deleted(damaged), ["lost 3", "tier_object 3"]),
    "a topic that is not tiered": (contract(deleted(), tiered=False), ["lost 3"]),
}

HOLES: dict[str, tuple[Built, bool]] = {
    "a hole of exactly the excused offsets": (deleted(), True),
    "a hole that starts earlier": (deleted(lambda b: out_of_range(b, 2, 6)), False),
    "a hole that ends later": (deleted(lambda b: out_of_range(b, 3, 7)), False),
}


def asked(time_ms: int, error: str = "UNKNOWN_SERVER_ERROR", **more: Any) -> Callable[[Built], None]:
    """A leader failed to answer about that time; the copies' newest timestamps are 10, 20 and 30."""

    def edit(built: Built) -> None:
        for segment, newest_ms in (("first", 10), ("second", 20), ("third", 30)):
            built.change("tier_metadata", {"max_timestamp_ms": newest_ms}, segment_id=segment, state=STARTED)
        place = {"topic": "t", "topic_id": "T", "partition": 0}
        answer = {"asked_ns": START_NS, "offset": None, "timestamp_ms": None, "leader_epoch": None, "error": error}
        built.tables["lookups"].append({**place, **answer, "time_ms": time_ms, **more})

    return edit


LOOKUPS: dict[str, tuple[Built, bool]] = {
    "the time of the copy": (deleted(asked(20)), True),
    "a time after the copy before it": (deleted(asked(11)), True),
    "the time of the copy before it": (deleted(asked(10)), False),
    "a time after the copy": (deleted(asked(21)), False),
    "another error": (deleted(asked(20, "NOT_LEADER_OR_FOLLOWER")), False),
    "an undeclared deletion": (deleted(asked(20), declared=False), False),
}


BATCH = {
    of: HistoryBatch(built for built, _ in histories.values())
    for of, histories in (("cases", CASES), ("holes", HOLES), ("questions", LOOKUPS))
}


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH["cases"].verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_what_the_step_deleted_is_excused(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


def test_the_excuse_names_the_step_and_the_offsets(judged: dict[str, Verdict]) -> None:
    findings = judged["the deleted copy's records are lost"].findings
    assert [f.kind.value for f in findings].count("tier_object") == len(KINDS)
    assert {(f.offset_first, f.offset_last) for f in findings} == {(3, 5)}
    (why,) = {f.excused_by for f in findings}
    assert why is not None
    assert why.startswith("objects of the tier deleted by hand: the step ")
    assert why.endswith("deleted the copy of offsets 3 to 5 of t/0, and Kafka does not copy it again")


def test_a_hole_is_a_doubt_unless_it_is_excused(spark: SparkSession) -> None:
    judged = dict(zip(HOLES, BATCH["holes"].verdicts(spark), strict=True))
    assert {name: {d.name for d in verdict.doubts} for name, verdict in judged.items()} == {
        name: set() if sound else {"hole"} for name, (_, sound) in HOLES.items()
    }


def test_a_lookup_that_needs_a_deleted_copy_is_no_doubt(spark: SparkSession) -> None:
    judged = dict(zip(LOOKUPS, BATCH["questions"].verdicts(spark), strict=True))
    assert {name: "lookup_unanswered" in {d.name for d in verdict.doubts} for name, verdict in judged.items()} == {
        name: not sound for name, (_, sound) in LOOKUPS.items()
    }
