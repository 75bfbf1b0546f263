"""The remote tier: legal states, defects, doubts and notes."""

from __future__ import annotations

from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from harness.verify.checks.tier.retention import Kept, kept_in_tier
from harness.verify.checks.tier.state import Partition, ReplicaLook, Segment
from suites.verify.checks.tier.tiered_history import (
    DELETED,
    DELETING,
    FINISHED,
    KINDS,
    SEGMENTS,
    STARTED,
    Edit,
    object_row,
    tiered,
    wrote,
)
from suites.verify.edits import contract
from suites.verify.history import START_NS, Built
from suites.verify.judging import HistoryBatch, reported


def _objects(to: dict[str, Any], **wanted: Any) -> Edit:
    return lambda history: history.change("tier_objects", to, **wanted)


def _without(table: str, **wanted: Any) -> Edit:
    return lambda history: history.drop(table, **wanted)


def _and(*edits: Edit) -> Edit:
    return lambda history: [edit(history) for edit in edits]


def _writes(*states: str, segment: str = "third", broker: int = 1, read: int = 1) -> Edit:
    def edit(history: Built) -> None:
        for state in states:
            wrote(history, segment, state, broker=broker, read=read)

    return edit


def _no_copy(segment: str) -> Edit:
    """Removes the segment from the tier, as if it had never been copied."""
    return _and(_without("tier_metadata", segment_id=segment), _without("tier_objects", segment_id=segment))


# An older leader's complete copy of records from offset 3 on that were truncated later.
def _older_leaders_copy(history: Built) -> None:
    wrote(history, "abandoned", STARTED, 3, "0:3", broker=2)
    wrote(history, "abandoned", FINISHED, broker=2)
    history.tables["tier_objects"] += [object_row("abandoned", 3, kind, "end") for kind in KINDS]


def _nine_failed_copies(history: Built) -> None:
    for n in range(9):
        wrote(history, f"failed {n}", STARTED, 9, "1:9")


def _second_copy(history: Built, like: str) -> None:
    """Another copy of the second segment, with objects like those of `like`."""
    wrote(history, "twin", STARTED, 3, "1:3")
    wrote(history, "twin", FINISHED)
    objects = [object_row("twin", 3, kind, "end") | {"sha256": f"{like} {kind}"} for kind in KINDS]
    history.tables["tier_objects"] += objects


def _partition_deleted(history: Built) -> None:
    wrote(history, "x", "DELETE_PARTITION_MARKED")
    history.tables["tier_metadata"][-1].update(kind="partition_delete", segment_id=None)


def _local(to: int, **wanted: Any) -> Edit:
    """Brokers have the log from there on, and report everything before as tiered."""
    to_there = {"local_log_start": to, "highest_tiered": to - 1}
    return lambda history: history.change("tier_replicas", to_there, **wanted)


def _says(highest: int | None, **wanted: Any) -> Edit:
    return lambda history: history.change("tier_replicas", {"highest_tiered": highest}, look="end", **wanted)


def _of_deleted_topic(segment: str) -> Edit:
    return lambda history: history.change("tier_metadata", {"topic_id": "before"}, segment_id=segment)


def _starts(at: int, **wanted: Any) -> Edit:
    return lambda history: history.change("tier_replicas", {"log_start": at}, look="end", **wanted)


def _first_segment_expired(keep_bytes: int, edit: Edit = lambda _: None) -> Built:
    """The first segment was deleted by size: 600 bytes are left in the tier, 100 only on the brokers."""
    gone = _and(
        _writes(DELETING, DELETED, segment="first"),
        _without("tier_objects", segment_id="first", look="end"),
        lambda history: [history.drop("batches", base_offset=offset) for offset in range(3, 9)],
    )
    return contract(tiered(_and(gone, edit), begins=3), retention_bytes=keep_bytes)


def _all_remote_deleted(history: Built) -> None:
    """The tier has deleted everything that was copied."""
    for segment in ("first", "second"):
        wrote(history, segment, DELETING)
        wrote(history, segment, DELETED)
        history.drop("tier_objects", segment_id=segment, look="end")


