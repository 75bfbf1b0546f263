"""A gate that can PASS must be able to FAIL: every scenario fails under its negative control."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fixtures.plugin import GateRun, played
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
def controls(request: pytest.FixtureRequest, run_gate: GateRun) -> GateResult:
    """The runs of all negative controls, each judged by the contract of the unchanged scenario."""
    names = [name for name in played(request, "scenario") if scenarios.load(name).negative_control]
    out = Path("durability-out") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-proof"
    return run_gate(names, out, negative_control=True)


def test_the_negative_control_fails_with_the_expected_kind(scenario: str, request: pytest.FixtureRequest) -> None:
    declared = scenarios.load(scenario)
    negative_control = declared.negative_control
    if negative_control is None:  # before anything is played
        pytest.fail(f"negative control of {scenario}: {scenarios.control_of(declared)}", pytrace=False)
    controls: GateResult = request.getfixturevalue("controls")
    outcome = next(r for r in controls.summary.results if r.name == scenario)
    if outcome.status is None or outcome.bundle is None:
        raise HarnessFailure(f"{scenario}: {outcome.error}")
    verdict = read_verdict(controls.out / outcome.bundle)
    kinds = {finding.kind.value for finding in verdict.findings if finding.condemns}
    doubts = [doubt.text for doubt in verdict.doubts]
    result = f"{negative_control.what}: {verdict.status.name}, {sorted(kinds)}, doubts {doubts}"
    assert verdict.status is Status.FAIL, result
    assert set(negative_control.expect) <= kinds, result
    if declared.matrix is not None:
        # Findings of a read-process-write are on its output topics.
        outputs = {topic for p in declared.producers if p.processes for topic in p.topics}
        found_on = {finding.topic for finding in verdict.findings if finding.condemns}
        assert found_on & {*declared.matrix.topics, *outputs}, f"{result}: only on {sorted(map(str, found_on))}"
