"""Decisions that are drawn from hashes of their names."""

from __future__ import annotations

from collections import Counter

from harness.chaos.draw import Draw


def test_a_decision_is_the_same_whatever_else_is_drawn() -> None:
    alone = Draw("7/episode 1").number("kind")
    draw = Draw("7/episode 1")
    draw.number("another")
    assert draw.number("kind") == alone


def test_a_decision_is_the_same_on_every_machine() -> None:
    assert Draw("7/episode 1").number("kind") == 12058350201257321146


def test_a_removed_choice_changes_only_the_decisions_that_it_had_won() -> None:
    draws = [Draw(f"7/episode {number}") for number in range(200)]
    before = [draw.one("kind", ["cut", "kill", "pause"]) for draw in draws]
    after = [draw.one("kind", ["cut", "pause"]) for draw in draws]
    assert all(new == old for old, new in zip(before, after, strict=True) if old != "kill")
    assert {old for old, new in zip(before, after, strict=True) if old != new} == {"kill"}


def test_weights_are_lots() -> None:
    weights = {"often": 3, "rarely": 1, "never": 0}
    drawn = Counter(Draw(str(n)).one("kind", list(weights), weight=weights.__getitem__) for n in range(2000))
    assert set(drawn) == {"often", "rarely"}
    assert 1400 < drawn["often"] < 1600


def test_a_choice_that_is_listed_twice_has_two_lots() -> None:
    drawn = Counter(Draw(str(n)).one("replicas", [3, 3, 3, 2]) for n in range(2000))
    assert 1400 < drawn[3] < 1600


def test_a_place_within_another_has_decisions_of_its_own() -> None:
    draw = Draw("7")
    assert draw.within("a").number("b") != draw.within("b").number("a")
    assert draw.within("a").number("b") == Draw("7/a").number("b")
