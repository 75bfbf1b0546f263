"""Replicas that move between log directories of a real broker, under load."""

from __future__ import annotations

import pytest

from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView
from harness.kafka.storage.log_directory import partition_directories
from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from suites.gate.playing import Play

pytestmark = pytest.mark.kafka

SHAPE = ClusterShape(log_dirs=2)
TOPICS = (
    Topic(name="moved", partitions=1, assignment=((1, 2, 3),)),
    Topic(name="idle", partitions=1, assignment=((1, 2, 3),)),
)
PRODUCERS = (
    Producer(name="steady", topics=("moved",), value_bytes=1000, rate_per_s=1000),
    Producer(name="bursts", topics=("idle",), when="steps"),
)


def held(cluster: Cluster, topic: str) -> list[int]:
    """The number of replicas of a topic in each log directory of broker 1."""
    return [len(partition_directories([directory], [topic])) for directory in cluster.log_directories(1)]


COPYABLE = ("copyable", {"do": "wait_acks", "on": ["moved/0"], "records": 1500})  # something to copy
MOVE = {"do": "move_log_dirs", "node": "broker(1)", "on": ["moved/0"], "rate_kb_s": 100}


def test_a_replica_moves_under_load(cluster: Cluster, play: Play, admin: AdminView) -> None:
    before = held(cluster, "moved")
    _, move, *_ = play(COPYABLE, ("move", MOVE), ("affected", {"do": "wait_effect", "fault": "move"}))
    assert "second copies of moved/0 were in the making under load" in move["effect"]["because"]
    assert held(cluster, "moved") == before[::-1]
    reported = admin.log_directories(1)
    assert reported is not None
    assert reported.replicas["moved", 0].future is None


def test_the_broker_may_die_during_the_move(cluster: Cluster, play: Play) -> None:
    before = held(cluster, "moved")
    play(
        COPYABLE,
        ("move", MOVE | {"rate_kb_s": 20}),
        ("affected", {"do": "wait_effect", "fault": "move"}),
        ("down", {"do": "kill", "node": "broker(1)"}),
        ("up", {"do": "heal", "fault": "down"}),
        ("there", {"do": "heal", "fault": "move"}),
    )
    assert held(cluster, "moved") == before[::-1]


def test_a_move_is_called_off_while_it_copies(cluster: Cluster, play: Play, admin: AdminView) -> None:
    before = held(cluster, "moved")
    *_, off, _, _ = play(
        COPYABLE,
        ("move", MOVE | {"rate_kb_s": 20}),
        ("affected", {"do": "wait_effect", "fault": "move"}),
        ("off", {"do": "redirect_log_dirs", "fault": "move"}),
        ("there", {"do": "heal", "fault": "move"}),
    )
    assert "second copies of moved/0 were in the making, and were dropped" in off["effect"]["because"]
    assert held(cluster, "moved") == before
    reported = admin.log_directories(1)
    assert reported is not None
    assert reported.replicas["moved", 0].future is None


def test_an_idle_replica_that_moves_has_no_effect(play: Play) -> None:
    reported = play.doubt(
        ("some", {"do": "produce", "producer": "bursts", "to": "idle/0", "records": 100}),
        ("later", {"do": "hold", "seconds": 1.5}),
        ("move", MOVE | {"on": ["idle/0"], "for_s": 0.5}),
    )
    assert "none of the moving partitions idle/0 had acks" in reported
