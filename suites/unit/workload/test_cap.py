"""The cap of the whole load: no second has more records than it allows, however many producers ask."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.workload import pacing
from harness.workload.pacing import Cap


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(pacing, "time", found)
    return found


@pytest.mark.parametrize("rate_per_s", [1, 7, 200, 5000])
def test_no_second_has_more_records_than_the_cap(clock: Clock, rate_per_s: int) -> None:
    cap, given = Cap(rate_per_s), []
    for _ in range(3000):
        clock.now_s += 0.001
        given.append((clock.now_s, cap.take(100)))
    for at, _ in given:
        within = sum(count for when, count in given if at <= when < at + 1)
        assert within <= rate_per_s + max(1, rate_per_s * 0.05) + 1
    assert sum(count for _, count in given) >= 2.9 * rate_per_s - 1


def test_a_pause_is_not_caught_up(clock: Clock) -> None:
    cap = Cap(1000)
    clock.now_s += 60
    assert cap.take(10_000) == 50
    assert cap.take(10_000) == 0


def test_all_producers_share_one_cap(clock: Clock) -> None:
    cap = Cap(1000)
    clock.now_s += 1
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: cap.take(10), range(100))) == 50
