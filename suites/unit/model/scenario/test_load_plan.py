"""The number of records of each scenario of a gate."""

from __future__ import annotations

from dataclasses import replace

from harness import scenarios
from harness.model.scenario.load_plan import records_of

TOTAL = 1_000_000


def test_the_scenarios_of_a_gate_share_the_total() -> None:
    gate = scenarios.gate()
    assert abs(sum(records_of(s, gate, TOTAL) for s in gate) - TOTAL) <= len(gate)


def test_a_scenario_outside_the_gate_gets_records_by_its_weight() -> None:
    gate = scenarios.gate()
    inside, outside = scenarios.load("leader_killed"), scenarios.load("contract_leader_dies")
    equal = replace(outside, load_weight=inside.load_weight)
    assert records_of(equal, gate, TOTAL) == records_of(inside, gate, TOTAL)
    assert (
        records_of(replace(equal, load_weight=inside.load_weight / 10), gate, TOTAL) * 10
        <= records_of(inside, gate, TOTAL) + 10
    )


def test_every_scenario_gets_at_least_one_record() -> None:
    gate = scenarios.gate()
    assert records_of(gate[0], gate, 1) == 1
