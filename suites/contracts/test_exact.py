"""Where physics gives the number of records that are lost, skipped or shown, it comes out each time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fixtures.plugin import GateRun
from harness import scenarios
from harness.commands import matrix
from suites.contracts.conftest import chosen

pytestmark = pytest.mark.kafka
Counted = dict[tuple[str, str], float]


def _exact(config: pytest.Config) -> list[str]:
    """Columns whose steps decide the number: how much a disk has of a log is known to the byte alone."""
    return [name for name in chosen(config) if _expected(name)]


def _expected(column: str) -> dict[str, int]:
    """How many records, of each topic of a column of which that is known."""
    scenario = scenarios.load(column)
    topics = scenario.matrix.topics if scenario.matrix else ()
    return {topic: n for topic in topics if (n := matrix.exactly_of(scenario, topic)) is not None}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("column", _exact(metafunc.config))


@pytest.fixture(scope="session")
def played(request: pytest.FixtureRequest, run_gate: GateRun) -> list[Counted]:
    """Of each time how many records the worst effect was of, by column and topic; of cells that hold."""
    names, began = _exact(request.config), f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    out = Path("durability-out")
    times = [run_gate(names, out / f"{began}-exact-{n}") for n in range(1, request.config.getoption("--times") + 1)]
    return [{(c.scenario, c.topic): c.counted for c in matrix.write(result) if c.holds} for result in times]


def test_every_run_loses_the_exact_number(column: str, played: list[Counted]) -> None:
    expected = _expected(column)
    counted = [{topic: time.get((column, topic), 0) for topic in expected} for time in played]
    assert counted == [expected] * len(played)
