"""Which suspicions a look is asked for, and when: fast for new ones, rarely for those that no look can decide yet."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from harness.audit.engine import second_looks as module
from harness.audit.engine.cluster_state import ClusterState
from harness.audit.engine.guard import Guard
from harness.audit.engine.looks import LookReason, Rounds
from harness.audit.engine.second_looks import SecondLooks
from harness.audit.look import PartitionLook
from harness.audit.rules.rule import Suspicion
from harness.audit.store.partitions import Offsets
from harness.model.clock import NS_PER_S
from suites.unit.audit.engine.engine_examples import LeaderLost
from suites.unit.model.history.logs import TOPIC, TOPIC_ID, batches, partition, topic

ALIVE, LOST = Offsets(leader_epoch=0, high_watermark=100), Offsets(leader_epoch=0, high_watermark=7)


def no_defect(rule: str, why: str) -> None:
    raise AssertionError(f"{rule}: {why}")


@dataclass
class Waiting:
    """Second looks with a clock that the test moves, and a metadata log that is known up to `known`."""

    at_s: float = 1000.0
    alarms: list[Suspicion] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = ClusterState(lambda _after, _before: None)
        self.state.apply(batches(topic(), partition()))
        self.rounds = Rounds(self.state, 1.0, lambda _topic: True)
        rules = {LeaderLost.name: LeaderLost()}
        self.looks = SecondLooks(self.state, self.rounds, rules, self.alarms.append, Guard(no_defect))
        self.known()

    def now_ns(self) -> int:
        return int(self.at_s * NS_PER_S)

    def known(self) -> None:
        """The metadata log is known up to now, in a portion that comes now."""
        self.state.known_ns = self.now_ns()
        self.looks.ask()

    def suspect(self, *, of_look: bool, record: int | None = None) -> None:
        what = Suspicion(
            rule=LeaderLost.name,
            cause=TOPIC,
            what="No leader.",
            at_ns=self.now_ns(),
            topic=TOPIC,
            topic_id=TOPIC_ID,
            partition=0,
            metadata_offset=record,
            needs_look=True,
        )
        self.looks.add(what, 0, of_look=of_look)

    def ordered(self) -> int:
        """How many looks are ordered now."""
        return len(self.rounds.urgent())

    def answer(self, offsets: Offsets, asked_s: float, error: str | None = None) -> None:
        self.looks.answered(
            PartitionLook(
                topic=TOPIC,
                topic_id=TOPIC_ID,
                partition=0,
                asked_ns=int(asked_s * NS_PER_S),
                answered_ns=self.now_ns(),
                offsets=offsets,
                error=error,
            )
        )


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    made = Waiting.__new__(Waiting)
    monkeypatch.setattr(time, "time_ns", lambda: made.now_ns())
    monkeypatch.setattr(time, "monotonic", lambda: made.at_s)
    Waiting.__init__(made)
    return made


def test_no_look_is_spent_before_the_metadata_log_is_known_up_to_the_suspicion(waiting: Waiting) -> None:
    waiting.suspect(of_look=True)
    for _ in range(50):  # portions of the log that were asked for before the suspicion
        waiting.looks.ask()
    for _ in range(5):
        waiting.at_s += 1
        waiting.looks.tick()
    assert (waiting.ordered(), waiting.looks.put_off, len(waiting.looks)) == (0, 56, 1)
    waiting.known()
    assert waiting.ordered() == 1
    asked_s = waiting.at_s
    waiting.at_s += 0.01
    waiting.answer(LOST, asked_s + 0.001)
    assert [alarm.what for alarm in waiting.alarms] == ["No leader."]
    assert waiting.rounds.ordered == {LookReason.SUSPICION: 1}


def test_a_record_raises_a_suspicion_and_its_look_is_ordered_at_once(waiting: Waiting) -> None:
    waiting.suspect(of_look=False, record=5)
    assert (waiting.ordered(), waiting.looks.put_off) == (1, 0)


def test_a_look_that_decides_nothing_is_repeated_once_soon_and_then_once_a_second(waiting: Waiting) -> None:
    waiting.suspect(of_look=False, record=5)
    ordered = [0.0] * waiting.ordered()
    begun_s = waiting.at_s
    for step in range(1, 401):  # a portion each 10 ms, and no broker that has the change
        waiting.at_s = begun_s + step / 100
        waiting.known()
        if waiting.ordered():
            ordered.append(step / 100)
            waiting.answer(Offsets(), waiting.at_s, error="UNKNOWN_LEADER_EPOCH")
    assert ordered == [0.0, 0.25, 1.25, 2.25, 3.25]
    assert waiting.looks.put_off == 400 - 4


def test_an_order_that_no_broker_answered_is_repeated_by_a_tick(waiting: Waiting) -> None:
    waiting.suspect(of_look=False, record=5)
    assert waiting.ordered() == 1
    waiting.looks.tick()
    assert waiting.ordered() == 0
    waiting.at_s += 1
    waiting.looks.tick()
    assert waiting.ordered() == 1


def test_a_new_record_about_the_partition_is_asked_about_at_once(waiting: Waiting) -> None:
    waiting.suspect(of_look=False, record=5)
    assert waiting.ordered() == 1
    waiting.at_s += 0.01
    waiting.suspect(of_look=False, record=6)
    assert waiting.ordered() == 1


def test_a_look_that_is_older_than_the_second_record_decides_only_about_the_first(waiting: Waiting) -> None:
    waiting.suspect(of_look=False, record=5)
    asked_s = waiting.at_s + 0.01
    waiting.at_s += 0.02
    waiting.suspect(of_look=False, record=6)
    waiting.answer(ALIVE, asked_s)
    assert (waiting.looks.dismissed, len(waiting.looks), waiting.alarms) == (1, 1, [])
    asked_s = waiting.at_s + 0.01
    waiting.at_s += 0.02
    waiting.answer(LOST, asked_s)
    assert [alarm.metadata_offset for alarm in waiting.alarms] == [6]


def test_looks_that_raise_suspicions_again_and_again_are_asked_for_once_a_second(waiting: Waiting) -> None:
    """Where no metadata log is read, a suspicion of a look can be decided at once."""
    waiting.state.known_ns = None
    for _ in range(300):  # each look shows the state that the next one dismisses
        waiting.suspect(of_look=True)
        waiting.looks.tick()
        asked_s = waiting.at_s
        waiting.at_s += 0.01
        if waiting.ordered():
            waiting.answer(ALIVE, asked_s + 0.001)
    assert sum(waiting.rounds.ordered.values()) == 3
    assert waiting.looks.dismissed == 3


def test_a_silent_metadata_log_puts_a_look_off_for_a_bounded_time(waiting: Waiting) -> None:
    waiting.suspect(of_look=True)
    begun_s = waiting.at_s
    while not waiting.ordered():
        waiting.at_s += 1
        waiting.looks.tick()
    assert waiting.at_s - begun_s == module._METADATA_S
    waiting.answer(LOST, waiting.at_s)
    assert [alarm.what for alarm in waiting.alarms] == [f"No leader. {module._NOT_KNOWN}"]
