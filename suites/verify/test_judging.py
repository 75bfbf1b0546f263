"""Histories of all modules are judged in one go, and none of them answers for another."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from suites.verify import judging
from suites.verify.judging import Entered

FAILED = "check_failed:lost"


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of what was judged together, each time; nobody else waits."""
    times: list[list[str]] = []

    def verdicts(_: object, histories: Sequence[Any]) -> list[Any]:
        times.append([history.name for history in histories])
        if "breaks the judge" in times[-1]:
            raise KeyError("position")
        doubts = [SimpleNamespace(name=FAILED)] if "breaks a check" in times[-1] else []
        return [SimpleNamespace(of=history.name, doubts=doubts) for history in histories]

    monkeypatch.setattr(judging, "verdicts", verdicts)
    monkeypatch.setattr(Entered, "_waiting", [])
    return times


def entered(*names: str) -> Entered:
    return Entered(SimpleNamespace(name=name) for name in names)  # type: ignore[misc]


def said(of: Entered) -> list[tuple[str, list[str]]]:
    return [(verdict.of, [d.name for d in verdict.doubts]) for verdict in of.verdicts(None)]  # type: ignore[attr-defined, arg-type]


def test_all_that_wait_are_judged_together_and_each_is_told_its_own(judged: list[list[str]]) -> None:
    first, second = entered("a", "b"), entered("c")
    assert said(second) == [("c", [])]
    assert said(first) == [("a", []), ("b", [])]
    assert judged == [["a", "b", "c"]]
    assert said(entered("late")) == [("late", [])]
    assert judged[1:] == [["late"]]


def test_what_breaks_the_judge_breaks_it_for_nobody_else(judged: list[list[str]]) -> None:
    well, broken = entered("a"), entered("breaks the judge")
    assert said(well) == [("a", [])]
    for _ in range(2):
        with pytest.raises(KeyError, match="position"):
            said(broken)
    assert judged[:2] == [["a", "breaks the judge"], ["a"]]


def test_what_breaks_a_check_leaves_that_doubt_to_itself(judged: list[list[str]]) -> None:
    well, broken = entered("a"), entered("breaks a check")
    assert said(broken) == [("breaks a check", [FAILED])]
    assert said(well) == [("a", [])]
    assert judged == [["a", "breaks a check"], ["breaks a check"], ["a"]]
