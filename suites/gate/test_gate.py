"""`durability gate` as one test for each scenario, for reports that are made from test results (Allure)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import reports
from fixtures.plugin import GateRun, played
from harness.commands.options import GateResult
from harness.model.errors import HarnessFailure
from harness.model.verdict import Status
from suites.gate.selection import chosen

pytestmark = pytest.mark.kafka


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("scenario", [s.name for s in chosen(metafunc.config)])


@pytest.fixture(scope="session")
def result(request: pytest.FixtureRequest, run_gate: GateRun) -> GateResult:
    """One gate for all tests: clusters are shared as in the command, and judging starts when the brokers have ended."""
    out = Path("durability-out") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-pytest"
    gate = run_gate(played(request, "scenario"), out)
    reports.offer_page(out)
    return gate


def test_scenario(scenario: str, result: GateResult, conclude: Callable[[Path], None]) -> None:
    outcome = next(r for r in result.summary.results if r.name == scenario)
    if outcome.status is None or outcome.bundle is None:
        raise HarnessFailure(f"{scenario}: {outcome.error}")
    conclude(result.out / outcome.bundle)
    assert outcome.status is Status.PASS
