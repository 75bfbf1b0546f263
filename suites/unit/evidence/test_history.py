"""history.json of a bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.evidence import Bundle
from harness.evidence.history import HISTORY, history_in, write_history
from harness.evidence.seal import seal_directory
from harness.model.errors import BadEvidence
from suites.unit.evidence_examples import write_example
from suites.unit.model.history.test_rows import example


def test_a_sealed_bundle_gives_back_its_history(tmp_path: Path) -> None:
    write_history(write_example(tmp_path), example())
    seal_directory(tmp_path)
    read = Bundle.open(tmp_path).history
    assert read is not None
    assert read.changes == example().changes


def test_a_bundle_of_another_client_may_have_none(tmp_path: Path) -> None:
    seal_directory(write_example(tmp_path))
    assert Bundle.open(tmp_path).history is None


def test_a_history_that_was_changed_or_added_after_the_seal_is_refused(tmp_path: Path) -> None:
    seal_directory(write_example(tmp_path))
    write_history(tmp_path, example())
    with pytest.raises(BadEvidence, match=f"{HISTORY} was added after the bundle was sealed"):
        Bundle.open(tmp_path)


@pytest.mark.parametrize("wrong", ["{", "[]", '{"version": 1}'])
def test_a_damaged_one_is_refused(tmp_path: Path, wrong: str) -> None:
    (tmp_path / HISTORY).write_text(wrong, encoding="utf-8")
    with pytest.raises(BadEvidence, match=HISTORY):
        history_in(tmp_path)
