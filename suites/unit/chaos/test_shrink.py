"""Shrinking with a cluster that fails for a known reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.chaos import profile
from harness.chaos.plan import plan_of
from harness.chaos.shrink import happenings_of, parts_of, removed_from, shrink, without
from harness.chaos.suspects import guesses, repeated
from harness.faults.steps.registry import check_steps
from harness.model.scenario import toml
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml_text import text_of

TEXT = """
title = "Two rounds"
property = "Nothing is lost."
steps = [
  { do = "pause", node = "follower(noise/0)", name = "frozen" },
  { do = "wait_effect", fault = "frozen" },
  { do = "kill", node = "leader(plain/0)", name = "killed" },
  { do = "wait_leader_changed", on = ["plain/0"], since = "killed" },
  { do = "heal", fault = "frozen" },
  { do = "heal", fault = "killed" },
  { do = "wait_healthy" },
  { do = "move_leaders", on = ["noise/*"], name = "moved" },
]
[topics]
plain = {}
noise = {}
[producers]
plain = { topics = ["plain"] }
noise = { topics = ["noise"] }
[readers]
all = { topics = ["plain", "noise"] }
"""


@pytest.fixture
def scenario() -> Scenario:
    return toml.parse(TEXT, "two_rounds", check_steps)


def kills_a_leader(scenario: Scenario) -> bool:
    """The bug: a killed leader loses records of `plain`."""
    written = any("plain" in producer.topics for producer in scenario.producers)
    return written and any(step.do == "kill" for step in scenario.steps)


def kill_a_leader(scenarios: Sequence[Scenario]) -> list[bool]:
    return [kills_a_leader(one) for one in scenarios]


def test_the_smallest_scenario_has_what_the_finding_needs_and_nothing_else(scenario: Scenario) -> None:
    shrunk = shrink(scenario, kill_a_leader, lambda: True)
    assert [step.do for step in shrunk.scenario.steps] == ["kill"]
    assert [topic.name for topic in shrunk.scenario.topics] == ["plain"]
    assert [producer.name for producer in shrunk.scenario.producers] == ["plain"]
    assert not shrunk.scenario.readers
    assert happenings_of(shrunk.scenario) == 1
    assert toml.parse(text_of(shrunk.scenario), "two_rounds", check_steps) == shrunk.scenario


def test_a_fault_is_removed_with_its_healing_and_the_waits_for_it(scenario: Scenario) -> None:
    parts = {part.what: part for part in parts_of(scenario)}
    assert parts["step killed"].steps == {"killed", "wait_leader_changed", "heal_2"}
    smaller = without(scenario, [parts["step killed"]])
    assert smaller is not None
    assert [step.name for step in smaller.steps] == ["frozen", "wait_effect", "heal", "wait_healthy", "moved"]


def test_a_scenario_without_load_is_not_tried(scenario: Scenario) -> None:
    parts = {part.what: part for part in parts_of(scenario)}
    assert without(scenario, [parts["client plain"], parts["client noise"]]) is None


def test_without_time_nothing_is_removed(scenario: Scenario) -> None:
    shrunk = shrink(scenario, kill_a_leader, lambda: False)
    assert shrunk.scenario == scenario
    assert shrunk.tried == 0


def test_the_search_ends_when_the_time_is_over(scenario: Scenario) -> None:
    times = iter([True] * 2 + [False] * 100)
    shrunk = shrink(scenario, kill_a_leader, lambda: next(times))
    assert kills_a_leader(shrunk.scenario)
    assert len(shrunk.scenario.steps) < len(scenario.steps)
    assert removed_from(scenario, shrunk.scenario)


def test_no_scenario_is_asked_about_twice_after_it_did_not_fail(scenario: Scenario) -> None:
    asked: list[str] = []

    def fails(smaller: Sequence[Scenario]) -> list[bool]:
        asked.extend(text_of(one) for one in smaller)
        return kill_a_leader(smaller)

    shrink(scenario, fails, lambda: True)
    assert len(asked) == len(set(asked))


def test_parts_that_are_removable_alone_and_not_together_stay(scenario: Scenario) -> None:
    def fails(smaller: Sequence[Scenario]) -> list[bool]:
        return [any(step.do in ("kill", "pause") for step in one.steps) for one in smaller]

    shrunk = shrink(scenario, fails, lambda: True)
    assert [step.do for step in shrunk.scenario.steps] in (["kill"], ["pause"])


def test_a_guess_is_one_fault_on_the_topics_of_the_findings(scenario: Scenario) -> None:
    first, *others = guesses(scenario, {"plain"}, ["killed", "heal_2"])
    assert [step.name for step in first.steps] == ["killed", "wait_leader_changed", "heal_2"]
    assert [topic.name for topic in first.topics] == ["plain"]
    assert [step.do for step in first.steps if step.do == "heal"] == ["heal"]
    assert [one.steps[0].name for one in others[:2]] == ["frozen", "moved"]
    assert {"frozen", "killed"} <= {step.name for step in others[2].steps}, "then two faults together"


def test_a_finding_after_a_wait_suspects_the_fault_before_it(scenario: Scenario) -> None:
    assert guesses(scenario, {"noise"}, ["wait_healthy"])[0].steps[0].name == "killed"
    assert guesses(scenario, {"noise"}, ["moved"])[0].steps[0].name == "moved"


@pytest.mark.parametrize("episode", range(1, 30))
def test_every_guess_is_legal_and_smaller(episode: int) -> None:
    scenario = plan_of(3, profile.load("default"), episode).scenario
    for guess in guesses(scenario, {scenario.topics[0].name}, [scenario.steps[-1].name]):
        assert toml.parse(text_of(guess), guess.name, check_steps) == guess
        assert len(removed_from(scenario, guess)) > 0
        assert happenings_of(guess) <= 2


def test_a_repeated_scenario_refers_to_its_own_copies_and_heals_each(scenario: Scenario) -> None:
    (guess, *_) = guesses(scenario, {"plain"}, ["killed", "heal_2"])
    twice = repeated(guess, 2)
    assert twice is not None
    whole = ["killed", "wait_leader_changed", "heal_2", "healthy_again", "acks_again"]
    assert [step.name for step in twice.steps] == [*whole, *(f"{name}_2" for name in whole)]
    by_name = {step.name: step for step in twice.steps}
    assert by_name["wait_leader_changed_2"].args["since"] == by_name["heal_2_2"].args["fault"] == "killed_2"


def test_a_fault_that_nothing_heals_is_healed_before_it_is_repeated(scenario: Scenario) -> None:
    alone = without(scenario, [part for part in parts_of(scenario) if part.steps and "killed" not in part.steps])
    assert alone is not None
    assert [step.do for step in alone.steps] == ["kill"]
    twice = repeated(alone, 2)
    assert twice is not None
    assert [step.do for step in twice.steps] == 2 * ["kill", "heal", "wait_healthy", "wait_acks"]


@pytest.mark.parametrize("episode", range(1, 16))
def test_a_repeated_plan_is_legal_or_none(episode: int) -> None:
    scenario = plan_of(3, profile.load("default"), episode).scenario
    again = repeated(scenario, 3)
    assert again is None or happenings_of(again) == 3 * happenings_of(scenario)


@pytest.mark.parametrize("episode", range(1, 16))
def test_every_smaller_plan_is_legal(episode: int) -> None:
    scenario = plan_of(3, profile.load("default"), episode).scenario
    do = next(step.do for step in scenario.steps if step.do not in ("heal", "hold"))
    seen: list[Scenario] = []

    def fails(smaller: Sequence[Scenario]) -> list[bool]:
        seen.extend(toml.parse(text_of(one), one.name, check_steps) for one in smaller)
        return [any(step.do == do for step in one.steps) for one in smaller]

    shrunk = shrink(scenario, fails, lambda: True)
    assert happenings_of(shrunk.scenario) == 1
    assert len(seen) == shrunk.tried
