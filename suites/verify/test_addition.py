"""Additions of checks: parts of another form are refused where they are made, and numbers put them in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order, in_order


def doubts(*names: str, fail: bool = False) -> Iterator[Doubt]:
    for name in names:
        yield Doubt(name, "it was slow")
    if fail:
        raise KeyError("no such row")


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"findings": ["lost"]}, "it adds 'lost' to the findings of a verdict, which is no Finding"),
        ({"doubts": ["slow"]}, "it adds 'slow' to the doubts of a verdict, which is no Doubt"),
        ({"notes": [None]}, "it adds None to the notes of a verdict, which is no str"),
        ({"counts": {"records": 1.5}}, r"it adds 1\.5 to the counts of a verdict, which is no int"),
        ({"score": {"held": 1}}, "it adds 'held' to the score of a verdict, which has no such figure"),
        ({"doubts": doubts("slow", fail=True)}, "no such row"),
    ],
)
def test_parts_of_another_form_are_refused(parts: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError, KeyError), match=said):
        Addition(**parts)


def test_parts_may_be_generators() -> None:
    made = Addition(doubts=doubts("slow", "late"))  # type: ignore[arg-type]
    assert [[doubt.name for doubt in made.doubts] for _ in range(2)] == [["slow", "late"]] * 2


def test_parts_stand_in_the_order_of_their_numbers() -> None:
    last = Order().doubts
    assert in_order([(last, "a"), (20, "bc"), (last, "d"), (10, "e"), (20, "f")]) == ["e", "b", "c", "f", "a", "d"]
