"""Allure results of a pytest run: their content is that of `--allure`, and other outcomes stay pytest's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from reports.allure import write_allure
from suites.unit.reports.allure_examples import write_out
from suites.unit.reports.allure_reading import Read, read_results

ROOT = Path(__file__).parents[3]
TESTS = """
from pathlib import Path
import pytest

OUT = Path(__file__).parent / "out"

@pytest.mark.parametrize("name", ["good", "bad", "thin", "moody"])
def test_scenario(name, conclude):
    conclude(OUT / name)

def test_fails_later(conclude):
    conclude(OUT / "good")
    raise RuntimeError("later")

def test_unjudged(conclude, tmp_path):
    conclude(tmp_path)

def test_evidence_is_kept(evidence_folder):
    evidence_folder.mkdir()
    (evidence_folder / "x").write_text("x")

def test_missing(missing_capability):
    missing_capability("no Docker here")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pytest ran the tests above, with results of Allure in `results`."""
    folder = tmp_path_factory.mktemp("allure")
    write_out(folder / "out")
    (folder / "test_own.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "fixtures.plugin", "--alluredir", "results", "-q", "test_own.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CI": "true"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> list[Read]:
    return read_results(folder / "results")


def comparable(result: Read) -> Mapping[str, object]:
    """A result without ids that differ from run to run."""
    attached = [(one["name"], one["type"], one["content"]) for one in result.attachments]
    return {key: value for key, value in result.content.items() if key != "uuid"} | {"attachments": attached}


@pytest.mark.parametrize("scenario", ["good", "bad", "thin", "moody"])
def test_the_content_is_that_of_the_commands(folder: Path, results: list[Read], tmp_path: Path, scenario: str) -> None:
    write_allure(folder / "out", tmp_path)
    ours = [comparable(one) for one in read_results(tmp_path) if one.scenario == scenario]
    theirs = [comparable(one) for one in results if one.scenario == scenario and one.message != "RuntimeError: later"]
    assert ours
    assert theirs == ours


def test_files_for_all_results_are_those_of_the_commands(folder: Path, tmp_path: Path) -> None:
    write_allure(folder / "out", tmp_path)
    for name in ("categories.json", "environment.properties"):
        assert (folder / "results" / name).read_text() == (tmp_path / name).read_text()


def test_a_test_that_fails_after_its_verdict_is_no_pass(results: list[Read]) -> None:
    [later] = [one for one in results if one.message == "RuntimeError: later"]
    assert (later.scenario, later.status) == ("good", "broken")


def test_a_bundle_without_a_verdict_is_an_error_of_the_test(results: list[Read]) -> None:
    [unjudged] = [one for one in results if one.content["name"] == "test_unjudged"]
    assert unjudged.status == "broken"


def test_evidence_without_a_proven_pass_is_kept(folder: Path) -> None:
    kept = list((folder / "durability-out").glob("test_evidence_is_kept-*/x"))
    assert len(kept) == 1


def test_in_ci_a_missing_capability_is_a_failure(results: list[Read]) -> None:
    [missing] = [one for one in results if one.content["name"] == "test_missing"]
    assert missing.status == "failed"
    assert "no Docker here" in json.dumps(missing.content)
