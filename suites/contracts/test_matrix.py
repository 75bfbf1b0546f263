"""The matrix of contracts as one test for each event, for reports that are made from test results (Allure)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fixtures.plugin import GateRun, played
from harness.commands import matrix as contracts
from harness.commands.matrix import Cell
from harness.commands.options import GateResult
from harness.evidence.layout import REPORT
from harness.model.errors import HarnessFailure
from reports import write_matrix
from reports.matrix import PAGE
from reports.pytest_outcome import attach_page
from suites.contracts.conftest import chosen

pytestmark = pytest.mark.kafka


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("event", chosen(metafunc.config))


@pytest.fixture(scope="session")
def matrix(request: pytest.FixtureRequest, run_gate: GateRun) -> tuple[GateResult, list[Cell]]:
    """Runs all events, one after the other, and writes the page of the matrix next to their evidence."""
    out = Path("durability-out") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-contracts"
    result = run_gate(played(request, "event"), out)
    cells = contracts.write(result)
    write_matrix(out)
    return result, cells


def test_each_cell_shows_the_promised_effect(
    event: str, matrix: tuple[GateResult, list[Cell]], conclude: Callable[[Path], None]
) -> None:
    result, cells = matrix
    attach_page(result.out / REPORT / PAGE, "the matrix of contracts")
    outcome = next(r for r in result.summary.results if r.name == event)
    if outcome.bundle is None:
        raise HarnessFailure(f"{event}: {outcome.error}")
    conclude(result.out / outcome.bundle)
    mine = [cell for cell in cells if cell.scenario == event]
    assert mine
    assert [f"{cell.row}: {cell.text}" for cell in mine if not cell.holds] == []
