"""Evidence of earlier formats is compared as evidence of today's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.evidence.manifest import MANIFEST
from harness.model.schemas import FORMAT_VERSION
from suites.differential.translation import translate

DOUBT = {"name": "no_bite", "text": "step cut did not bite: the clients missed no answer"}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A run of version 1 that died half way, and was judged."""
    folder = tmp_path / "before"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"finished": False, "weakened": None, "doubts": [DOUBT]}))
    (folder / "verdict.json").write_text("{}")
    return folder


def test_a_run_that_died_half_way_stays_without_a_seal(bundle: Path, tmp_path: Path) -> None:
    translate(bundle, tmp_path / "now")
    assert [file.name for file in (tmp_path / "now").iterdir()] == ["run.json"]


def test_the_sentence_about_a_step_without_an_effect_is_todays(bundle: Path, tmp_path: Path) -> None:
    """The judge leaves out its own doubt only if the run said it in the same words."""
    translate(bundle, tmp_path / "now")
    run = json.loads((tmp_path / "now" / "run.json").read_text())
    assert run == {
        "finished": False,
        "negative_control": None,
        "doubts": [{"name": "no_effect", "text": "step cut had no effect: the clients missed no answer"}],
        "format_version": FORMAT_VERSION,
    }


def test_evidence_of_an_unknown_format_is_refused(bundle: Path, tmp_path: Path) -> None:
    (bundle / MANIFEST).write_text(json.dumps({"format_version": FORMAT_VERSION + 1, "files": {}}))
    with pytest.raises(AssertionError, match="is no evidence of the versions"):
        translate(bundle, tmp_path / "now")
