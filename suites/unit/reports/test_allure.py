"""Allure's own words for our verdicts: FAIL is `failed`, INCONCLUSIVE is `broken`, and the verdict is attached."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.model.verdict import Status
from suites.unit.evidence_examples import judged, lost, verdict

ROOT = Path(__file__).parents[3]
TESTS = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("name", ["good", "bad", "thin"])
def test_scenario(name, conclude):
    conclude(Path(__file__).parent / name)

def test_evidence_is_kept(evidence_folder):
    evidence_folder.mkdir()
    (evidence_folder / "x").write_text("x")

def test_missing(missing_capability):
    missing_capability("no Docker here")
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Allure's results of a pytest run with our plugin, by name of the test."""
    folder = tmp_path_factory.mktemp("allure")
    judged(folder / "good", verdict("good", Status.PASS, lost(excused_by="an unclean election")))
    judged(folder / "bad", verdict("bad", Status.FAIL, lost()))
    judged(folder / "thin", verdict("thin", Status.INCONCLUSIVE))
    (folder / "test_own.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "fixtures.plugin", "--alluredir", "results", "-q", "test_own.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CI": "true"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found = [json.loads(path.read_text()) for path in (folder / "results").glob("*-result.json")]
    for result in found:
        for attached in result.get("attachments", []):
            attached["content"] = (folder / "results" / attached["source"]).read_text()
    return {result["name"]: result | {"folder": folder} for result in found}


@pytest.mark.parametrize(("name", "status"), [("good", "passed"), ("bad", "failed"), ("thin", "broken")])
def test_statuses(results: dict[str, dict[str, Any]], name: str, status: str) -> None:
    result = results[f"test_scenario[{name}]"]
    assert result["status"] == status
    attached = {a["name"]: a["content"] for a in result["attachments"]}
    assert json.loads(attached["verdict.json"])["scenario"] == name
    assert name in attached["summary"]
    assert ("permitted: an unclean election" in attached["summary"]) == (name == "good")


def test_evidence_without_a_proven_pass_is_kept(results: dict[str, dict[str, Any]]) -> None:
    folder = results["test_evidence_is_kept"]["folder"]
    kept = list((folder / "durability-out").glob("test_evidence_is_kept-*/x"))
    assert len(kept) == 1


def test_in_ci_a_missing_capability_is_a_failure(results: dict[str, dict[str, Any]]) -> None:
    assert results["test_missing"]["status"] == "failed"
    assert "no Docker here" in results["test_missing"]["statusDetails"]["message"]
