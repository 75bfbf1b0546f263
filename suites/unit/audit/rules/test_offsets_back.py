"""Offsets that went back: in one leader epoch never rightly, and in the next one only with a loss."""

from __future__ import annotations

import pytest

from harness.audit.rules.high_watermark_back import HighWatermarkBack
from harness.audit.rules.log_end_back import LogEndBack
from harness.audit.rules.log_start_back import LogStartBack
from harness.audit.rules.rule import Rule
from harness.audit.store.partitions import Offsets
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import Scene, at, offsets, ranges
from suites.unit.model.history.logs import TOPIC, removed

PLACE = (TOPIC, 0)


def test_a_high_watermark_that_goes_back_is_a_loss() -> None:
    scene = Scene(HighWatermarkBack())
    assert scene.look(offsets(0, 100)) == []
    found = scene.look(offsets(0, 60, 100))
    assert ranges(found) == [(*PLACE, 60, 100)]
    (alarm,) = scene.confirm(found, offsets(0, 70, 100))
    assert (alarm.leader_epoch, alarm.records, alarm.severity) == (0, 40, None)
    assert scene.rule.severity is Severity.LOSS
    assert alarm.cause.startswith("broker 1, ")
    assert "went back from 100 to 60 in leader epoch 0: 40 records, offsets 60 to 99" in alarm.what


def test_a_high_watermark_that_is_back_at_the_second_look_is_nothing() -> None:
    """A replica that moves to another disk knows the last high watermark a fetch later."""
    scene = Scene(HighWatermarkBack())
    scene.look(offsets(0, 100))
    assert scene.confirm(scene.look(offsets(0, 99, 100)), offsets(0, 100)) == []


def test_a_lower_high_watermark_of_the_next_leader_confirms_it() -> None:
    scene = Scene(HighWatermarkBack())
    scene.look(offsets(0, 100))
    assert ranges(scene.confirm(scene.look(offsets(0, 60)), offsets(0, 60, epoch=1))) == [(*PLACE, 60, 100)]


@pytest.mark.parametrize(
    ("rule", "next_look"),
    [
        (HighWatermarkBack(), at(offsets(0, 50, epoch=1))),  # another epoch: `epoch_below_commit`
        (HighWatermarkBack(), at(offsets(0, 100))),
        (HighWatermarkBack(), at(Offsets(), error="OFFSET_NOT_AVAILABLE")),  # KIP-207
        (HighWatermarkBack(), at(Offsets(leader_epoch=0))),  # it was not asked
        (LogEndBack(), at(offsets(0, 50, 60, epoch=1))),  # a new leader has its own log
        (LogEndBack(), at(offsets(0, 50, 100), log_ends={2: 40, 3: 30})),  # followers truncate
        (LogEndBack(), at(Offsets(), error="NOT_LEADER_OR_FOLLOWER")),
        (LogStartBack(), at(offsets(0, 100, epoch=1))),  # each replica deletes at its own times
        (LogStartBack(), at(offsets(10, 100))),
    ],
    ids=lambda of: of.name if isinstance(of, Rule) else "",
)
def test_lower_offsets_that_are_right(rule: Rule, next_look: object) -> None:
    scene = Scene(rule)
    scene.look(offsets(10, 100))
    assert scene.look(next_look) == []  # type: ignore[arg-type]


def test_a_log_end_below_the_high_watermark_is_a_loss_and_above_it_a_danger() -> None:
    scene = Scene(LogEndBack())
    scene.look(offsets(0, 100, 120))
    found = scene.look(offsets(0, 90, 90))
    assert ranges(found) == [(*PLACE, 90, 120)]
    (alarm,) = scene.confirm(found, offsets(0, 90, 95))
    assert alarm.severity is None
    assert alarm.what.endswith("Committed among them: 10 records, offsets 90 to 99.")
    scene.look(offsets(0, 90, 110))
    (alarm,) = scene.confirm(scene.look(offsets(0, 90, 105)), offsets(0, 90, 105))
    assert alarm.severity is Severity.DANGER


def test_a_log_end_that_has_grown_again_is_a_notice() -> None:
    """Other records may be at these offsets now."""
    scene = Scene(LogEndBack())
    scene.look(offsets(0, 100, 120))
    (alarm,) = scene.confirm(scene.look(offsets(0, 90, 90)), offsets(0, 90, 130))
    assert alarm.severity is Severity.NOTICE
    assert alarm.what.endswith("A second look saw the log end at 130.")


def test_a_log_start_that_goes_back_brings_deleted_records_back() -> None:
    scene = Scene(LogStartBack())
    scene.look(offsets(50, 100))
    found = scene.look(offsets(20, 100))
    assert ranges(scene.confirm(found, offsets(20, 100))) == [(*PLACE, 20, 50)]
    assert scene.confirm(found, offsets(50, 100)) == []
    assert scene.confirm(found, offsets(20, 100, epoch=1)) == []
    (alarm,) = found
    assert not scene.over(alarm)
    scene.look(offsets(50, 100))
    assert scene.over(alarm)


def test_looks_without_the_offset_are_repeated_for_a_minute() -> None:
    scene = Scene(LogEndBack())
    scene.look(offsets(0, 100, 120))
    found = scene.look(offsets(0, 90, 90))
    (alarm,) = scene.confirm(found, *[Offsets(leader_epoch=0)] * 59, offsets(0, 90, 90))
    assert alarm.severity is None
    (alarm,) = scene.confirm(found, Offsets(leader_epoch=0))
    assert alarm.severity is Severity.NOTICE
    assert alarm.what.endswith("No later look confirmed or disproved it.")


def test_an_alarm_about_an_event_ends_after_a_time_or_with_the_topic() -> None:
    scene = Scene(HighWatermarkBack({"keep_s": 60}))
    scene.look(offsets(0, 100))
    (alarm,) = scene.look(offsets(0, 60))
    assert not scene.over(alarm)
    scene.wait(61)
    assert scene.over(alarm)
    scene = Scene(HighWatermarkBack())
    scene.look(offsets(0, 100))
    (alarm,) = scene.look(offsets(0, 60))
    scene.records(removed())
    assert scene.over(alarm)
