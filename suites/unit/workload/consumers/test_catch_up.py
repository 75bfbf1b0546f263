"""Live readers are let go of when they have what is acknowledged, and not before while they get on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from harness.model.scenario.scenario import Reader
from harness.workload.consumers import catch_up
from harness.workload.consumers.catch_up import let_catch_up
from harness.workload.meters import Place


@dataclass
class Clock:
    """Seconds that pass while somebody waits, and nothing else."""

    at_s: float = 0.0

    def monotonic(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds


@dataclass
class At:
    """A reader that is given a record of its topic each time that it says when, by the clock."""

    clock: Clock
    name: str
    given_s: list[float]
    group: str | None = None
    spec: Reader = field(init=False)

    def __post_init__(self) -> None:
        self.spec = Reader(name=self.name, topics=("t",), group=self.group)

    @property
    def positions(self) -> dict[Place, int]:
        return {("t", 0): sum(at_s <= self.clock.at_s for at_s in self.given_s)}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    one = Clock()
    monkeypatch.setattr(catch_up, "time", one)
    return one


def test_whoever_has_all_is_not_waited_for(clock: Clock) -> None:
    let_catch_up([At(clock, "quick", [0, 0])], {("t", 0): 1})
    assert clock.at_s == 0


def test_a_reader_of_a_transaction_that_has_just_ended_is_waited_for(clock: Clock) -> None:
    """Nothing came for a second and a half: it was held back."""
    let_catch_up([At(clock, "quick", [0, 0]), At(clock, "held", [0, 1.5])], {("t", 0): 1})
    assert 1.5 <= clock.at_s < 1.7


def test_whoever_gets_on_is_waited_for_and_not_for_ever(clock: Clock) -> None:
    let_catch_up([At(clock, "slow", [float(s) for s in range(100)])], {("t", 0): 99})
    assert 10 <= clock.at_s < 10.2


def test_whoever_stands_still_is_given_up(clock: Clock) -> None:
    let_catch_up([At(clock, "stuck", [0])], {("t", 0): 1})
    assert 2 <= clock.at_s < 2.2


def test_members_of_a_group_read_together(clock: Clock) -> None:
    let_catch_up([At(clock, "one", [], "g"), At(clock, "other", [0, 0], "g")], {("t", 0): 1})
    assert clock.at_s == 0
    let_catch_up([At(clock, "one", []), At(clock, "other", [0, 0])], {("t", 0): 1})
    assert clock.at_s > 0
