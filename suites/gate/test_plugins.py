"""A plugin on real brokers: its scenario plays its fault and PASSes, and its check names what the control causes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fixtures.plugin import GateRun
from harness.commands.plugins import loaded
from harness.evidence import Bundle
from harness.evidence.verdicts import read_verdict
from harness.model.verdict import Status

pytestmark = pytest.mark.kafka

EXAMPLE = Path(__file__).parents[1] / "plugins" / "acme"
NAME = "leader_hung"


def test_a_plugin_plays_and_judges_and_its_negative_control_fails(tmp_path: Path, run_gate: GateRun) -> None:
    acme = shutil.copytree(EXAMPLE, tmp_path / "acme", ignore=shutil.ignore_patterns("__pycache__"))
    with loaded([acme]):
        played = run_gate([NAME], tmp_path / "played")
        control = run_gate([NAME], tmp_path / "control", negative_control=True)
    assert played.summary.status is Status.PASS
    bundle = Bundle.open(tmp_path / "played" / NAME)
    assert [plugin.name for plugin in bundle.manifest.plugins] == ["acme"]
    hang = bundle.documents.steps[0]
    assert (hang.do, {fact.kind for fact in hang.facts}) == ("hang_and_kill", {"frozen", "stopped"})
    assert hang.effect is not None
    assert hang.effect.held
    assert control.summary.status is Status.FAIL
    verdict = read_verdict(tmp_path / "control" / NAME)
    assert {finding.kind.value for finding in verdict.findings if finding.condemns} == {"late_ack"}
