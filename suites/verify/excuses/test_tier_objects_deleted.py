"""Records that the remote tier alone had, whose objects a step deleted past the brokers. Beside each what just does
not go so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from suites.verify.checks.tiers import FINISHED, STARTED, object_row, tiered, wrote
from suites.verify.edits import contract
from suites.verify.excuses.test_tier_metadata_lost import holed, out_of_range, readable
from suites.verify.history import START_NS, Built
from suites.verify.judging import Entered, reported


def deleted(
    edit: Callable[[Built], Any] = lambda _: None,
    *,
    gone: tuple[int, ...] = (3, 4, 5),
    acked: int = 10,
    declared: bool = True,
    objects: bool = False,
    **event: Any,
) -> Built:
    """A step deleted the second copy after so many acks; at the end nobody is given what it had. objects: they are
    there all the same."""
    built = tiered(holed(*gone) if gone else readable)
    if not objects:
        built.drop("tier_objects", segment_id="second", look="end")
    at_ns = max(row["returned_ns"] for row in built.tables["ledger"][:acked]) + 1
    copy = {"segment_id": "second", "base_offset": 3, "last_offset": 5, "local_start": 9}
    built.event("objects_deleted", **{**copy, "at_ns": at_ns, **event})
    built.run["contract"]["object_deletions"] = [built.steps[0]["name"]] if declared else ["another"]
    edit(built)
    return built


def another_gone(built: Built) -> None:
    """Of a copy that the step left alone."""
    built.drop("tier_objects", segment_id="third", look="end")


def damaged(built: Built) -> None:
    """The log is there, and cut off: that is no deletion."""
    built.tables["tier_objects"].append(object_row("second", 3, "log", "end") | {"last_offset": 4})


def copied_again(built: Built) -> None:
    """A later copy of the same offsets is there, whole: brokers read that."""
    wrote(built, "again", STARTED, 3, "1:3")
    wrote(built, "again", FINISHED)
    built.tables["tier_objects"] += [object_row("again", 3, kind, "end") for kind in KINDS]


def kept_at_the_end(built: Built) -> None:
    """One replica has it, and serves it to nobody."""
    built.change("tier_replicas", {"local_log_start": 3}, broker=1)


def unknown_line(built: Built) -> None:
    built.change("tier_replicas", {"epochs": None}, broker=3)


def exactly(count: int) -> Callable[[Built], None]:
    def edit(built: Built) -> None:
        built.run["contract"]["exact_losses"] = [{"topic": "t", "partition": 0, "count": count}]

    return edit


KINDS = ("log", "index", "timeindex", "leader_epoch_checkpoint", "snapshot")
OBJECTS = ["tier_object 3"] * len(KINDS)
GONE = ["lost 3", *OBJECTS]
CASES: dict[str, tuple[Built, list[str]]] = {
    "what the step deleted is gone": (deleted(), []),
    "it is gone, and brokers have it, too": (deleted(gone=(), local_start=0), []),
    "as many as there had to be": (deleted(exactly(3)), []),
    # --- and what is not that
    "of a step that nobody declared": (deleted(declared=False), GONE),
    "of another partition": (deleted(partition=1), GONE),
    "of another topic": (deleted(topic="u"), GONE),
    "of another copy": (deleted(segment_id="third", base_offset=6, last_offset=8), GONE),
    "the objects are there": (deleted(objects=True), ["lost 3"]),
    "another copy's objects are gone, too": (deleted(another_gone), OBJECTS),
    "a record above is gone, too": (deleted(gone=(3, 4, 5, 6)), ["lost 1"]),
    "a record below is gone, too": (deleted(gone=(2, 3, 4, 5)), ["lost 1"]),
    "another segment's records are gone as well": (deleted(gone=(3, 4, 5, 6, 7, 8)), ["lost 3"]),
    "a broker's own record is gone as well": (deleted(gone=(3, 4, 5, 9)), ["lost 1"]),
    "the step deleted a part": (deleted(last_offset=4), ["lost 1"]),
    "brokers had it themselves": (deleted(local_start=3), ["lost 3"]),
    "brokers had a part of it themselves": (deleted(local_start=5), ["lost 1"]),
    "a broker has it itself": (deleted(kept_at_the_end), ["lost 3"]),
    "another copy of it is there": (deleted(copied_again), ["lost 3"]),
    "nobody knows the epochs of one": (deleted(unknown_line), ["lost 3"]),
    "acknowledged after it was deleted": (deleted(acked=4), ["lost 2"]),
    "more than there had to be": (deleted(exactly(2)), ["lost 1"]),
    "the log is there, cut off": (deleted(damaged), ["lost 3", "tier_object 3"]),
    "of a topic that is in no tier": (contract(deleted(), tiered=False), ["lost 3"]),
}

HOLES: dict[str, tuple[Built, bool]] = {
    "as wide as what is excused": (deleted(), True),
    "wider at its start": (deleted(lambda b: out_of_range(b, 2, 6)), False),
    "wider at its end": (deleted(lambda b: out_of_range(b, 3, 7)), False),
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


QUESTIONS: dict[str, tuple[Built, bool]] = {
    "about the time of the copy": (deleted(asked(20)), True),
    "about a time after what is before it": (deleted(asked(11)), True),
    "about the time of what is before it": (deleted(asked(10)), False),
    "about a time after it": (deleted(asked(21)), False),
    "with another error": (deleted(asked(20, "NOT_LEADER_OR_FOLLOWER")), False),
    "and nobody declared it": (deleted(asked(20), declared=False), False),
}


ENTERED = {
    of: Entered(built for built, _ in histories.values())
    for of, histories in (("cases", CASES), ("holes", HOLES), ("questions", QUESTIONS))
}


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, ENTERED["cases"].verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_what_the_step_deleted_is_excused(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


def test_the_excuse_names_the_cause_and_the_offsets(judged: dict[str, Verdict]) -> None:
    findings = judged["what the step deleted is gone"].findings
    assert [f.kind.value for f in findings].count("tier_object") == len(KINDS)
    assert {(f.offset_first, f.offset_last) for f in findings} == {(3, 5)}
    (why,) = {f.excused_by for f in findings}
    assert why is not None
    assert why.startswith("objects of the tier deleted by hand: the step ")
    assert why.endswith("deleted the copy of offsets 3 to 5 of t/0, and Kafka makes no other")


def test_a_hole_is_a_doubt_but_for_what_is_excused(spark: SparkSession) -> None:
    judged = dict(zip(HOLES, ENTERED["holes"].verdicts(spark), strict=True))
    assert {name: {d.name for d in verdict.doubts} for name, verdict in judged.items()} == {
        name: set() if sound else {"hole"} for name, (_, sound) in HOLES.items()
    }


def test_a_question_that_leads_into_such_a_copy_has_no_answer(spark: SparkSession) -> None:
    judged = dict(zip(QUESTIONS, ENTERED["questions"].verdicts(spark), strict=True))
    assert {name: "lookup_unanswered" in {d.name for d in verdict.doubts} for name, verdict in judged.items()} == {
        name: not sound for name, (_, sound) in QUESTIONS.items()
    }
