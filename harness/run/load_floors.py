"""Keeps the load on until it has done enough: its floors before and after the faults, and its number of records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, Literal

from harness.model.outcome import Outcome
from harness.model.place import Place
from harness.model.scenario.scenario import Scenario
from harness.model.wait_budget import WaitBudget
from harness.workload.load import Load

FLOOR_DEADLINE_S: Final = 40.0
FLOOR_LEAST_S: Final = 10.0  # when the budget for waits is spent


def hold(
    scenario: Scenario,
    load: Load,
    window: Literal["before", "after"],
    targets: Sequence[Place],
    *,
    since_ns: int,
    served: bool,
    budget: WaitBudget,
) -> None:
    """Waits until each target partition and each admin has reached its floor for a window, or for a deadline.

    It takes the scenario's `load_s` at least; the judge reports a missed floor. served: waits also until every producer
    and reader has made progress since now. A group may have to wait until a session times out.
    """
    started, deadline_s = time.monotonic(), budget.left_s(FLOOR_DEADLINE_S, FLOOR_LEAST_S)
    floor = getattr(scenario.floors, window)
    floors = {admin.name: getattr(admin.floors, window) for admin in scenario.admin}
    mark = load.mark() if served else None

    def held() -> bool:
        elapsed = time.monotonic() - started
        enough = all(load.produced_acks(topic, partition, since_ns) >= floor for topic, partition in targets)
        enough = enough and all(load.operations_ended(a, since_ns, Outcome.ACKED) >= n for a, n in floors.items())
        enough = enough and not (mark and load.unserved_since(mark))
        return elapsed >= deadline_s or (elapsed >= scenario.load_s and enough)

    while not held():
        time.sleep(0.1)


def fill(scenario: Scenario, load: Load, records: int, budget: WaitBudget) -> None:
    """Waits until so many records are acknowledged, or for a deadline."""
    if not any(p.when == "always" for p in scenario.producers):
        return
    give_up_at = time.monotonic() + budget.left_s(FLOOR_DEADLINE_S, FLOOR_LEAST_S)
    while load.stats()["acked"] < records and time.monotonic() < give_up_at:
        time.sleep(0.1)
