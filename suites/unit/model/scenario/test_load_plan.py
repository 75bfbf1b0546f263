"""How many records a scenario gets of the total of a gate."""

from __future__ import annotations

from dataclasses import replace

from harness import scenarios
from harness.model.scenario.load_plan import records_of

TOTAL = 1_000_000


def test_the_gate_shares_the_total() -> None:
    gate = scenarios.gate()
    assert abs(sum(records_of(s, gate, TOTAL) for s in gate) - TOTAL) <= len(gate)


def test_who_is_outside_the_gate_gets_what_his_share_is_beside_it() -> None:
    gate = scenarios.gate()
    inside, outside = scenarios.load("leader_killed"), scenarios.load("contract_leader_dies")
    alike = replace(outside, load_weight=inside.load_weight)
    assert records_of(alike, gate, TOTAL) == records_of(inside, gate, TOTAL)
    assert (
        records_of(replace(alike, load_weight=inside.load_weight / 10), gate, TOTAL) * 10
        <= records_of(inside, gate, TOTAL) + 10
    )


def test_nobody_gets_nothing() -> None:
    gate = scenarios.gate()
    assert records_of(gate[0], gate, 1) == 1
