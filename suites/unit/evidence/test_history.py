"""history.json of a bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.evidence.history import HISTORY, read_history, write_history
from harness.model.errors import BadEvidence
from suites.unit.model.history.test_rows import example


def test_a_bundle_gives_back_its_history(tmp_path: Path) -> None:
    write_history(tmp_path, example())
    assert read_history(tmp_path).changes == example().changes


def test_a_bundle_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadEvidence, match="missing"):
        read_history(tmp_path)


@pytest.mark.parametrize("wrong", ["{", "[]", '{"version": 1}'])
def test_a_damaged_one_is_refused(tmp_path: Path, wrong: str) -> None:
    (tmp_path / HISTORY).write_text(wrong, encoding="utf-8")
    with pytest.raises(BadEvidence, match=HISTORY):
        read_history(tmp_path)
