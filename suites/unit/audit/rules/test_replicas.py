"""Partitions that stand without replicas, without enough of them, or without a leader; and replicas that are stuck."""

from __future__ import annotations

import time

import pytest

from harness.audit.rules.below_min_isr import BelowMinIsr
from harness.audit.rules.no_leader import NoLeader
from harness.audit.rules.replica_stuck import ReplicaStuck
from harness.audit.rules.rule import ForTopics, Rule
from harness.audit.rules.under_replicated import UnderReplicated
from harness.model.history.log import Record
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import Scene, at, offsets, ranges
from suites.unit.model.history.logs import (
    TOPIC,
    broker,
    change,
    config,
    partition,
    registration,
    removed,
    snapshot,
    topic,
)

WITHOUT_3 = change(Isr=(1, 2))
WITH_3 = change(Isr=(1, 2, 3))
UP_3 = (broker(3, 30), registration(3, 30, Fenced=-1))


# Under-replicated


def test_a_broker_that_is_missing_for_too_long_is_one_cause() -> None:
    scene = Scene(UnderReplicated())
    scene.records(partition(number=1), WITHOUT_3, change(number=1, Isr=(1, 2)))
    assert scene.tick(299) == []
    found = scene.tick(2)
    assert [(alarm.partition, alarm.cause, alarm.broker) for alarm in found] == [(0, "broker 3", 3), (1, "broker 3", 3)]
    assert {alarm.severity for alarm in found} == {Severity.NOTICE}  # two copies are left
    assert "orders/0 has been without broker 3 in its ISR for 301 s: the ISR is [1, 2] of" in found[0].what
    assert scene.tick(60) == []  # it was reported
    assert not scene.over(found[0])
    scene.records(WITH_3)
    scene.tick()
    assert not scene.over(found[0])  # the other partition still lacks it
    scene.records(change(number=1, Isr=(1, 2, 3)))
    scene.tick()
    assert scene.over(found[0])


