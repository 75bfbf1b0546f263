"""Five ways in which a large operator of Kafka lost records, each played to all rules at once.

They are the classes of loss that the durability audit of a cloud vendor was built for. Each test says which rules must
raise an alarm, and no other rule may.
"""

from __future__ import annotations

from harness.audit.store.partitions import Offsets
from harness.kafka.storage.uuids import new_uuid
from harness.model.severity import Severity
from suites.unit.audit.rules.crowd import Crowd
from suites.unit.audit.rules.scene import at, offsets, ranges
from suites.unit.model.history.logs import TOPIC, change, config, partition, topic

PLACE = (TOPIC, 0)
STARTED, FINISHED = "COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"


def test_divergence() -> None:
    """Two leaders wrote different records at the same offsets: the new one does not have what the old one committed."""
    crowd = Crowd()
    crowd.look(at(offsets(0, 150), epochs=[(0, 0)]))
    crowd.records(change(Isr=(1,), Leader=1))
    crowd.look(at(offsets(0, 200, epoch=1), epochs=[(0, 0), (1, 150)]))
    crowd.records(change(Leader=2, Isr=(2,), LeaderRecoveryState=1))
    crowd.look(at(offsets(0, 160, epoch=2), epochs=[(0, 0), (1, 140), (2, 155)]), times=3)
    assert crowd.names == ["unclean_leader", "epoch_below_commit", "epochs_fork"]
    assert ranges([crowd.of("epoch_below_commit")]) == [(*PLACE, 155, 200)]
    assert ranges([crowd.of("epochs_fork")]) == [(*PLACE, 140, 150)]
    assert {alarm.severity for alarm in crowd.alarms} == {Severity.LOSS}


def test_tail_loss_through_log_start() -> None:
    """The log start offset jumps to the log end, and takes the newest records with it."""
    crowd = Crowd(topic(), config("retention.ms", "-1"), partition())
    crowd.look(offsets(0, 500))
    crowd.look(offsets(500, 500), times=3)
    assert crowd.names == ["log_start_moved"]
    assert ranges(crowd.alarms) == [(*PLACE, 0, 500)]
    assert crowd.alarms[0].severity is Severity.DANGER  # without broker logs


def test_tier_metadata_divergence() -> None:
    """A broker takes a copy for finished that the metadata does not have, and deletes its own records."""
    crowd = Crowd()
    first, second = new_uuid(), new_uuid()
    crowd.segment(STARTED, first, 0, 99)
    crowd.segment(FINISHED, first)
    crowd.look(Offsets(0, 0, 400, 400, 100, 99))
    crowd.segment(STARTED, second, 100, 199)
    crowd.look(Offsets(0, 0, 500, 500, 200, 99), times=15)
    assert crowd.names == ["tier_gap"]
    assert ranges([crowd.of("tier_gap")]) == [(*PLACE, 100, 200)]
    assert crowd.of("tier_gap").severity is Severity.LOSS
    # Then a segment that comes later is in the tier, and the skipped one is not.
    third = new_uuid()
    crowd.alarms.clear()
    crowd.segment(STARTED, third, 200, 299)
    crowd.segment(FINISHED, third)
    crowd.segment(STARTED, third)
    crowd.look(Offsets(0, 0, 500, 500, 300, 299))
    assert crowd.names == ["tier_order", "tier_gap"]


def test_configuration_update_bug() -> None:
    """An update of another setting removes the retention of the topic, and the brokers' 7 days count."""
    crowd = Crowd(topic(), config("retention.ms", "-1"), partition())
    crowd.wait(30 * 86_400)
    crowd.look(offsets(0, 500))
    crowd.records(config("max.message.bytes", "2000000"), config("retention.ms", None))
    assert crowd.names == ["setting_weakened"]
    (alarm,) = crowd.alarms
    assert ranges([alarm]) == [(*PLACE, 0, 500)]
    assert alarm.deleted_at_ns == alarm.at_ns
    assert "retention.ms of orders was removed, so it changed from -1 to 604800000 (7 days)" in alarm.what
    crowd.look(offsets(400, 500), times=3)  # a limit of 7 days explains the deletion
    assert crowd.names == ["setting_weakened"]


def test_log_start_race() -> None:
    """Two threads move the log start offset: it goes forward too far, and then back."""
    crowd = Crowd(topic(), config("retention.ms", "-1"), partition())
    crowd.look(offsets(100, 500))
    crowd.look(offsets(300, 500), times=2)
    crowd.look(offsets(200, 500), times=3)
    assert crowd.names == ["log_start_moved", "log_start_back"]
    assert ranges([crowd.of("log_start_moved")]) == [(*PLACE, 100, 300)]
    assert ranges([crowd.of("log_start_back")]) == [(*PLACE, 200, 300)]


def test_the_same_events_without_a_loss_are_silent() -> None:
    """A clean election, retention by time, a tier that works, and settings that are set again."""
    crowd = Crowd(topic(), config("retention.ms", "3600000"), partition())
    crowd.wait(86_400)
    crowd.look(at(offsets(0, 150), epochs=[(0, 0)]))
    crowd.records(change(Isr=(1, 2)), change(Leader=2), config("retention.ms", "3600000"))
    crowd.look(at(Offsets(leader_epoch=1), error="OFFSET_NOT_AVAILABLE"), times=3)
    crowd.look(at(offsets(100, 160, epoch=1), epochs=[(0, 100), (1, 150)]), times=3)
    segment = new_uuid()
    crowd.segment(STARTED, segment, 100, 149)
    crowd.segment(FINISHED, segment)
    crowd.look(Offsets(1, 100, 170, 170, 150, 149), times=3)
    crowd.records(change(Isr=(1, 2, 3)))
    assert crowd.alarms == []