_OF_SECOND: Final = {"segment_id": "second", "kind": "log"}
CASES: Final[dict[str, tuple[Built, list[str]]]] = {
    # --- legal
    "all is in the tier": (tiered(), []),
    "a copy of another leader overlaps": (tiered(_older_leaders_copy), []),
    "two copies of the same epoch": (tiered(lambda h: _second_copy(h, "second")), []),
    "a follower that is ahead of its leader, and all is in the tier": (tiered(lambda h: _starts(6, broker=2)(h)), []),
    "deleted locally soon after its copy was finished": (
        tiered(lambda h: h.change("tier_replicas", {"looked_ns": START_NS - 10**9}, look="loaded")),
        [],
    ),
    "an unfinished copy needs no objects": (
        tiered(_and(lambda h: wrote(h, "begun", STARTED, 9, "1:9"), _without("tier_objects", look="loaded"))),
        [],
    ),
    "not copied, and still on the brokers": (tiered(_and(_no_copy("third"), _local(6))), []),
    "copied, and a broker does not know it yet": (tiered(_and(_local(6), _says(2, broker=2))), []),
    "copied, and still on the brokers": (tiered(_and(_local(3, look="end"), _says(8))), []),
    "a release that does not report the highest tiered offset": (
        tiered(_and(_no_copy("third"), _local(6), _says(None))),
        [],
    ),
    "its deletion started during the look": (
        tiered(_and(_writes(DELETING, read=2), _without("tier_objects", segment_id="third", look="end"))),
        [],
    ),
    "deleted, and the log starts after it": (
        tiered(
            _and(
                _writes(DELETING, DELETED, segment="first"),
                _without("tier_objects", segment_id="first", look="end"),
                _starts(3),
            )
        ),
        [],
    ),
    "a leader that applied retention before its followers": (
        tiered(
            _and(
                _writes(DELETING, DELETED, segment="first"),
                _without("tier_objects", segment_id="first", look="end"),
                _starts(3, broker=1),
            )
        ),
        [],
    ),
    "the records of two leaders cross": (
        tiered(_and(_writes(DELETING, segment="first", broker=2), _writes(FINISHED, segment="first"), _starts(3))),
        [],
    ),
    "a deleted topic of the same name": (
        tiered(_and(_writes(STARTED, FINISHED, segment="old"), _of_deleted_topic("old"))),
        [],
    ),
    "no topic is tiered": (contract(tiered(_no_copy("second")), tiered=False), []),
    "no segment has an index of transactions": (
        tiered(lambda h: h.change("tier_metadata", {"txn_index_empty": True}, kind="segment")),
        [],
    ),
    "a repeated state": (tiered(_writes(FINISHED)), []),
    "an object from before its copy was finished": (
        tiered(_objects({"sha256": "half", "looked_ns": START_NS}, look="loaded")),
        [],
    ),
    "expired by size, and what is left is in both": (_first_segment_expired(700), []),
    "an incomplete copy, and a later complete one of the same offsets": (
        tiered(_and(lambda h: _second_copy(h, "second"), _without("tier_objects", **_OF_SECOND, look="end"))),
        [],
    ),
    # --- log_start
    "expired by size, one too many": (_first_segment_expired(701), ["log_start 1"]),
    "expired by size, and one segment was copied twice": (
        _first_segment_expired(701, lambda h: _second_copy(h, "second")),
        ["log_start 1"],
    ),
    "expired by size, and unfinished copies were counted": (
        _first_segment_expired(701, _nine_failed_copies),
        ["log_start 1"],
    ),
    "expired by size, and another leader's copy was counted": (
        _first_segment_expired(900, _older_leaders_copy),
        ["log_start 2"],
    ),
    "deleted by size before it was copied": (
        contract(tiered(_and(_no_copy("third"), _all_remote_deleted), begins=9), retention_bytes=700),
        ["log_start 6"],
    ),
    # --- tier_gap
    "never copied": (tiered(_no_copy("second")), ["tier_gap 3"]),
    "copied up to the middle": (
        tiered(lambda h: h.change("tier_metadata", {"end_offset": 4}, segment_id="second", kind="segment")),
        ["tier_gap 1", "tier_object 2"],
    ),
    "deleted on one broker before it was copied": (
        tiered(_and(_no_copy("third"), _local(6), _local(9, broker=2, look="end"))),
        ["tier_gap 3"],
    ),
    "deleted in the tier before the log started after it": (
        tiered(_and(_writes(DELETING, DELETED), _without("tier_objects", segment_id="third", look="end"))),
        ["tier_gap 3"],
    ),
    "a copy of an epoch that is not the log's": (
        tiered(_and(_no_copy("second"), _older_leaders_copy)),
        ["tier_gap 3"],
    ),
    "a copy that was started and never finished": (
        tiered(_without("tier_metadata", segment_id="second", state=FINISHED)),
        ["tier_gap 3"],
    ),
    "never copied, and a follower is ahead of its leader": (
        tiered(_and(_no_copy("second"), _starts(6, broker=2))),
        ["tier_gap 3"],
    ),
    "never copied, and the partition is marked as deleted": (
        tiered(_and(_no_copy("second"), _partition_deleted)),
        ["tier_gap 3"],
    ),
    "deleted locally long before its copy was finished": (
        tiered(lambda h: h.change("tier_replicas", {"looked_ns": START_NS - 10**10}, look="loaded")),
        ["tier_gap 9"],
    ),
    "reported as tiered by one broker, and never copied": (
        tiered(_and(_no_copy("third"), _local(6), _says(8, broker=2))),
        ["tier_gap 3"],
    ),
    "reported as tiered, and copied up to the middle": (
        tiered(
            _and(
                _local(6),
                _says(8),
                lambda h: h.change("tier_metadata", {"end_offset": 7}, segment_id="third", kind="segment"),
            )
        ),
        ["tier_gap 1", "tier_object 2"],
    ),
    "reported as tiered, because of another leader's copy": (
        tiered(_and(_no_copy("second"), _no_copy("third"), _local(3), _older_leaders_copy, _says(5, broker=1))),
        ["tier_gap 3"],
    ),
    # --- tier_object
    "a finished copy without objects": (
        tiered(_and(lambda h: wrote(h, "twice", STARTED, 3, "1:3"), _writes(FINISHED, segment="twice"))),
        ["tier_object 3"] * len(KINDS),
    ),
    "two copies of the same epoch that differ": (tiered(lambda h: _second_copy(h, "other")), ["tier_object 3"]),
    "an object is missing": (tiered(_without("tier_objects", **_OF_SECOND, look="end")), ["tier_object 3"]),
    "an index is missing": (
        tiered(_without("tier_objects", segment_id="second", kind="timeindex", look="end")),
        ["tier_object 3"],
    ),
    "an index of transactions is missing": (
        tiered(lambda h: h.change("tier_metadata", {"txn_index_empty": True}, segment_id="first", kind="segment")),
        ["tier_object 3"] * 2,
    ),
    "a byte is flipped": (
        tiered(_objects({"faulty": "CRC of the batch at 100", "sha256": "other"}, **_OF_SECOND, look="end")),
        ["tier_object 3"] * 3,
    ),
    "the last batch is missing": (
        tiered(_objects({"size_bytes": 200, "last_offset": 4, "sha256": "cut"}, **_OF_SECOND, look="end")),
        ["tier_object 3"] * 4,
    ),
    "a log is empty": (
        tiered(_objects({"first_offset": None, "last_offset": None, "size_bytes": 0}, **_OF_SECOND)),
        ["tier_object 3"] * 2,
    ),
    "a log begins late": (tiered(_objects({"first_offset": 4}, **_OF_SECOND)), ["tier_object 3"]),
    "an index changed": (
        tiered(_objects({"sha256": "other"}, segment_id="first", kind="index", look="end")),
        ["tier_object 3"] * 2,
    ),
    "an incomplete copy, and an earlier complete one of the same offsets": (
        tiered(
            _and(
                lambda h: _second_copy(h, "second"), _without("tier_objects", segment_id="twin", kind="log", look="end")
            ),
        ),
        ["tier_object 3"],
    ),
    "an incomplete copy, and a later incomplete one": (
        tiered(
            _and(
                lambda h: _second_copy(h, "second"),
                _without("tier_objects", **_OF_SECOND, look="end"),
                _without("tier_objects", segment_id="twin", kind="index", look="end"),
            )
        ),
        ["tier_object 3"] * 2,
    ),
    "an incomplete copy, and a later one of another leader epoch": (
        tiered(_and(_older_leaders_copy, _without("tier_objects", **_OF_SECOND, look="end"))),
        ["tier_object 3"],
    ),
    # --- tier_state
    "finished after it was deleted": (
        tiered(_and(_writes(DELETING, DELETED, FINISHED, segment="first"), _starts(3))),
        ["tier_state 3"],
    ),
    "finished and never started": (tiered(_writes(FINISHED, segment="nowhere")), ["tier_state 1"]),
}


