"""Committed offsets that go back, disappear, or are beyond the log end."""

from __future__ import annotations

from harness.audit.rules.commit_back import CommitBack
from harness.audit.rules.commit_beyond_end import CommitBeyondEnd
from harness.audit.rules.commit_removed import CommitRemoved
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import Scene, offsets, ranges
from suites.unit.model.history.logs import TOPIC, partition, removed, topic


def recreated(scene: Scene) -> None:
    scene.records(removed(), topic(TOPIC, "new-id"), partition(TopicId="new-id"))


def test_an_offset_that_went_back_at_two_looks() -> None:
    scene = Scene(CommitBack())
    assert [scene.commit(100), scene.commit(60)] == [[], []]
    (alarm,) = scene.commit(70)
    assert ranges([alarm]) == [(TOPIC, 0, 70, 100)]
    assert (alarm.cause, scene.rule.severity) == ("group readers", Severity.NOTICE)
    assert "went back from 100 to 70: it reads 30 records, offsets 70 to 99, again" in alarm.what
    assert scene.commit(80) == []
    assert not scene.over(alarm)
    scene.commit(100)
    assert scene.over(alarm)


def test_an_older_answer_of_a_deposed_coordinator_is_no_reset() -> None:
    scene = Scene(CommitBack())
    assert [scene.commit(offset) for offset in (100, 60, 110, 60, 120)] == [[]] * 5


def test_offsets_of_a_new_topic_are_not_compared() -> None:
    scene = Scene(CommitBack())
    scene.commit(100)
    recreated(scene)
    assert [scene.commit(offset, "new-id") for offset in (0, 0, 5)] == [[]] * 3


def test_an_offset_that_disappeared_at_two_looks() -> None:
    scene = Scene(CommitRemoved())
    scene.look(offsets(0, 150))
    assert [scene.commit(100), scene.commit(UNKNOWN)] == [[], []]
    (alarm,) = scene.commit(UNKNOWN)
    assert ranges([alarm]) == [(TOPIC, 0, 100, 150)]
    assert scene.rule.severity is Severity.DANGER
    assert "any more; it was 100, and the high watermark was 150 at the last look" in alarm.what
    assert scene.commit(UNKNOWN) == []
    assert not scene.over(alarm)
    scene.commit(0)
    assert scene.over(alarm)


def test_an_offset_that_is_there_again_was_not_removed() -> None:
    scene = Scene(CommitRemoved())
    assert [scene.commit(offset) for offset in (UNKNOWN, UNKNOWN, 100, UNKNOWN, 100, 101)] == [[]] * 6


def test_the_offsets_of_a_deleted_topic_are_removed_rightly() -> None:
    scene = Scene(CommitRemoved())
    scene.commit(100)
    scene.records(removed())
    assert [scene.commit(UNKNOWN), scene.commit(UNKNOWN)] == [[], []]
    scene = Scene(CommitRemoved())
    scene.commit(100)
    recreated(scene)
    assert [scene.commit(UNKNOWN, "new-id"), scene.commit(UNKNOWN, "new-id")] == [[], []]


def test_an_offset_beyond_the_log_end_of_a_later_look() -> None:
    scene = Scene(CommitBeyondEnd())
    scene.look(offsets(0, 90, 90))
    found = scene.commit(100)
    (alarm,) = scene.confirm(found, Offsets(0, 0, 80, 95))
    assert ranges([alarm]) == [(TOPIC, 0, 95, 100)]
    assert scene.rule.severity is Severity.DANGER
    assert "Group readers committed offset 100 in orders/0, but the log ends at 95: 5 records" in alarm.what
    assert not scene.over(alarm)
    scene.commit(95)
    scene.look(offsets(0, 95, 95))
    assert scene.over(alarm)


def test_a_log_end_that_was_read_before_the_commit_proves_nothing() -> None:
    """Burrow subtracted offsets of two moments, and reported a lag of millions."""
    scene = Scene(CommitBeyondEnd())
    scene.look(offsets(0, 90))
    assert scene.confirm(scene.commit(100), offsets(0, 100)) == []


def test_an_offset_at_the_end_and_an_offset_of_an_unknown_topic() -> None:
    scene = Scene(CommitBeyondEnd())
    assert scene.commit(100) == []  # no look yet
    scene.look(offsets(0, 100))
    assert scene.commit(100) == []
    assert scene.commit(UNKNOWN) == []
    recreated(scene)
    assert scene.commit(100, "orders-id") == []
