"""Transactions that hang, at their coordinator or in a partition."""

from __future__ import annotations

import pytest

from harness.audit.rules.hanging_transaction import HangingTransaction
from harness.audit.rules.stable_offset_stands import StableOffsetStands
from harness.audit.store.partitions import Offsets
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import Scene, at, offsets, ranges
from suites.unit.model.history.logs import TOPIC, config


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "PrepareAbort"])
def test_a_transaction_that_is_open_for_longer_than_its_timeout(state: str) -> None:
    scene = Scene(HangingTransaction())
    assert scene.transaction(state) == []
    scene.wait(120)
    assert scene.transaction(state) == []
    scene.wait(1)
    (alarm,) = scene.transaction(state)
    assert (alarm.topic, alarm.partition, alarm.cause) == (TOPIC, 0, "transactional.id pay")
    assert scene.rule.severity is Severity.DANGER
    assert f"seen in state {state} for 121 s; its timeout is 1 min" in alarm.what
    assert scene.transaction(state) == []
    assert not scene.over(alarm)
    scene.wait(61)  # it is in no list any more
    assert scene.over(alarm)


def test_one_transaction_after_another() -> None:
    scene = Scene(HangingTransaction())
    for started_ms in range(1000):
        assert scene.transaction(started_ms=started_ms) == []
        scene.wait(1)


def test_a_clock_of_the_coordinator_that_is_behind() -> None:
    """Its transactions look old from the start."""
    scene = Scene(HangingTransaction())
    scene.transaction(started_ms=0)
    scene.wait(100)
    assert scene.transaction(started_ms=0) == []


def test_a_transaction_that_ends() -> None:
    scene = Scene(HangingTransaction())
    scene.transaction()
    scene.wait(100)
    assert scene.transaction("CompleteCommit") == []
    scene.wait(100)
    assert scene.transaction() == []


def test_an_alarm_stays_while_coordinators_do_not_answer() -> None:
    scene = Scene(HangingTransaction())
    scene.transaction()
    scene.wait(121)
    (alarm,) = scene.transaction()
    scene.view.covered.discard("transactions")
    scene.wait(1000)
    assert not scene.over(alarm)


def stand(
    scene: Scene, seconds: int, stable: int, first: int, step: int
) -> list[tuple[str, int | None, int | None, int | None]]:
    found = []
    for second in range(0, seconds, 10):
        scene.wait(9)
        found += scene.look(at(offsets(0, first + step * second), stable=stable))
    return ranges(found)


def test_a_stable_offset_that_stands_for_longer_than_any_transaction_may_last() -> None:
    scene = Scene(StableOffsetStands())
    assert stand(scene, 960, 50, 100, 1) == []
    assert stand(scene, 60, 50, 1100, 1) == [(TOPIC, 0, 50, 1100)]
    assert stand(scene, 60, 50, 1200, 1) == []


def test_the_longest_timeout_that_brokers_allow_counts() -> None:
    scene = Scene(StableOffsetStands())
    scene.records(config("transaction.max.timeout.ms", "60000", name="", kind=4))
    assert len(stand(scene, 200, 50, 100, 1)) == 1


def test_a_stable_offset_that_moves_or_that_nothing_was_written_behind() -> None:
    scene = Scene(StableOffsetStands())
    assert [stand(scene, 900, stable, 1000, 1) for stable in (50, 60, 70)] == [[]] * 3
    assert stand(Scene(StableOffsetStands()), 3000, 50, 100, 0) == []  # idle: no record is held back
    assert stand(Scene(StableOffsetStands()), 3000, 5000, 100, 1) == []
    scene = Scene(StableOffsetStands())
    for _ in range(300):
        assert scene.look(at(Offsets(), error="NOT_LEADER_OR_FOLLOWER")) == []


def test_the_alarm_ends_when_the_stable_offset_moves() -> None:
    scene = Scene(StableOffsetStands({"slack_s": 0}))
    scene.view.static = {"transaction.max.timeout.ms": "1000"}
    scene.look(at(offsets(0, 100), stable=50))
    (alarm,) = scene.look(at(offsets(0, 120), stable=50))
    assert not scene.over(alarm)
    scene.look(at(offsets(0, 120), stable=120))
    scene.wait(1)
    assert scene.over(alarm)
