"""The wait for live readers ends when they have read the acknowledged records, or make no more progress."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from harness.model.place import Place
from harness.model.scenario.scenario import Reader
from harness.workload.consumers import catch_up
from harness.workload.consumers.catch_up import behind, let_catch_up, read_all
from harness.workload.consumers.unserved_reads import UnservedRead
from harness.workload.settings import reader_settings


@dataclass
class Clock:
    """A clock that only moves while a caller sleeps."""

    at_s: float = 0.0

    def monotonic(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds


@dataclass
class At:
    """A reader that gets one record of its topic at each of the given times."""

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
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(catch_up, "time", one)
    return one


def test_a_reader_without_lag_is_not_waited_for(clock: Clock) -> None:
    let_catch_up([At(clock, "quick", [0, 0])], {("t", 0): 1})
    assert clock.at_s == 0


def test_a_reader_of_a_transaction_that_has_just_ended_is_waited_for(clock: Clock) -> None:
    """It got nothing for 1.5 s, until the transaction ended."""
    let_catch_up([At(clock, "quick", [0, 0]), At(clock, "held", [0, 1.5])], {("t", 0): 1})
    assert 1.5 <= clock.at_s < 1.7


def test_a_reader_with_progress_is_waited_for_at_most_10_s(clock: Clock) -> None:
    let_catch_up([At(clock, "slow", [float(s) for s in range(100)])], {("t", 0): 99})
    assert 10 <= clock.at_s < 10.2


def test_a_reader_without_progress_is_waited_for_2_s(clock: Clock) -> None:
    let_catch_up([At(clock, "stuck", [0])], {("t", 0): 1})
    assert 2 <= clock.at_s < 2.2


def test_members_of_a_group_read_together(clock: Clock) -> None:
    let_catch_up([At(clock, "one", [], "g"), At(clock, "other", [0, 0], "g")], {("t", 0): 1})
    assert clock.at_s == 0
    let_catch_up([At(clock, "one", []), At(clock, "other", [0, 0])], {("t", 0): 1})
    assert clock.at_s > 0


def test_readers_that_have_read_everything_are_not_waited_for_again() -> None:
    clock = Clock()
    waited = read_all([At(clock, "quick", [0, 0])], {("t", 0): 1}, 5.0)
    assert (waited.ok, waited.last_seen) == (True, "")


def test_a_reader_that_stops_short_of_the_end_is_named_with_its_lag() -> None:
    clock = Clock()
    group = [At(clock, "one", [0], group="g"), At(clock, "two", [0], group="g")]
    waited = read_all(group, {("t", 0): 2}, 0.1)
    assert not waited.ok
    assert "t/0: 2" in waited.last_seen


def test_single_readers_that_are_behind_are_named_with_the_offset_that_they_want(clock: Clock) -> None:
    readers = [At(clock, "done", [0, 0, 0]), At(clock, "short", [0, 0]), At(clock, "member", [0], group="g")]
    assert [(spec.name, *rest) for spec, *rest in behind(readers, {("t", 0): 2})] == [("short", ("t", 0), 2)]


@pytest.mark.parametrize(
    ("config", "sizes"),
    [({}, (65_536, 1 << 20)), ({"fetch.min.bytes": "5000", "max.partition.fetch.bytes": "9000"}, (5000, 9000))],
)
def test_what_a_reader_asked_for_is_that_of_its_settings(config: dict[str, str], sizes: tuple[int, int]) -> None:
    settings = reader_settings(Reader(name="r", topics=("t",), config=config), "", "", {})
    read = UnservedRead.of("r", ("t", 0), 7, "id", settings)
    assert (read.reader, read.offset, read.min_bytes, read.max_bytes) == ("r", 7, *sizes)
