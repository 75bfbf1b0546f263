"""The remote tier: gaps, states out of order, and objects that are missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.audit.look import ObjectLook, RemoteSegment
from harness.audit.rules.rule import Suspicion
from harness.audit.rules.tier_gap import TierGap
from harness.audit.rules.tier_object_missing import TierObjectMissing
from harness.audit.rules.tier_order import TierOrder
from harness.audit.store.partitions import Offsets
from harness.audit.store.segments import DELETED, DELETING, FINISHED, STARTED
from harness.kafka.storage.uuids import new_uuid
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import SEGMENT_ID, START_NS, S, Scene, at, ranges
from suites.unit.model.history.logs import TOPIC, TOPIC_ID, removed


def tiered(local: int, highest: int, log_start: int = 0) -> Offsets:
    return Offsets(0, log_start, 500, 500, local, highest)


# Gaps between the tier and the brokers


def test_records_that_neither_the_tier_nor_the_brokers_have() -> None:
    scene = Scene(TierGap())
    found = scene.look(tiered(local=200, highest=149))
    assert ranges(found) == [(TOPIC, 0, 150, 200)]
    (alarm,) = scene.confirm(found, tiered(local=210, highest=149))
    assert ranges([alarm]) == [(TOPIC, 0, 150, 210)]
    assert (alarm.severity, scene.rule.severity) == (None, Severity.LOSS)
    assert "begins at 210, and the tier ends below 150: 60 records, offsets 150 to 209, are in neither" in alarm.what
    assert not scene.over(alarm)
    scene.look(tiered(local=210, highest=149, log_start=210))  # retention has passed it
    assert scene.over(alarm)


@pytest.mark.parametrize(
    "seen",
    [
        tiered(local=150, highest=149),
        tiered(local=100, highest=149),  # both have some
        tiered(local=200, highest=149, log_start=200),  # retention deleted what lies between
        tiered(local=200, highest=-1),  # a new leader does not know yet what the tier has
        Offsets(0, 0, 500, 500, -1, 149),
    ],
)
def test_tiers_without_a_gap(seen: Offsets) -> None:
    scene = Scene(TierGap())
    scene.segment(STARTED, first=0, last=199)
    scene.segment(FINISHED)
    assert scene.look(seen) == []


def test_a_gap_that_closes_is_none() -> None:
    """The copy was finished between the two questions of a look."""
    scene = Scene(TierGap())
    assert scene.confirm(scene.look(tiered(200, 149)), tiered(200, 149), tiered(200, 199)) == []


def test_a_tier_that_has_nothing_although_the_brokers_deleted() -> None:
    scene = Scene(TierGap())
    scene.segment(STARTED, first=0, last=199)
    assert ranges(scene.look(tiered(local=200, highest=-1))) == [(TOPIC, 0, 0, 200)]
    scene.segment(FINISHED)
    assert scene.look(tiered(local=200, highest=-1)) == []
    scene = Scene(TierGap(), without=("tier",))
    assert scene.look(tiered(local=200, highest=-1)) == []


def copied(scene: Scene, first: int, last: int) -> list[Suspicion]:
    name = new_uuid()
    return [*scene.segment(STARTED, name, first=first, last=last), *scene.segment(FINISHED, name)]


def test_a_copy_that_skips_records() -> None:
    scene = Scene(TierGap())
    scene.look(tiered(local=150, highest=99))
    assert copied(scene, 0, 99) == []
    (alarm,) = scene.confirm(copied(scene, 120, 199), tiered(local=150, highest=199))
    assert ranges([alarm]) == [(TOPIC, 0, 100, 120)]
    assert alarm.severity is None
    assert "20 records, offsets 100 to 119, were not copied" in alarm.what
    assert copied(scene, 200, 299) == []


def test_a_copy_that_skips_records_which_the_brokers_have_is_a_danger() -> None:
    scene = Scene(TierGap())
    copied(scene, 0, 99)
    (alarm,) = scene.confirm(copied(scene, 120, 199), tiered(local=50, highest=199))
    assert alarm.severity is Severity.DANGER


def test_delete_records_may_skip_what_was_not_copied() -> None:
    """The log start moved after the last look."""
    scene = Scene(TierGap())
    scene.look(tiered(local=90, highest=99))
    copied(scene, 0, 99)
    found = copied(scene, 300, 399)
    assert scene.confirm(found, tiered(local=300, highest=399, log_start=300)) == []
    (alarm,) = scene.confirm(found, tiered(local=300, highest=399, log_start=280))
    assert ranges([alarm]) == [(TOPIC, 0, 280, 300)]


def test_copies_without_a_gap() -> None:
    scene = Scene(TierGap())
    assert copied(scene, 40, 99) == []  # the first one that is known
    assert copied(scene, 80, 149) == []  # the next leader has other segments
    assert copied(scene, 150, 199) == []
    assert scene.segment(FINISHED, new_uuid()) == []  # its first record is not known


# States of segments


@pytest.mark.parametrize(
    ("states", "broken"),
    [
        ([STARTED, FINISHED, DELETING, DELETED], 0),
        ([STARTED, DELETING, DELETED], 0),
        ([STARTED, STARTED, FINISHED, FINISHED, DELETING, DELETING, DELETED], 0),  # retries
        ([DELETING, DELETED], 0),  # it began before the metadata was read
        ([FINISHED], 0),
        ([STARTED, FINISHED, DELETED], 1),
        ([STARTED, DELETED], 1),
        ([STARTED, FINISHED, STARTED], 1),
        ([STARTED, DELETING, FINISHED], 1),
    ],
)
def test_the_order_of_states(states: list[str], broken: int) -> None:
    scene = Scene(TierOrder())
    found = [alarm for state in states for alarm in scene.segment(state, first=10, last=19)]
    assert len(found) == broken
    for alarm in found:
        assert ranges([alarm]) == [(TOPIC, 0, 10, 20)]
        assert (alarm.broker, scene.rule.severity) == (1, Severity.DANGER)
        assert f"went from {states[-2]} to {states[-1]}, which is no legal order; broker 1 wrote it" in alarm.what


# Copies that are deleted above the log start


def scene_of_copies() -> tuple[Scene, dict[int, str]]:
    """Copies of the offsets 0-99, 100-199 and 200-299; brokers have the records from 300 on."""
    scene, names = Scene(TierGap()), {}
    for first in (0, 100, 200):
        names[first] = new_uuid()
        scene.segment(STARTED, names[first], first=first, last=first + 99)
        scene.segment(FINISHED, names[first])
    scene.look(tiered(local=300, highest=299))
    return scene, names


@pytest.mark.parametrize("state", [DELETING, DELETED])
def test_a_copy_that_is_deleted_above_the_log_start(state: str) -> None:
    scene, names = scene_of_copies()
    found = scene.segment(state, names[100])
    (alarm,) = scene.confirm(found, tiered(local=300, highest=299))
    assert (ranges([alarm]), alarm.severity) == ([(TOPIC, 0, 100, 200)], None)
    assert "although the log begins at 0: 100 records, offsets 100 to 199, are neither in another copy" in alarm.what


def test_copies_that_are_deleted_together_are_one_alarm() -> None:
    scene, names = scene_of_copies()
    found = scene.segment(DELETING, names[100])
    scene.segment(DELETING, names[200])
    assert ranges(scene.confirm(found, tiered(local=300, highest=299))) == [(TOPIC, 0, 100, 300)]


def test_retention_moves_the_log_start_and_deletes_copies() -> None:
    scene, names = scene_of_copies()
    found = scene.segment(DELETING, names[0])  # the look is older than the move
    assert found
    assert scene.confirm(found, tiered(local=300, highest=299, log_start=100)) == []
    scene.look(tiered(local=300, highest=299, log_start=100))
    assert scene.segment(DELETED, names[0]) == []


def test_a_leader_that_learns_of_the_log_start_late_misses_nothing() -> None:
    scene, names = scene_of_copies()
    found = scene.segment(DELETING, names[0])
    before, after = tiered(local=300, highest=299), tiered(local=300, highest=299, log_start=100)
    assert scene.confirm(found, *[before] * 5, after) == []


def test_another_copy_or_the_brokers_have_the_records_of_a_deleted_copy() -> None:
    scene, names = scene_of_copies()
    twice = new_uuid()
    scene.segment(STARTED, twice, first=90, last=209)
    scene.segment(FINISHED, twice)
    assert scene.confirm(scene.segment(DELETING, names[100]), tiered(local=300, highest=299)) == []
    scene, names = scene_of_copies()
    assert scene.confirm(scene.segment(DELETING, names[200]), tiered(local=200, highest=299)) == []
    assert ranges(scene.confirm(scene.segment(DELETING, names[100]), tiered(local=150, highest=299))) == [
        (TOPIC, 0, 100, 150)
    ]


def test_copies_of_a_deleted_topic_and_failed_copies_are_no_gap() -> None:
    scene, names = scene_of_copies()
    failed = new_uuid()
    scene.segment(STARTED, failed, first=300, last=399)
    assert scene.segment(DELETING, failed) == []
    scene.records(removed())
    assert scene.segment(DELETING, names[100]) == []


# Objects that are missing


def missing(
    scene: Scene, *, read_ns: int = 1, state: str | None = FINISHED, first: int = 100, last: int = 149
) -> list[tuple[Severity | None, int | None, int | None]]:
    segment = RemoteSegment(
        topic=TOPIC,
        topic_id=TOPIC_ID,
        partition=0,
        segment_id=SEGMENT_ID,
        state=FINISHED,
        first_offset=first,
        last_offset=last,
    )
    look = ObjectLook(
        segment=segment,
        object_name="orders-0/100.log",
        missing_ns=START_NS,
        metadata_ns=START_NS + read_ns,
        state=state,
    )
    return [(of.severity, of.first_offset, of.end_offset) for of in scene.rule.on_object(look, scene.view)]


def test_an_object_that_is_missing_is_a_loss_where_no_broker_has_its_records() -> None:
    scene = Scene(TierObjectMissing())
    scene.look(tiered(local=120, highest=149))
    assert missing(scene) == [(None, 100, 150)]
    scene.look(tiered(local=100, highest=149))
    assert missing(scene) == [(Severity.DANGER, 100, 150)]
    assert scene.rule.severity is Severity.LOSS


@pytest.mark.parametrize("state", [STARTED, DELETING, DELETED, None])
def test_a_segment_that_was_deleted_meanwhile_misses_nothing(state: str | None) -> None:
    """The list of segments was older than the look at the storage."""
    scene = Scene(TierObjectMissing())
    assert missing(scene, state=state) == []


def test_metadata_that_was_read_before_the_object_was_missing_proves_nothing() -> None:
    scene = Scene(TierObjectMissing())
    assert missing(scene, read_ns=0) == []
    assert missing(scene, read_ns=-S) == []
    assert len(missing(scene)) == 1


def test_records_below_the_log_start_and_deleted_topics_miss_nothing() -> None:
    scene = Scene(TierObjectMissing())
    scene.look(at(tiered(local=300, highest=299, log_start=150)))
    assert missing(scene) == []
    assert missing(scene, last=159) == [(None, 150, 160)]
    scene.records(removed())
    assert missing(scene) == []


def test_an_object_that_is_back_ends_the_alarm() -> None:
    scene = Scene(TierObjectMissing())
    scene.look(tiered(local=120, highest=149))
    segment = RemoteSegment(
        topic=TOPIC,
        topic_id=TOPIC_ID,
        partition=0,
        segment_id=SEGMENT_ID,
        state=FINISHED,
        first_offset=9,
        last_offset=9,
    )
    look = ObjectLook(
        segment=segment, object_name="9.log", missing_ns=START_NS, metadata_ns=START_NS + 1, state=FINISHED
    )
    (alarm,) = scene.rule.on_object(look, scene.view)
    assert not scene.over(alarm)
    assert not [*scene.rule.on_object(replace(look, back=True), scene.view)]
    assert scene.over(alarm)
    (again,) = scene.rule.on_object(look, scene.view)
    assert not scene.over(again)