@pytest.mark.parametrize(("took_s", "next_s"), [(0.001, 1.0), (0.004, 2.0), (0.05, 10.0), (1.0, 50.0)])
def test_a_survey_that_took_long_is_repeated_later(
    took_s: float, next_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(UnderReplicated())
    scene.records(WITHOUT_3)
    used_s, at_s = 0.0, 1000.0

    def used() -> float:
        nonlocal used_s
        used_s += took_s  # a survey asks at its start and at its end
        return used_s

    monkeypatch.setattr(time, "thread_time", used)
    monkeypatch.setattr(time, "monotonic", lambda: at_s)
    scene.tick()
    surveyed_s = used_s
    while used_s == surveyed_s:
        at_s += 1.0
        scene.tick()
    assert at_s - 1000.0 == next_s


def test_one_copy_that_is_left_is_a_danger() -> None:
    scene = Scene(UnderReplicated())
    scene.records(change(Isr=(1,)))
    found = scene.tick(301)
    assert [(alarm.cause, alarm.severity) for alarm in found] == [("broker 2", None), ("broker 3", None)]


def test_a_second_broker_that_is_missing_later_is_reported_too() -> None:
    scene = Scene(UnderReplicated())
    scene.records(WITHOUT_3)
    assert [alarm.cause for alarm in scene.tick(301)] == ["broker 3"]
    scene.records(change(Isr=(1,)))
    assert [alarm.cause for alarm in scene.tick(1)] == ["broker 2"]


def test_a_replica_that_comes_back_in_time_and_one_that_is_added() -> None:
    scene = Scene(UnderReplicated())
    scene.records(WITHOUT_3)
    scene.tick(200)
    scene.records(WITH_3)
    assert scene.tick(200) == []
    scene.records(change(Replicas=(1, 2, 3, 4), AddingReplicas=(4,)))
    assert scene.tick(1000) == []


@pytest.mark.parametrize(
    "restart",
    [
        (broker(3, 30, InControlledShutdown=True), WITHOUT_3),  # it leaves on purpose
        (WITHOUT_3, *UP_3),  # it is back, and catches up
    ],
)
def test_a_restart_takes_longer(restart: tuple[Record, ...]) -> None:
    scene = Scene(UnderReplicated())
    scene.records(*restart)
    assert scene.tick(899) == []
    assert [alarm.cause for alarm in scene.tick(2)] == ["broker 3"]


def test_a_broker_that_was_restarted_long_ago_is_no_restart() -> None:
    scene = Scene(UnderReplicated())
    scene.records(*UP_3)
    scene.wait(60)
    scene.records(WITHOUT_3)
    assert [alarm.cause for alarm in scene.tick(301)] == ["broker 3"]


def test_a_restart_of_the_auditor_begins_to_count_anew() -> None:
    scene = Scene(UnderReplicated())
    scene.records(WITHOUT_3)
    (alarm,) = scene.tick(301)
    scene.rule = UnderReplicated()
    for state in scene.view.partitions():
        scene.rule.on_known(state, scene.view)
    assert scene.tick() == []
    assert not scene.over(alarm)
    assert len(scene.tick(301)) == 1


def test_deleted_topics_and_snapshots() -> None:
    scene = Scene(UnderReplicated())
    scene.records(WITHOUT_3)
    (alarm,) = scene.tick(301)
    scene.records(removed())
    assert scene.tick() == []
    assert scene.over(alarm)
    scene.load(snapshot(20, topic(), partition(isr=(1, 2))))
    assert scene.tick(299) == []
    assert len(scene.tick(2)) == 1


def test_many_partitions_are_counted_and_not_named() -> None:
    scene = Scene(UnderReplicated())
    scene.records(*(partition(number=number, isr=(1, 2)) for number in range(1, 251)))
    found = scene.tick(301)
    assert len(found) == 100
    assert [alarm.others for alarm in found[:2]] == [150, 0]


def test_a_limit_for_some_topics() -> None:
    scene = Scene(UnderReplicated(overrides=[ForTopics(topics=("ord*",), limits={"allowed_s": 10})]))
    scene.records(WITHOUT_3)
    assert len(scene.tick(11)) == 1


# Without a leader


def test_a_partition_without_a_leader() -> None:
    scene = Scene(NoLeader())
    scene.look(offsets(5, 100))
    scene.records(change(Isr=(1,), Leader=-1))
    assert scene.tick(29) == []
    (alarm,) = scene.tick(2)
    assert ranges([alarm]) == [(TOPIC, 0, 5, 100)]
    assert (alarm.cause, scene.rule.severity) == ("broker 1", Severity.DANGER)
    assert "has had no leader for 31 s; of its replicas [1, 2, 3], broker 1 may lead" in alarm.what
    assert not scene.over(alarm)
    scene.records(change(Leader=1))
    assert scene.over(alarm)


@pytest.mark.parametrize(
    ("gone", "cause"),
    [
        (change(Leader=-1, Isr=(), EligibleLeaderReplicas=(2, 3)), "brokers 2, 3"),
        (change(Leader=-1, Isr=(), LastKnownElr=(1,)), "broker 1"),
        (change(Leader=-1, Isr=()), "brokers 1, 2, 3"),
    ],
)
def test_the_brokers_that_may_lead_are_the_cause(gone: Record, cause: str) -> None:
    scene = Scene(NoLeader())
    scene.records(gone)
    assert [alarm.cause for alarm in scene.tick(31)] == [cause]


def test_a_failover_and_a_restart_are_in_time() -> None:
    scene = Scene(NoLeader())
    scene.records(change(Leader=-1))
    scene.tick(20)
    scene.records(change(Leader=2))
    assert scene.tick(20) == []
    scene.records(broker(1, 10, InControlledShutdown=True), change(Isr=(1,), Leader=-1))
    assert scene.tick(299) == []
    assert len(scene.tick(2)) == 1


# Below min.insync.replicas


def test_a_partition_below_min_insync_replicas() -> None:
    scene = Scene(BelowMinIsr())
    scene.records(config("min.insync.replicas", "2"), change(Isr=(1,)))
    assert scene.tick(59) == []
    found = scene.tick(2)
    assert [(alarm.cause, alarm.broker) for alarm in found] == [("broker 2", 2), ("broker 3", 3)]
    assert (
        "fewer replicas in sync than min.insync.replicas=2 for 61 s: the ISR is [1], and broker 2 is" in found[0].what
    )
    assert not any(scene.over(alarm) for alarm in found)
    scene.records(change(Isr=(1, 2)))
    scene.tick()
    assert [scene.over(alarm) for alarm in found] == [True, True]


@pytest.mark.parametrize(
    "records",
    [
        [config("min.insync.replicas", "2"), change(Isr=(1, 2))],
        [change(Isr=(1,))],  # min.insync.replicas=1
        [config("min.insync.replicas", "2"), change(Isr=(), Leader=-1)],  # `no_leader`
        [config("min.insync.replicas", "5")],  # at most the replicas count
    ],
)
def test_partitions_with_enough_in_sync(records: list[Record]) -> None:
    scene = Scene(BelowMinIsr())
    scene.records(*records)
    assert scene.tick(1000) == []


def test_a_setting_may_put_partitions_below_it_and_back() -> None:
    scene = Scene(BelowMinIsr())
    scene.records(change(Isr=(1,)))
    scene.tick(1000)
    scene.records(config("min.insync.replicas", "2"))
    assert scene.tick(59) == []
    assert len(scene.tick(2)) == 2
    scene.records(config("min.insync.replicas", "1"))
    assert scene.tick(100) == []
    scene.records(config("min.insync.replicas", None), config("min.insync.replicas", "2", name="", kind=4))
    assert len(scene.tick(61)) == 2


# A replica that never returns (KAFKA-17375)


def stuck(scene: Scene, *, log_end: int, leader_end: int, seconds: int) -> list[object]:
    found: list[object] = []
    for _ in range(seconds):
        found += scene.look(at(offsets(0, leader_end), log_ends={1: leader_end, 2: leader_end, 3: log_end}))
    return found


def out_of_isr() -> Scene:
    scene = Scene(ReplicaStuck())
    scene.records(*UP_3, WITHOUT_3)
    return scene


def test_a_replica_that_is_behind_and_does_not_move() -> None:
    scene = out_of_isr()
    assert stuck(scene, log_end=40, leader_end=100, seconds=300) == []
    found = scene.look(at(offsets(0, 120), log_ends={3: 40}))
    found += scene.look(at(offsets(0, 120), log_ends={3: 40}))
    (alarm,) = scene.confirm(found, at(offsets(0, 130), log_ends={1: 130}), at(offsets(0, 130), log_ends={3: 40}))
    assert (alarm.cause, alarm.broker, scene.rule.severity) == ("broker 3", 3, Severity.DANGER)
    assert (alarm.first_offset, alarm.end_offset) == (40, 120)
    assert "Broker 3 is up, but its replica of orders/0 has not returned to the ISR for 300 s" in alarm.what
    assert "its log end has been 40 since then, 80 below the leader's" in alarm.what
    assert stuck(scene, log_end=40, leader_end=100, seconds=10) == []  # reported once
    assert not scene.over(alarm)
    scene.records(WITH_3)
    assert scene.over(alarm)


def test_a_replica_that_has_caught_up_and_is_not_admitted() -> None:
    scene = out_of_isr()
    found = stuck(scene, log_end=100, leader_end=100, seconds=303)
    assert len(found) == 1


def test_a_replica_that_catches_up_slowly() -> None:
    scene = out_of_isr()
    found: list[object] = []
    for moved in range(40):
        found += stuck(scene, log_end=moved, leader_end=1000, seconds=30)
    assert found == []


@pytest.mark.parametrize(
    "record",
    [
        WITH_3,
        registration(3, 30, Fenced=1),
        registration(3, 30, InControlledShutdown=1),
        change(Replicas=(1, 2)),
        change(AddingReplicas=(3,)),
    ],
)
def test_replicas_that_need_not_return(record: Record) -> None:
    scene = out_of_isr()
    scene.records(record)
    assert stuck(scene, log_end=40, leader_end=100, seconds=400) == []


def test_a_broker_that_does_not_answer_proves_nothing() -> None:
    scene = out_of_isr()
    for _ in range(400):
        assert scene.look(at(offsets(0, 100), log_ends={1: 100})) == []


def test_a_replica_that_moves_at_the_second_look_is_not_stuck() -> None:
    scene = out_of_isr()
    stuck(scene, log_end=40, leader_end=100, seconds=300)
    found = [*scene.look(at(offsets(0, 100), log_ends={3: 40})), *scene.look(at(offsets(0, 100), log_ends={3: 40}))]
    assert scene.confirm(found, at(offsets(0, 100), log_ends={3: 60})) == []


@pytest.mark.parametrize("rule", [UnderReplicated(), NoLeader(), BelowMinIsr()], ids=lambda rule: rule.name)
def test_a_planned_outage_of_all_brokers_floods_nobody(rule: Rule) -> None:
    """Each rule has one alarm a broker, or one for all, and they end by themselves."""
    scene = Scene(rule)
    scene.records(config("min.insync.replicas", "2"), *(partition(number=number) for number in range(1, 300)))
    scene.records(*(change(number=number, Isr=(1,), Leader=-1) for number in range(300)))
    causes = {alarm.cause for alarm in scene.tick(1000)}
    assert len(causes) <= 2
