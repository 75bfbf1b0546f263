"""A transaction coordinator that moves in every phase of a transaction, on a real cluster."""

from __future__ import annotations

import pytest

from harness.model.scenario.scenario import ClusterShape, Producer, Reader, Topic, Transactions
from suites.gate.playing import Play

pytestmark = pytest.mark.kafka

SHAPE = ClusterShape()
TOPICS = (Topic(name="paid", partitions=2),)
PRODUCERS = (
    Producer(name="payments", topics=("paid",), rate_per_s=500, transactions=Transactions(records=20)),
    Producer(name="rare", topics=("paid",), when="steps", transactions=Transactions()),
)
READERS = (Reader(name="committed", topics=("paid",)),)


def test_the_coordinator_moves_while_a_transaction_is_open_decided_and_ended(play: Play) -> None:
    _, moved, *_ = play(
        ("far", {"do": "slow", "src": "brokers", "dst": "brokers", "latency_ms": 200}),
        ("moved", {"do": "move_coordinator", "producer": "payments"}),
        ("near", {"do": "heal", "fault": "far"}),
        ("flowing", {"do": "wait_acks", "on": ["paid/*"], "records": 100}),
    )
    assert moved["effect"]["held"]
    moves = moved["resolved"]["moved"]
    assert [*moves] == ["open", "decided", "ended"]
    assert all(before != after for before, after in moves.values())


def test_a_phase_that_never_comes_is_no_effect(play: Play) -> None:
    """Its transactions begin with steps, and there is none here."""
    moved, *_ = play.rows(("moved", {"do": "move_coordinator", "producer": "rare", "deadline_s": 2}))
    assert not moved["effect"]["held"]
    assert "in 0 of 3 phases" in moved["effect"]["because"]
