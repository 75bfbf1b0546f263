"""Shrinking with a cluster that fails for a known reason."""

from __future__ import annotations

import pytest

from harness.chaos import profile
from harness.chaos.plan import plan_of
from harness.chaos.shrink import happenings_of, parts_of, shrink, without
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


def test_the_smallest_scenario_has_what_the_finding_needs_and_nothing_else(scenario: Scenario) -> None:
    shrunk = shrink(scenario, kills_a_leader, lambda: True)
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
    shrunk = shrink(scenario, kills_a_leader, lambda: False)
    assert shrunk.scenario == scenario
    assert shrunk.tried == 0


def test_the_search_ends_when_the_time_is_over(scenario: Scenario) -> None:
    times = iter([True] * 4 + [False] * 100)
    shrunk = shrink(scenario, kills_a_leader, lambda: next(times))
    assert kills_a_leader(shrunk.scenario)
    assert 0 < shrunk.tried <= 4


@pytest.mark.parametrize("episode", range(1, 16))
def test_every_smaller_plan_is_legal(episode: int) -> None:
    scenario = plan_of(3, profile.load("default"), episode).scenario
    do = next(step.do for step in scenario.steps if step.do not in ("heal", "hold"))
    seen: list[Scenario] = []

    def fails(smaller: Scenario) -> bool:
        seen.append(toml.parse(text_of(smaller), smaller.name, check_steps))
        return any(step.do == do for step in smaller.steps)

    shrunk = shrink(scenario, fails, lambda: True)
    assert happenings_of(shrunk.scenario) == 1
    assert len(seen) == shrunk.tried
