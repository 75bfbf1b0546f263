"""A gate that says PASS must be shown to say FAIL: every scenario is convicted under its negative_control."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fixtures.plugin import GateRun
from harness import scenarios
from harness.commands.options import GateResult
from harness.evidence.verdicts import read_verdict
from harness.model.errors import HarnessFailure
from harness.model.verdict import Status
from suites.gate.selection import chosen

pytestmark = pytest.mark.kafka


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("scenario", [s.name for s in chosen(metafunc.config)])


@pytest.fixture(scope="session")
def negative_control(request: pytest.FixtureRequest, run_gate: GateRun) -> GateResult:
    """Every negative control, run in a row and judged by the contract of the scenario as declared."""
    names = [s.name for s in chosen(request.config) if s.negative_control]
    out = Path("durability-out") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-proof"
    return run_gate(names, out, negative_control=True)


def test_weakened_twin_fails_with_its_kind(scenario: str, negative_control: GateResult) -> None:
    declared = scenarios.load(scenario)
    negative_control = declared.negative_control
    assert negative_control is not None, "a scenario without a negative control is no coverage"
    outcome = next(r for r in negative_control.summary.results if r.name == scenario)
    if outcome.status is None or outcome.bundle is None:
        raise HarnessFailure(f"{scenario}: {outcome.error}")
    verdict = read_verdict(negative_control.out / outcome.bundle)
    kinds = {finding.kind.value for finding in verdict.findings if finding.condemns}
    said = f"{negative_control.what}: {verdict.status.name}, {sorted(kinds)}, doubts {[d.text for d in verdict.doubts]}"
    assert verdict.status is Status.FAIL, said
    assert set(negative_control.expect) <= kinds, said
    if declared.matrix is not None:
        made = {topic for p in declared.producers if p.processes for topic in p.topics}
        at = {finding.topic for finding in verdict.findings if finding.condemns}
        assert at & {*declared.matrix.topics, *made}, f"{said}: of no cell of its column, but of {sorted(map(str, at))}"
