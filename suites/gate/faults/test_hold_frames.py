"""Requests that arrive late, and a last replica that returns with a shorter log, on a real cluster under load."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.scenario.scenario import ClusterShape, Producer, Reader, Topic, Transactions
from suites.gate.playing import Play

pytestmark = pytest.mark.kafka

OF_HELD = {"do": "hold_frames", "apis": ["EndTxn"], "node": "txn_coordinator(held)", "producer": "held"}
OF_STEADY = {"do": "hold_frames", "apis": ["Produce"], "node": "leader(busy/0)", "producer": "steady"}
HALF = {"do": "produce", "producer": "held", "to": "held/0", "records": 20}
END = {"do": "end_transaction", "producer": "held"}

SHAPE = ClusterShape()
# A steady load that a group reads, and transactions and counted records that wait for steps.
TOPICS = (
    Topic(name="busy", partitions=2, assignment=((1, 2, 3), (2, 3, 1))),
    Topic(name="held", partitions=1, assignment=((2, 3, 1),)),
    Topic(name="counted", partitions=1, assignment=((3, 1, 2),)),
)
PRODUCERS = (
    Producer(name="steady", topics=("busy",), rate_per_s=600),
    Producer(name="held", topics=("held",), when="steps", transactions=Transactions()),
    Producer(name="counted", topics=("counted",), when="steps", config={"batch.num.messages": "10"}),
)
READERS = (Reader(name="grouped", topics=("busy",), group="readers"),)


def frames(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for row in rows for event in row["events"] if event["kind"] == "held_frame"]


def test_an_end_of_a_transaction_arrives_after_it_has_ended(play: Play) -> None:
    rows = play(
        ("half", HALF),
        ("late", OF_HELD),
        ("kept", END),
        ("next", HALF),
        ("dropped", END | {"commit": False}),
        ("come", {"do": "heal", "fault": "late"}),
        ("third", HALF),
        ("kept_too", END),
    )
    (held,) = frames(rows)
    assert held["client"].startswith("held-")
    assert held["held_ns"] < held["left_ns"] < held["again_ns"] < held["released_ns"] < held["answered_ns"]
    assert held["errors"] == ["INVALID_TXN_STATE"]


def test_a_transaction_that_has_ended_does_not_hang(play: Play) -> None:
    _, _, ended, aborted, _ = play.rows(
        ("half", HALF),
        ("kept", END),
        ("ended", {"do": "wait_transaction_ended", "producer": "held"}),
        ("aborted", {"do": "abort_transaction", "producer": "held", "on": "held/0"}),
    )
    assert ended["resolved"]["state"] == "CompleteCommit"
    assert aborted["effect"]["because"] == "no transaction of held hangs on held/0"
    marks = aborted["effect"]["seen"]
    assert marks["last_stable_offset"] == marks["high_watermark"]
    assert aborted["events"] == []


def test_records_arrive_a_second_time(play: Play) -> None:
    late, *rows = play(
        ("late", OF_STEADY),
        ("again", {"do": "wait_acks", "on": ["busy/0"], "records": 500}),
        ("come", {"do": "heal", "fault": "late"}),
    )
    assert "arrived after their clients had continued" in late["effect"]["because"]
    assert {held["api"] for held in frames(rows)} == {"Produce"}


def test_the_answers_to_commits_arrive_late(play: Play) -> None:
    arguments = {"do": "hold_frames", "apis": ["OffsetCommit"], "node": "group_coordinator(readers)", "answers": True}
    late, *_ = play(
        ("late", arguments),
        ("again", {"do": "wait_commits", "group": "readers"}),
        ("come", {"do": "heal", "fault": "late"}),
    )
    assert "arrived after their clients had continued" in late["effect"]["because"]


def test_a_request_that_is_only_slow_arrives_in_order(play: Play) -> None:
    late, *_ = play(("late", OF_STEADY | {"late": False, "for_s": 1.0}))
    (held, *_) = late["effect"]["seen"]["held"]
    assert held["left_ns"] is None
    assert held["released_ns"] - held["held_ns"] > 0.5e9


def test_without_a_held_frame_there_is_no_effect(play: Play) -> None:
    over = ("over", {"do": "heal", "fault": "late"})
    assert "no such frame arrived: EndTxn of held" in play.doubt(("late", OF_HELD), over)


def test_a_frame_that_is_released_too_soon_has_no_effect(play: Play) -> None:
    assert "still waited for them" in play.doubt(("late", OF_STEADY | {"for_s": 0.5, "patience_s": 0.2}))


TAIL = {"do": "lose_tail", "of": "counted/0", "tail_bytes": 20000}
RECORDS = {"do": "produce", "producer": "counted", "to": "counted/0", "records": 200}


def test_the_last_replica_returns_with_a_shorter_log_and_another_leads(play: Play) -> None:
    rows = play(
        ("replicated", RECORDS),
        ("cut", {"do": "cut_followers", "of": "counted/0"}),
        ("in_flight", RECORDS | {"records": 20, "acked": False, "deadline_s": 1.0}),
        ("alone", {"do": "wait_isr_alone", "on": ["counted/0"]}),
        ("die", TAIL),
        ("elected", {"do": "wait_leader_changed", "on": ["counted/0"], "since": "die"}),
        ("mended", {"do": "heal", "fault": "cut"}),
        ("back", {"do": "heal", "fault": "die"}),
    )
    (event,) = [event for row in rows for event in row["events"] if event["kind"] == "lost_tail"]
    assert event["elr_level"] == 1
    assert event["isr"] == [3]
    assert event["log_end"] < 200
    assert event["ended_at"] >= 200


def test_a_lost_tail_that_others_have_has_no_effect(play: Play) -> None:
    steps = (("replicated", RECORDS), ("die", TAIL), ("back", {"do": "heal", "fault": "die"}))
    assert "was not alone in the ISR" in play.doubt(*steps)
