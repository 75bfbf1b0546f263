"""Pairs that former nights covered: kept by release, and the reason to prefer a plan with others."""

from __future__ import annotations

from pathlib import Path

from harness.chaos import profile
from harness.chaos.coverage import best_plan, pairs_of
from harness.chaos.former import FormerPairs
from harness.chaos.plan import Plan, plan_of

ONE, OTHER = ("kill", "3 replicas"), ("pause", "then kill")


def test_a_later_night_on_the_same_release_knows_them(tmp_path: Path) -> None:
    FormerPairs(tmp_path, "4.4.0").add([ONE])
    night = FormerPairs(tmp_path, "4.4.0")
    night.add([ONE, OTHER])
    assert FormerPairs(tmp_path, "4.4.0").pairs == {ONE, OTHER}
    assert FormerPairs(tmp_path, "4.5.0/x").pairs == set()
    assert night.file.read_text().count("kill") == 2  # a pair that is there is not written again


def test_a_line_that_a_kill_cut_off_spoils_no_other(tmp_path: Path) -> None:
    night = FormerPairs(tmp_path, "4.4.0")
    night.add([ONE])
    with night.file.open("ab") as file:
        file.write(b'[["pause","th')
    FormerPairs(tmp_path, "4.4.0").add([OTHER])
    assert FormerPairs(tmp_path, "4.4.0").pairs == {ONE, OTHER}


def test_pairs_that_no_night_covered_come_first() -> None:
    plans = [plan_of(7, profile.load("default"), 1, variation) for variation in range(4)]

    def pairs(plan: Plan) -> set[tuple[str, str]]:
        return pairs_of(plan.happenings, plan.scenario)

    first = best_plan(plans, ())
    assert best_plan(plans, (), former=pairs(first)) != first
    everything = set().union(*map(pairs, plans))
    assert best_plan(plans, (), former=everything) == first