def doubtful() -> dict[str, tuple[Built, str]]:
    """Histories that prove too little, with the name of the doubt."""

    def unreadable(history: Built) -> None:
        wrote(history, "x", STARTED)
        history.tables["tier_metadata"][-1].update(
            kind="unreadable", why="frame 9", topic=None, topic_id=None, topic_partition=None, state=None
        )

    return {
        "a record that cannot be decoded": (tiered(unreadable), "tier_unreadable"),
        "no metadata": (tiered(_and(*map(_no_copy, SEGMENTS), _local(0))), "tier_not_read"),
        "no metadata, and nine offsets are only in the tier": (
            tiered(_and(*(_without("tier_metadata", segment_id=segment) for segment in SEGMENTS))),
            "tier_not_read",
        ),
        "one broker did not report": (tiered(_without("tier_replicas", look="end", broker=3)), "tier_not_read"),
        "no broker reported": (tiered(_without("tier_replicas", look="end")), "tier_not_read"),
        "too little came from the tier": (
            tiered(_and(*map(_no_copy, ("second", "third")), _local(3))),
            "tier_not_read",
        ),
        "no look before everything was read": (tiered(_without("tier_replicas", look="healed")), "tier_not_read"),
        "no copy was finished": (
            tiered(_and(_without("tier_metadata", state=FINISHED), _local(0, look="end"))),
            "tier_not_read",
        ),
        "no lineage": (tiered(lambda h: h.change("tier_replicas", {"epochs": "unreadable: it"})), "tier_not_read"),
    }


