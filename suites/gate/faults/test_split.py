"""Shapes of a split network on a real cluster under load: what each side loses, and that it recovers."""

from __future__ import annotations

import pytest

from harness.faults.network import split
from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from suites.gate.playing import Play

pytestmark = pytest.mark.kafka

SHAPE = ClusterShape(controllers=3)
# Each broker leads a partition under a steady load; no producer writes to the one with two replicas.
TOPICS = (
    Topic(name="busy", partitions=3, assignment=((1, 2, 3), (2, 3, 1), (3, 1, 2))),
    Topic(name="held", partitions=1, replicas=2, assignment=((1, 2),)),
)
PRODUCERS = (
    Producer(name="steady", topics=("busy",), rate_per_s=600),
    Producer(name="held", topics=("held",), when="steps"),
)


def test_a_minority_loses_the_leadership(play: Play) -> None:
    cut, *_ = play(
        ("cut", {"do": "split", "into": "minority", "node": "leader(busy/0)"}),
        ("felt", {"do": "wait_effect", "fault": "cut"}),
        ("replaced", {"do": "wait_leader_changed", "since": "cut", "on": ["busy/0"]}),
        ("mended", {"do": "heal", "fault": "cut"}),
    )
    assert cut["resolved"]["sides"] == [["b1+c101"], ["b2+c102", "b3+c103"]]
    assert ["b1", "b2", "both"] in cut["resolved"]["links"]
    assert set(cut["effect"]["seen"]) == {"b1+c101", "b2+b3+c102+c103"}


@pytest.mark.parametrize("mode", ["silent", "refusing"])
def test_the_two_ends_of_a_bridge_leave_each_other_s_isr(play: Play, mode: str) -> None:
    arguments = {"do": "split", "into": "bridge", "node": "broker(2)", "among": "brokers", "mode": mode}
    torn, *_ = play(("torn", arguments))
    assert torn["resolved"]["links"] == [["b1", "b3", "both"], ["b3", "b1", "both"]]
    assert "left the ISR" in torn["effect"]["because"]


def test_a_ring_of_three_has_one_way_links_and_no_follower_keeps_up(play: Play) -> None:
    ring, *_ = play(("ring", {"do": "split", "into": "ring", "among": "brokers"}))
    assert {way for _, _, way in ring["resolved"]["links"]} == {"requests", "answers"}
    assert set(ring["effect"]["seen"]) == {"b1", "b2", "b3"}


def test_controllers_without_their_leader_elect_another(play: Play) -> None:
    cut, moved, *_ = play(
        ("cut", {"do": "split", "into": "minority", "node": "controller", "among": "controllers"}),
        ("moved", {"do": "wait_failover", "node": "controller", "since": "cut"}),
        ("mended", {"do": "heal", "fault": "cut"}),
    )
    assert moved["resolved"]["nodes"] != cut["resolved"]["sides"][0]
    assert cut["effect"]["held"]


def test_a_slow_minority_gets_records_later(play: Play) -> None:
    arguments = {"do": "split", "into": "minority", "node": "broker(3)", "among": "brokers", "mode": "slow"}
    late, *_ = play(("late", {**arguments, "latency_ms": 400}))
    assert "later" in late["effect"]["because"]


def test_a_flapping_bridge_is_healed_and_cut_again(play: Play) -> None:
    arguments = {"do": "split", "into": "bridge", "node": "broker(2)", "among": "brokers", "down_s": 3.5, "up_s": 0.5}
    flap, *_ = play(("flap", arguments))
    assert flap["effect"]["seen"]["flaps"] >= 2


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "DEADLINE_S", 6.0)


@pytest.mark.usefixtures("soon")
def test_a_bridge_at_the_active_controller_does_not_split_the_controllers(play: Play) -> None:
    text = play.doubt(("idle", {"do": "split", "into": "bridge", "node": "controller", "among": "controllers"}))
    assert "every controller still reaches the active one" in text


@pytest.mark.usefixtures("soon")
def test_a_delay_that_is_too_short_has_no_effect(play: Play) -> None:
    arguments = {"do": "split", "into": "bridge", "node": "broker(2)", "among": "brokers", "mode": "slow"}
    assert "lost nothing on" in play.doubt(("brief", {**arguments, "jitter_ms": 1}))


@pytest.mark.usefixtures("soon")
def test_a_split_without_load_has_no_effect(play: Play) -> None:
    play.without_load()
    arguments = {"do": "split", "into": "minority", "node": "broker(1)", "among": "brokers"}
    assert "no partition with acks in the last second" in play.doubt(("cut", arguments))
