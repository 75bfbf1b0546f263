"""A position that stays out of range is a hole, and the log goes on behind it where something begins."""

from __future__ import annotations

from harness.workload.drain.offset_gaps import HOLE_S, Holes

PLACE = ("t", 0)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_hole_is_what_lasts_and_each_joint_behind_it_is_tried_once() -> None:
    clock = Clock()
    holes = Holes({PLACE: (0, 5, 20, 30)}, clock_s=clock)
    assert holes.behind(PLACE, 5) is None
    clock.now_s = HOLE_S - 0.1
    assert holes.behind(PLACE, 5) is None
    clock.now_s = HOLE_S
    assert [holes.behind(PLACE, 5) for _ in range(4)] == [20, 30, None, None]


def test_who_got_further_stands_before_another_one() -> None:
    clock = Clock()
    holes = Holes({PLACE: (0, 5, 20, 30)}, clock_s=clock)
    holes.behind(PLACE, 5)
    clock.now_s = HOLE_S
    assert holes.behind(PLACE, 5) == 20
    assert holes.behind(PLACE, 25) is None
    clock.now_s = 2 * HOLE_S
    assert holes.behind(PLACE, 25) == 30


def test_where_nothing_is_known_to_begin_nothing_is_tried() -> None:
    clock = Clock()
    holes = Holes({}, clock_s=clock)
    holes.behind(PLACE, 5)
    clock.now_s = HOLE_S
    assert holes.behind(PLACE, 5) is None


def test_at_a_joint_something_begins() -> None:
    holes = Holes({PLACE: (0, 5)})
    assert [holes.begins(PLACE, offset) for offset in (0, 4, 5)] == [True, False, True]
    assert not holes.begins(("t", 1), 0)