DOUBTFUL = doubtful()


HISTORIES = {name: history for name, (history, _) in (DOUBTFUL | CASES).items()}
BATCH = HistoryBatch(HISTORIES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(HISTORIES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_defect_is_found_and_nothing_else(name: str, judged: dict[str, Verdict]) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    assert verdict.status is (Status.FAIL if expected else Status.PASS), verdict.doubts


@pytest.mark.parametrize("name", DOUBTFUL)
def test_too_little_evidence_is_no_pass(name: str, judged: dict[str, Verdict]) -> None:
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
    assert lost.detail == f"{3:020d}-second.log is missing, and the metadata says {FINISHED}"
    details = [finding.detail for finding in judged["the last batch is missing"].findings]
    assert any("has 200 bytes, and 300 according to its metadata" in text for text in details)
    assert any("has offsets 3 to 4, and 3 to 5 according to its metadata" in text for text in details)
    (state,) = judged["finished after it was deleted"].findings
    assert state.detail == f"broker 1 wrote {FINISHED} for segment first after DELETE_SEGMENT_FINISHED"


def test_a_missing_record_is_reported_with_its_former_copies(judged: dict[str, Verdict]) -> None:
    (gone,) = judged["expired by size, one too many"].findings
    assert gone.detail == (
        "the log starts at offset 3, further than retention, DeleteRecords and deletion permit; "
        "all of them had been in the remote tier"
    )
    (gone,) = judged["deleted by size before it was copied"].findings
    assert gone.detail.endswith("; the remote tier's metadata has no finished copy of 3 of these offsets")
    assert (gone.offset_first, gone.offset_last) == (3, 8)


def _segment(id_: str, base: int, end: int, *, newest_ms: int = 0, epoch: int = 0, finished: bool = True) -> Segment:
    """A segment with 100 bytes for each record."""
    reported: list[tuple[str | None, int | None, int]] = [(STARTED, 1, 1), *([(FINISHED, 1, 1)] if finished else [])]
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
def test_offsets_in_the_tier_count_once_from_the_log_start_on(
    segments: list[Segment], until_ms: int | None, kept: Kept | None
) -> None:
    partition = Partition({segment.id: segment for segment in segments})
    look = ReplicaLook(
        bundle=0,
        look="end",
        looked_ns=0,
        broker=1,
        topic="t",
        topic_id="i",
        partition=0,
        log_start=0,
        local_log_start=0,
        highest_tiered=None,
        epochs="0:0",
    )
    partition.replicas.append(look)
    assert kept_in_tier(partition, 5, until_ms) == kept


def test_the_share_of_records_from_the_tier_is_reported(judged: dict[str, Verdict]) -> None:
    reported = judged["all is in the tier"].facts.read_from_tier
    assert reported is not None
    assert 0.85 < reported.records / reported.of < 1
    assert judged["no topic is tiered"].facts.read_from_tier is None
    assert "tiered storage" in judged["no topic is tiered"].not_covered
    assert "tiered storage" not in judged["all is in the tier"].not_covered


TAKES_SPACE = tiered(lambda h: wrote(h, "begun", STARTED, 9, "1:9"))
TAKES_SPACE.copy("tier_objects", {"segment_id": "orphan"}, segment_id="first", look="end")
TAKES_SPACE_BATCH = HistoryBatch([TAKES_SPACE])


def test_objects_that_only_take_space_are_a_note(spark: SparkSession) -> None:
    (verdict,) = TAKES_SPACE_BATCH.verdicts(spark)
    assert verdict.status is Status.PASS
    notes = " ".join(verdict.notes)
    assert "1 segments of t-0 have objects in the remote tier that no metadata names" in notes
    assert "1 copies of t-0 were started and neither finished nor deleted" in notes


def _without_objects(gone: int) -> Built:
    """This many segments were deleted from the tier, and no object is left."""
    history = tiered(begins=9)
    for segment in list(SEGMENTS)[:gone]:
        wrote(history, segment, DELETING)
        wrote(history, segment, DELETED)
    return history.drop("tier_objects")


WITHOUT_OBJECTS = {gone: HistoryBatch([_without_objects(gone)]) for gone in (2, 3)}


@pytest.mark.parametrize(("gone", "doubted"), [(3, False), (2, True)])
def test_only_a_topic_that_has_left_the_tier_needs_no_objects(spark: SparkSession, gone: int, doubted: bool) -> None:
    (verdict,) = WITHOUT_OBJECTS[gone].verdicts(spark)
    assert any("no object of t was seen" in doubt.text for doubt in verdict.doubts) is doubted
