"""The remote tier: too little proves nothing, findings name the object, and what only takes room is a note."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from harness.verify.checks.tier_retention import Kept, kept_in_tier
from harness.verify.checks.tier_state import Partition, Segment
from suites.verify.checks.tier_cases import CASES, doubtful
from suites.verify.checks.tiers import DELETED, DELETING, FINISHED, SEGMENTS, STARTED, tiered, wrote
from suites.verify.history import Built
from suites.verify.judging import Entered, reported

DOUBTFUL = doubtful()


HISTORIES = {name: history for name, (history, _) in (DOUBTFUL | CASES).items()}
ENTERED = Entered(HISTORIES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(HISTORIES, ENTERED.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_defect_is_named_and_nothing_else(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


@pytest.mark.parametrize("name", DOUBTFUL)
def test_too_little_is_no_pass(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    assert DOUBTFUL[name][1] in {doubt.name for doubt in verdict.doubts}
    assert verdict.status is not Status.PASS
    assert name == "no copy was finished" or verdict.status is Status.INCONCLUSIVE


def test_a_finding_names_the_offsets_the_broker_and_the_object(judged: dict[str, Verdict]) -> None:
    (gap,) = judged["deleted on one broker before it was copied"].findings
    assert (gap.topic, gap.partition, gap.offset_first, gap.offset_last) == ("t", 0, 6, 8)
    assert gap.reader == "broker 2"
    assert "deleted on broker 2" in gap.detail
    (lost,) = judged["an object is missing"].findings
    assert lost.detail == f"{3:020d}-second.log is not there, and the metadata says {FINISHED}"
    details = [finding.detail for finding in judged["the last batch is cut off"].findings]
    assert any("has 200 bytes, and 300 by its metadata" in text for text in details)
    assert any("has offsets 3 to 4, and 3 to 5 by its metadata" in text for text in details)
    (state,) = judged["finished after it was deleted"].findings
    assert state.detail == f"broker 1 wrote {FINISHED} of first, after DELETE_SEGMENT_FINISHED"


def test_what_is_gone_is_told_with_what_the_tier_had_of_it(judged: dict[str, Verdict]) -> None:
    (gone,) = judged["expired by size, one too many"].findings
    assert gone.detail == "the log starts at offset 3, further than anything permits; all had been in the remote tier"
    (gone,) = judged["deleted by size before it was copied"].findings
    assert gone.detail.endswith("; no metadata of the remote tier tells of a finished copy of 3 of these offsets")
    assert (gone.offset_first, gone.offset_last) == (3, 8)


def _segment(id_: str, base: int, end: int, *, newest_ms: int = 0, epoch: int = 0, finished: bool = True) -> Segment:
    """Of 100 bytes a record."""
    reported = [(STARTED, 1, 1), *([(FINISHED, 1, 1)] if finished else [])]
    lineage = ((epoch, base),)
    size_bytes = 100 * (end - base + 1)
    return Segment(
        id_, base, end, size_bytes, newest_ms, lineage, reported=reported, finished_ms=1 if finished else None
    )


@pytest.mark.parametrize(
    ("segments", "until_ms", "kept"),
    [
        ([_segment("a", 0, 9), _segment("b", 10, 19)], None, Kept(1500, 15, 20)),
        ([_segment("a", 0, 9), _segment("b", 10, 19, newest_ms=8)], 7, Kept(500, 5, 10)),
        ([_segment("a", 0, 9), _segment("b", 5, 14)], None, Kept(1000, 10, 15)),
        ([_segment("a", 0, 9), _segment("a again", 0, 9)], None, Kept(500, 5, 10)),
        ([_segment("a", 0, 9), _segment("b", 10, 19, finished=False)], None, Kept(500, 5, 10)),
        ([_segment("a", 0, 9), _segment("b", 10, 19, epoch=7)], None, Kept(500, 5, 10)),
        ([_segment("a", 0, 4)], None, Kept()),
        ([_segment("a", 0, 4, finished=False)], None, None),
        ([], None, None),
    ],
)
def test_what_the_tier_keeps_counts_once_from_the_start_of_the_log(
    segments: list[Segment], until_ms: int | None, kept: Kept | None
) -> None:
    partition = Partition({segment.id: segment for segment in segments})
    partition.replicas.append({"look": "end", "epochs": "0:0"})
    assert kept_in_tier(partition, 5, until_ms) == kept


def test_the_share_that_was_read_from_it_is_told(judged: dict[str, Verdict]) -> None:
    reported = judged["all is in the tier"].facts["read_from_tier"]
    assert 0.85 < reported["records"] / reported["of"] < 1
    assert judged["nobody has a tier"].facts["read_from_tier"] is None
    assert "tiered storage" in judged["nobody has a tier"].not_covered
    assert "tiered storage" not in judged["all is in the tier"].not_covered


TAKES_ROOM = tiered(lambda h: wrote(h, "begun", STARTED, 9, "1:9"))
TAKES_ROOM.copy("tier_objects", {"segment_id": "orphan"}, segment_id="first", look="end")
TAKES_ROOM_ENTERED = Entered([TAKES_ROOM])


def test_what_only_takes_room_is_a_note(spark: SparkSession) -> None:
    (verdict,) = TAKES_ROOM_ENTERED.verdicts(spark)
    assert verdict.status is Status.PASS
    notes = " ".join(verdict.notes)
    assert "1 segments of t-0 have objects in the remote tier that no metadata claims" in notes
    assert "1 copies of t-0 began and were neither finished nor deleted" in notes


def _without_objects(gone: int) -> Built:
    """So many of the segments were deleted from the tier, and none is there."""
    history = tiered(begins=9)
    for segment in list(SEGMENTS)[:gone]:
        wrote(history, segment, DELETING)
        wrote(history, segment, DELETED)
    return history.drop("tier_objects")


WITHOUT_OBJECTS = {gone: Entered([_without_objects(gone)]) for gone in (2, 3)}


@pytest.mark.parametrize(("gone", "doubted"), [(3, False), (2, True)])
def test_only_of_a_topic_that_has_left_the_tier_no_object_is_wanted(
    spark: SparkSession, gone: int, doubted: bool
) -> None:
    (verdict,) = WITHOUT_OBJECTS[gone].verdicts(spark)
    assert any("not one object of t" in doubt.text for doubt in verdict.doubts) is doubted
