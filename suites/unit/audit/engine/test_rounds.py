"""Rounds of looks: when one is late, and why partitions were looked at."""

from __future__ import annotations

import time

import pytest

from harness.audit.engine.cluster_state import ClusterState
from harness.audit.engine.looks import LookReason, Rounds
from suites.unit.model.history.logs import TOPIC_ID, batches, partition, topic

EVERY_S = 2.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock: its only item."""
    at_s = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: at_s[0])
    return at_s


def rounds() -> Rounds:
    state = ClusterState(lambda _after, _before: None)
    state.apply(batches(topic(), partition()))
    return Rounds(state, EVERY_S, lambda _topic: True)


def test_a_round_that_is_due_and_may_not_begin_is_late(now: list[float]) -> None:
    made = rounds()
    assert len(made.next()) == 1  # all partitions in one order, so the round is over
    now[0] += EVERY_S + 30
    assert made.late_s == 30
    assert len(made.next()) == 1
    assert made.late_s == 0


def test_a_round_that_begins_within_a_second_is_not_late(now: list[float]) -> None:
    made = rounds()
    made.next()
    now[0] += EVERY_S + 0.9
    assert made.late_s == 0


def test_the_first_round_is_due_at_the_start(now: list[float]) -> None:
    made = rounds()
    assert made.late_s == 0
    now[0] += 5
    assert made.late_s == 5
    made.next()
    made.restart()
    now[0] += 3
    assert made.late_s == 3


def test_looks_are_counted_by_the_first_reason(now: list[float]) -> None:
    made = rounds()
    made.soon(TOPIC_ID, 0, LookReason.CHANGE)
    made.soon(TOPIC_ID, 0, LookReason.AGAIN)
    made.soon("deleted", 0, LookReason.AGAIN)
    assert [asked.partition for asked in made.urgent()] == [0]
    made.next()
    assert made.ordered == {LookReason.CHANGE: 1, LookReason.ROUND: 1}
