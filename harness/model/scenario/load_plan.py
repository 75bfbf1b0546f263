"""The number of records of each scenario of a gate, and the rate of its producers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.model.scenario.scenario import Producer, Scenario

# The load must still run when the last fault heals, so the records are spread over the time of a typical scenario.
TYPICAL_LOAD_S = 10.0
RATE_MIN_PER_S = 300


def records_of(scenario: Scenario, gate: Sequence[Scenario], total: int) -> int:
    """The records of a scenario, by its weight among those of the gate. The same rule holds for one outside the
    gate.
    """
    return max(1, round(total * scenario.load_weight / sum(s.load_weight for s in gate)))


def paced(scenario: Scenario, records: int) -> Scenario:
    """The scenario with a rate for every producer that runs all the time and has no rate of its own."""
    free = [p for p in scenario.producers if _shares_budget(p)]
    if not free:
        return scenario
    rate = max(RATE_MIN_PER_S, round(records / TYPICAL_LOAD_S / len(free)))
    producers = tuple(replace(p, rate_per_s=rate) if _shares_budget(p) else p for p in scenario.producers)
    return replace(scenario, producers=producers)


def _shares_budget(producer: Producer) -> bool:
    return producer.when == "always" and producer.rate_per_s is None
