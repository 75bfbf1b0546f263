"""`durability verify` for a user: evidence of another client, written by hand as FORMAT.md describes, judged by
Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.evidence.seal import seal_directory
from harness.model.exits import Exit
from harness.model.finding import Kind
from suites.unit.evidence_examples import write_example

ROOT = Path(__file__).parents[2]


def durability(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from harness.commands.main import main; main()"
    environment = os.environ | {"CI": "true"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def example(tmp_path: Path) -> Path:
    folder = write_example(tmp_path / "sealed_by_other_client")
    seal_directory(folder)
    return folder


def test_the_lost_record_of_the_example_is_the_only_finding(example: Path) -> None:
    done = durability("verify", str(example), "--json")
    assert done.returncode == Exit.FAIL, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["verdict"] == "FAIL"
    condemning = [f for f in verdict["findings"] if not f["excused_by"] and not f["explained_by"]]
    assert [(f["kind"], f["offset_first"], f["offset_last"], f["seq_first"], f["count"]) for f in condemning] == [
        ("lost", 1, 1, 1, 1)
    ]
    assert verdict.pop("page") == str(example / "report" / "index.html")
    assert json.loads((example / "verdict.json").read_text()) == verdict
    assert all(c.isprintable() or c == "\n" for c in done.stderr)
    assert "WARN" not in done.stderr


@pytest.mark.parametrize(
    ("master", "why"), [("local[x]", "Could not parse Master URL"), ("moon", "spark, k8s, or local")]
)
def test_an_unusable_master_is_reported_in_one_sentence(example: Path, master: str, why: str) -> None:
    done = durability("verify", str(example), "--master", master)
    assert done.returncode == Exit.USAGE, done.stderr
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("durability:")]
    assert f"no Spark session on {master}" in sentence
    assert why in sentence
    assert "Traceback" not in done.stderr
    assert not (example / "verdict.json").exists()


def test_every_kind_of_finding_is_listed() -> None:
    done = durability("list", "checks")
    assert done.returncode == 0, done.stderr
    assert {kind.value for kind in Kind} <= {line.split()[0] for line in done.stdout.splitlines()[1:]}
