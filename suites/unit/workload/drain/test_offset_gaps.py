"""A position that stays out of range is at a gap, and the log continues after it where a part of the log starts."""

from __future__ import annotations

from harness.workload.drain.offset_gaps import GAP_AFTER_S, GapDetector

PLACE = ("t", 0)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_gap_must_last_and_each_later_start_is_tried_once() -> None:
    clock = Clock()
    gaps = GapDetector({PLACE: (0, 5, 20, 30)}, clock_s=clock)
    assert gaps.next_start(PLACE, 5) is None
    clock.now_s = GAP_AFTER_S - 0.1
    assert gaps.next_start(PLACE, 5) is None
    clock.now_s = GAP_AFTER_S
    assert [gaps.next_start(PLACE, 5) for _ in range(4)] == [20, 30, None, None]


def test_a_later_position_is_at_another_gap() -> None:
    clock = Clock()
    gaps = GapDetector({PLACE: (0, 5, 20, 30)}, clock_s=clock)
    gaps.next_start(PLACE, 5)
    clock.now_s = GAP_AFTER_S
    assert gaps.next_start(PLACE, 5) == 20
    assert gaps.next_start(PLACE, 25) is None
    clock.now_s = 2 * GAP_AFTER_S
    assert gaps.next_start(PLACE, 25) == 30


def test_without_known_starts_nothing_is_tried() -> None:
    clock = Clock()
    gaps = GapDetector({}, clock_s=clock)
    gaps.next_start(PLACE, 5)
    clock.now_s = GAP_AFTER_S
    assert gaps.next_start(PLACE, 5) is None


def test_a_start_is_known_as_such() -> None:
    gaps = GapDetector({PLACE: (0, 5)})
    assert [gaps.is_start(PLACE, offset) for offset in (0, 4, 5)] == [True, False, True]
    assert not gaps.is_start(("t", 1), 0)
