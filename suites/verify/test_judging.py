"""Histories of all modules are judged together, and none affects the verdict on another."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from suites.verify import judging
from suites.verify.judging import HistoryBatch

FAILED = "check_failed:lost"


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the histories of each judgement; no other batches wait."""
    times: list[list[str]] = []

    def verdicts(_: object, histories: Sequence[Any]) -> list[Any]:
        times.append([history.name for history in histories])
        if "breaks the judge" in times[-1]:
            raise KeyError("position")
        doubts = [SimpleNamespace(name=FAILED)] if "breaks a check" in times[-1] else []
        return [SimpleNamespace(of=history.name, doubts=doubts) for history in histories]

    monkeypatch.setattr(judging, "verdicts", verdicts)
    monkeypatch.setattr(HistoryBatch, "_waiting", [])
    return times


def batch(*names: str) -> HistoryBatch:
    return HistoryBatch(SimpleNamespace(name=name) for name in names)  # type: ignore[misc]


def names_of(batch_: HistoryBatch) -> list[tuple[str, list[str]]]:
    return [(verdict.of, [d.name for d in verdict.doubts]) for verdict in batch_.verdicts(None)]  # type: ignore[attr-defined, arg-type]


def test_waiting_batches_are_judged_together_and_each_gets_its_own_verdicts(judged: list[list[str]]) -> None:
    first, second = batch("a", "b"), batch("c")
    assert names_of(second) == [("c", [])]
    assert names_of(first) == [("a", []), ("b", [])]
    assert judged == [["a", "b", "c"]]
    assert names_of(batch("late")) == [("late", [])]
    assert judged[1:] == [["late"]]


def test_a_history_that_breaks_the_judge_fails_only_its_own_batch(judged: list[list[str]]) -> None:
    sound, broken = batch("a"), batch("breaks the judge")
    assert names_of(sound) == [("a", [])]
    for _ in range(2):
        with pytest.raises(KeyError, match="position"):
            names_of(broken)
    assert judged[:2] == [["a", "breaks the judge"], ["a"]]


def test_a_history_that_breaks_a_check_makes_that_doubt_only_in_its_own_batch(judged: list[list[str]]) -> None:
    sound, broken = batch("a"), batch("breaks a check")
    assert names_of(broken) == [("breaks a check", [FAILED])]
    assert names_of(sound) == [("a", [])]
    assert judged == [["a", "breaks a check"], ["breaks a check"], ["a"]]
