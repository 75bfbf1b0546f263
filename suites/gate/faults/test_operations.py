"""Operations under load on a real cluster: each has an effect, says when it had none, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kafka.admin.client import AdminView
from harness.model.scenario.scenario import ClusterShape, Processing, Producer, Reader, Topic, Transactions
from harness.model.waiting import wait_for
from suites.gate.playing import Play

pytestmark = pytest.mark.kafka

SHAPE = ClusterShape()
# A topic that can move to another broker, under a load of 1.5 MB/s, and one that only steps write to.
TOPICS = (
    Topic(name="moved", partitions=2, replicas=2, assignment=((1, 2), (2, 3))),
    Topic(name="idle", partitions=1, replicas=2, assignment=((1, 2),)),
    Topic(name="made", partitions=1),
)
PRODUCERS = (
    Producer(name="steady", topics=("moved",), value_bytes=1000, rate_per_s=1500),
    Producer(name="bursts", topics=("idle",), when="steps"),
    Producer(
        name="worker",
        topics=("made",),
        when="input",
        processes=Processing(reads=("idle",), group="workers"),
        transactions=Transactions(abort_share=0),
    ),
)
READERS = (
    Reader(name="assigned", topics=("moved",)),
    Reader(name="grouped", topics=("moved",), group="readers"),
    Reader(name="hasty", topics=("idle",), group="most", commits="before"),
    Reader(name="here", topics=("moved",), group="named", static=True),
    Reader(name="there", topics=("moved",), group="named", static=True),
)


COPYABLE = ("copyable", {"do": "wait_acks", "on": ["moved/*"], "records": 1000})  # something to copy
MOVE = {"do": "reassign", "on": ["moved/*"], "wait": False}
THROTTLE = {"do": "throttle", "on": ["moved/*"], "rate_kb_s": 20, "side": "follower"}


def test_a_throttled_move_takes_longer_and_leaves_no_setting_behind(play: Play, admin: AdminView) -> None:
    _, free, *_ = play(COPYABLE, ("free", {"do": "reassign", "on": ["moved/*"]}))
    throttle, move, *_, done, _ = play(
        ("throttle", THROTTLE),
        ("move", MOVE),
        ("copying", {"do": "wait_reassigning", "on": ["moved/*"]}),
        ("slow", {"do": "wait_effect", "fault": "throttle"}),
        ("held", {"do": "hold", "seconds": 2 * free["resolved"]["waited_s"]}),
        ("heal", {"do": "heal", "fault": "throttle"}),
        ("done", {"do": "wait_reassigned", "on": ["moved/*"]}),
    )
    assert "did not get nearer to their leaders" in throttle["effect"]["because"]
    assert "began to move to other brokers" in move["effect"]["because"]
    took_s = (done["ended_ns"] - move["started_ns"]) / 1e9
    assert took_s > 2 * free["resolved"]["waited_s"]
    left = {key: value for key, value in admin.topic_configs(["moved"])["moved"].items() if "throttled" in key}
    assert set(left.values()) <= {"", "[]"}, left
    rates = [
        v for settings in admin.broker_configs().values() for k, v in settings.items() if k.endswith("throttled.rate")
    ]
    assert set(rates) <= {str((1 << 63) - 1)}, rates


def test_a_move_that_is_cancelled_leaves_the_replicas_as_they_were(play: Play, admin: AdminView) -> None:
    before = {(s.topic, s.partition): set(s.replicas) for s in admin.partitions(["moved"])}
    *_, cancelled, _, _ = play(
        COPYABLE,
        ("throttle", THROTTLE),
        ("move", MOVE),
        ("slow", {"do": "wait_effect", "fault": "throttle"}),
        ("cancelled", {"do": "cancel_reassignment", "on": ["moved/*"]}),
        ("heal", {"do": "heal", "fault": "throttle"}),
    )
    assert "lost the replicas that were being added" in cancelled["effect"]["because"]
    assert {(s.topic, s.partition): set(s.replicas) for s in admin.partitions(["moved"])} == before


def test_an_in_sync_replica_is_not_throttled(play: Play) -> None:
    assert "only such replicas are throttled" in play.doubt(("throttle", THROTTLE | {"of": "all", "for_s": 1.0}))


def test_throttling_only_the_leaders_slows_a_move_too(play: Play) -> None:
    throttle, *_ = play(
        ("throttle", THROTTLE | {"side": "leader"}),
        ("move", MOVE),
        ("heal", {"do": "heal", "fault": "throttle"}),
        ("done", {"do": "wait_reassigned", "on": ["moved/*"]}),
    )
    assert throttle["effect"]["held"]


def test_throttling_in_sync_replicas_has_no_effect(play: Play) -> None:
    throttle = {"do": "throttle", "on": ["idle/0"], "rate_kb_s": 20, "for_s": 1.0}
    assert "only such replicas are throttled" in play.doubt(("throttle", throttle))


def test_a_new_replica_and_the_leader_die_during_the_move(play: Play, admin: AdminView) -> None:
    rows = play(
        COPYABLE,
        ("throttle", THROTTLE),
        ("move", MOVE | {"on": ["moved/0"]}),
        ("copying", {"do": "wait_reassigning", "on": ["moved/0"]}),
        ("slow", {"do": "wait_effect", "fault": "throttle"}),
        ("leader", {"do": "kill", "node": "leader(moved/0)"}),
        ("moved", {"do": "wait_leader_changed", "on": ["moved/0"], "since": "leader"}),
        ("up", {"do": "heal", "fault": "leader"}),
        ("free", {"do": "heal", "fault": "throttle"}),
        ("done", {"do": "wait_reassigned", "on": ["moved/0"]}),
    )
    assert next(row for row in rows if row["name"] == "leader")["resolved"]["nodes"] == [1]
    assert admin.partitions(["moved"])[0].replicas == (2, 3)


def test_a_change_that_is_only_to_be_validated_is_answered_and_not_made(play: Play, admin: AdminView) -> None:
    features, config = admin.features(), admin.topic_configs(["idle"])
    asked, *_ = play(("asked", {"do": "validate_only", "topic": "idle"}))
    assert asked["resolved"]["answers"] == dict.fromkeys(
        ("CreateTopics", "CreatePartitions", "IncrementalAlterConfigs", "UpdateFeatures")
    )
    assert (admin.features(), admin.topic_configs(["idle"])) == (features, config)
    assert len(admin.partitions(["idle", "idle-validated"])) == 1


def test_new_partitions_are_written_to_and_read(play: Play, admin: AdminView) -> None:
    grow, *_ = play(
        ("grow", {"do": "create_partitions", "topic": "moved", "total": 4}),
        ("acks", {"do": "wait_acks", "on": ["moved/*"], "records": 100}),
    )
    assert "moved/2, moved/3 were added to the topic and had acks" in grow["effect"]["because"]
    assert [(e["partition"], e["partitions"]) for e in grow["events"] if e["kind"] == "partitions_added"] == [(2, 4)]
    assert [s.partition for s in admin.partitions(["moved"])] == [0, 1, 2, 3]
    load: Any = play.stage.load
    behind = load.mark()
    assert {p for t, p in behind.acked if t == "moved"} == {0, 1, 2, 3}
    wait_for(
        lambda: load.unserved_since(behind),
        until=lambda left: not left,
        deadline_s=30,
        what="readers of all partitions",
    )


def test_new_partitions_without_load_have_no_effect(play: Play) -> None:
    play.without_load()
    grow = {"do": "create_partitions", "topic": "moved", "total": 3, "deadline_s": 2.0}
    assert "for acks on moved/2" in play.doubt(("grow", grow))


DIES = ("dies", {"do": "reader_dies", "group": "most", "records": 20})
REVIVE = ("revive", {"do": "heal", "fault": "dies"})


def test_a_reader_dies_with_committed_records_that_it_did_not_process(play: Play) -> None:
    some = {"do": "produce", "producer": "bursts", "to": "idle/0", "records": 20}
    read = {"do": "wait_read", "group": "most"}
    first, _, dies, *rest = play(
        ("first", some), ("read", read), DIES, ("some", some), REVIVE, ("others", some), ("on", read)
    )
    assert first["resolved"]["acked"] == 20
    ((start, end),) = dies["effect"]["seen"].values()
    assert end - start == 20
    (event,) = [event for row in (dies, *rest) for event in row["events"] if event["kind"] == "reader_died"]
    assert (event["from_offset"], event["before_offset"], event["group"]) == (start, end, "most")


def test_a_reader_that_receives_nothing_does_not_die(play: Play) -> None:
    assert "group most received 0 of 20 records" in play.doubt(DIES, REVIVE)


def test_a_static_member_returns_without_a_rebalance_and_may_change_its_protocol(play: Play, admin: AdminView) -> None:
    again, over, _ = play(
        ("again", {"do": "restart_reader", "reader": "here"}),
        ("over", {"do": "restart_reader", "reader": "here", "protocol": "consumer"}),
    )
    assert "got its partitions again" in again["effect"]["because"]
    assert again["effect"]["seen"]["had"] == again["effect"]["seen"]["has"]
    assert over["effect"]["seen"]["group_type"] == admin.group_type("named") == "consumer"
    assert admin.group_type("readers") == "classic"
    assert admin.group_type("nobody's") == ""


FALLS = ("falls", {"do": "processor_dies", "group": "workers", "at": "offsets", "records": 20, "zombie": True})
RISES = ("rises", {"do": "heal", "fault": "falls"})


def test_a_processor_dies_during_its_work_and_its_zombie_is_fenced(play: Play) -> None:
    some = {"do": "produce", "producer": "bursts", "to": "idle/0", "records": 20}
    done = {"do": "wait_read", "group": "workers"}
    *_, falls, _, rises, _, _ = play(("first", some), ("done", done), FALLS, ("some", some), RISES, ("all_done", done))
    ((start, end),) = falls["effect"]["seen"].values()
    assert end - start == 20
    assert "its zombie was fenced" in falls["effect"]["because"]
    (event,) = [event for row in (falls, rises) for event in row["events"] if event["kind"] == "processor_died"]
    assert (event["from_offset"], event["before_offset"], event["at"]) == (start, end, "offsets")


def test_a_processor_that_receives_nothing_does_not_die(play: Play) -> None:
    assert "the processor of workers received 0 of 20 records" in play.doubt(FALLS, RISES)


def test_a_leader_is_removed_from_a_partition_and_follows_again(play: Play, admin: AdminView) -> None:
    before = {s.partition: s.leader for s in admin.partitions(["moved"])}
    away, *_ = play(
        ("away", {"do": "reassign_away", "on": ["moved/*"]}),
        ("acks", {"do": "wait_acks", "on": ["moved/*"], "records": 100}),
        ("back", {"do": "heal", "fault": "away"}),
    )
    assert away["effect"]["held"]
    for state in admin.partitions(["moved"]):
        assert state.leader != before[state.partition]
        assert {state.leader, before[state.partition]} == set(state.replicas) == set(state.isr)
