"""Events of the matrix that decide the exact number of affected records show that number in every run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fixtures.plugin import GateRun, played
from harness import scenarios
from harness.commands import matrix
from suites.contracts.conftest import chosen

pytestmark = pytest.mark.kafka
Counted = dict[tuple[str, str], float]


def _exact(config: pytest.Config) -> list[str]:
    """Scenarios with steps that decide the number. In others it depends on timing, or on the bytes on a disk."""
    return [name for name in chosen(config) if _expected(name)]


def _expected(event: str) -> dict[str, int]:
    """The exact number of affected records, by topic, for the topics that have one."""
    scenario = scenarios.load(event)
    topics = scenario.matrix.topics if scenario.matrix else ()
    return {topic: n for topic in topics if (n := matrix.exactly_of(scenario, topic)) is not None}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("event", _exact(metafunc.config))


@pytest.fixture(scope="session")
def counted(request: pytest.FixtureRequest, run_gate: GateRun) -> list[Counted]:
    """For each run: the number of records of the worst effect, by scenario and topic, in cells that hold."""
    names, began = played(request, "event"), f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    out = Path("durability-out")
    times = [run_gate(names, out / f"{began}-exact-{n}") for n in range(1, request.config.getoption("--times") + 1)]
    return [{(c.scenario, c.topic): c.counted for c in matrix.write(result) if c.holds} for result in times]


def test_every_run_loses_the_exact_number(event: str, counted: list[Counted]) -> None:
    expected = _expected(event)
    lost = [{topic: time.get((event, topic), 0) for topic in expected} for time in counted]
    assert lost == [expected] * len(counted)
