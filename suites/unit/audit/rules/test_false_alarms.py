"""False alarms that other auditors of replicated logs shipped: here all rules stay silent.

Each test names what raised the alarm there. Those of one rule alone stand with the tests of that rule.
"""

from __future__ import annotations

from harness.audit.store.partitions import Offsets
from harness.model.history.log import Record
from harness.model.severity import Severity
from suites.unit.audit.rules.crowd import Crowd
from suites.unit.audit.rules.scene import at, offsets
from suites.unit.model.history.logs import TOPIC, broker, change, config, partition, registration, removed, topic


def test_offsets_are_not_available_after_an_election() -> None:
    """KIP-207: until the high watermark reaches the start of the new epoch. The new leader kept every record."""
    crowd = Crowd()
    crowd.look(offsets(0, 100, 120))
    crowd.records(change(Leader=2, Isr=(2, 3)))
    for error in ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "UNKNOWN_LEADER_EPOCH"):
        crowd.look(at(Offsets(), error=error), times=5)
    crowd.look(at(offsets(0, 110, epoch=1), epochs=[(0, 0), (1, 110)]), times=5)
    assert crowd.alarms == []


def test_a_follower_truncates_what_was_never_committed() -> None:
    crowd = Crowd()
    crowd.look(at(offsets(0, 100, 120), log_ends={1: 120, 2: 100, 3: 100}))
    crowd.records(change(Leader=2, Isr=(2, 3)))
    crowd.look(at(offsets(0, 100, 100, epoch=1), log_ends={1: 100, 2: 100, 3: 100}, epochs=[(0, 0), (1, 100)]), times=5)
    assert crowd.alarms == []


def test_a_deposed_leader_answers_late() -> None:
    """Its answer is of the epoch before."""
    crowd = Crowd()
    crowd.records(change(Leader=2))
    crowd.look(offsets(0, 130, epoch=1))
    crowd.look(offsets(0, 100, epoch=0), times=3)
    crowd.look(offsets(0, 140, epoch=1))
    assert crowd.alarms == []


def test_log_end_and_commit_of_two_moments_are_not_subtracted() -> None:
    """Burrow 740: a commit was newer than the log end that it was compared with."""
    crowd = Crowd()
    crowd.look(offsets(0, 100))
    crowd.commit(5_000_000)
    crowd.look(offsets(0, 5_000_010), times=3)
    assert crowd.alarms == []


def test_a_recreated_topic_is_no_lag() -> None:
    """Burrow 256. The deletion itself is an alarm, and one notice says that the topic is another one."""
    crowd = Crowd()
    crowd.look(offsets(0, 100))
    crowd.commit(100)
    crowd.records(removed(), topic(TOPIC, "new-id"), partition(TopicId="new-id"))
    crowd.commit(0, "new-id")
    crowd.commit(3, "new-id")
    crowd.wait(60)
    assert crowd.names == ["topic_deleted", "topic_recreated"]
    assert crowd.of("topic_recreated").severity is Severity.NOTICE


def test_a_lost_sample_is_no_stop() -> None:
    """Burrow 171 and 182, and 38: a slow topic, and looks that failed."""
    crowd = Crowd()
    for at_end in range(100, 120):
        crowd.look(offsets(0, at_end))
        crowd.look(at(Offsets(), error="REQUEST_TIMED_OUT"), times=3)
        crowd.commit(at_end)
    crowd.wait(3600)
    crowd.look(offsets(0, 120), times=5)
    assert crowd.alarms == []


def test_a_planned_restart_of_each_broker_is_silent() -> None:
    """BookKeeper 3817 and 1197: a check during planned work flooded the operators."""
    crowd = Crowd(topic(), config("min.insync.replicas", "2"), partition())
    crowd.records(*(record for number in (1, 2, 3) for record in up(number, number)))
    for down in (3, 2, 1):
        others = tuple(number for number in (1, 2, 3) if number != down)
        crowd.records(registration(down, down, InControlledShutdown=1), change(Isr=others, Leader=others[0]))
        crowd.records(registration(down, down, Fenced=1))
        crowd.wait(240)
        crowd.records(*up(down, down), change(Isr=(1, 2, 3)))
        crowd.wait(5)
    assert crowd.alarms == []


def up(number: int, epoch: int) -> tuple[Record, ...]:
    return broker(number, epoch), registration(number, epoch, Fenced=-1)


def test_an_alarm_does_not_stay_for_ever() -> None:
    """Burrow 446, Pulsar 1886: it was not cleared after the recovery."""
    crowd = Crowd()
    crowd.records(change(Isr=(1, 2)))
    crowd.wait(301)
    alarm = crowd.of("under_replicated")
    crowd.records(change(Isr=(1, 2, 3)))
    crowd.wait(1)
    assert crowd.rules["under_replicated"].over(alarm, crowd.scene.view)


def test_one_cause_is_one_alarm() -> None:
    """uptime-kuma 4779: one cause, thousands of messages."""
    crowd = Crowd(topic(), *(partition(number=number) for number in range(300)))
    crowd.records(*(change(number=number, Isr=(1, 2)) for number in range(300)))
    crowd.wait(301)
    assert {(alarm.rule, alarm.cause) for alarm in crowd.alarms} == {("under_replicated", "broker 3")}
    assert len(crowd.alarms) + sum(alarm.others for alarm in crowd.alarms) == 300


def test_totals_hold_over_several_ranges() -> None:
    """BookKeeper 4822: counters were reset for each range, so only the last one was reported."""
    crowd = Crowd(topic(), config("retention.ms", "-1"), *(partition(number=number) for number in range(3)))
    for number in range(3):
        crowd.look(at(offsets(0, 100), number))
    for number in range(3):
        crowd.look(at(offsets(10 * (number + 1), 100), number), times=2)
    found = [alarm for alarm in crowd.alarms if alarm.rule == "log_start_moved"]
    assert [alarm.records for alarm in found] == [10, 20, 30]


def test_a_high_watermark_of_a_follower_is_never_compared() -> None:
    """It is one fetch behind. Only log ends of replicas are in a look."""
    crowd = Crowd()
    crowd.look(at(offsets(0, 100), log_ends={1: 100, 2: 0, 3: 100}))
    crowd.look(at(offsets(0, 110), log_ends={1: 110, 2: 100, 3: 0}), times=3)
    assert crowd.alarms == []
