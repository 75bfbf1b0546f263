"""Damaged evidence is refused in one sentence and never judged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from harness.evidence import Bundle
from harness.evidence.seal import seal_directory
from harness.model.errors import BadEvidence
from harness.model.schemas import REQUIRED_DOCUMENTS, TABLES
from suites.planted.copies import Copy, Original

pytestmark = pytest.mark.kafka

# A run in which no send and no call failed has no part of these.
_WITH_ROWS: Final = [table for table in TABLES if table not in ("failed_sends", "failed_calls")]


@pytest.fixture
def bundle(original: Original, tmp_path: Path) -> Path:
    """A copy with files that may be overwritten."""
    return Path(shutil.copytree(original.path, tmp_path / "bundle"))


def _part(bundle: Path, table: str) -> Path:
    return sorted(path for path in (bundle / table).iterdir() if path.suffix in (".parquet", ".jsonl"))[0]


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def _refused(bundle: Path, opening: Callable[[Path], Bundle] = Bundle.open) -> str:
    with pytest.raises(BadEvidence) as refused:
        opening(bundle)
    sentence = str(refused.value)
    assert "\n" not in sentence
    assert sentence.startswith(str(bundle)), "the sentence begins with the file"
    return sentence


@pytest.mark.parametrize("table", _WITH_ROWS)
@pytest.mark.parametrize("damage", [_flip, _cut, Path.unlink], ids=["flipped", "truncated", "missing"])
def test_a_damaged_part_is_refused(bundle: Path, table: str, damage: Callable[[Path], None]) -> None:
    part = _part(bundle, table)
    damage(part)
    assert part.name in _refused(bundle)


@pytest.mark.parametrize("document", REQUIRED_DOCUMENTS)
def test_a_missing_document_is_refused(bundle: Path, document: str) -> None:
    (bundle / document).unlink()
    assert document in _refused(bundle)


@pytest.mark.parametrize("document", REQUIRED_DOCUMENTS)
def test_a_truncated_document_is_refused(bundle: Path, document: str) -> None:
    _cut(bundle / document)
    assert document in _refused(bundle)


def test_an_added_part_is_refused(bundle: Path) -> None:
    part = _part(bundle, "observations")
    shutil.copy(part, part.with_name("more-0.parquet"))
    assert "more-0.parquet" in _refused(bundle)


@pytest.mark.parametrize("table", [table for table in _WITH_ROWS if table != "reservations"])
def test_a_truncated_part_is_not_sealed_again(bundle: Path, table: str) -> None:
    """Sealing by hand vouches for the files that exist, but not for one that cannot be read."""
    part = _part(bundle, table)
    _cut(part)
    assert part.name in _refused(bundle, seal_directory)
    assert "manifest.json" in _refused(bundle)


@pytest.mark.parametrize("document", [name for name in REQUIRED_DOCUMENTS if name != "manifest.json"])
def test_a_missing_document_is_not_sealed_again(bundle: Path, document: str) -> None:
    (bundle / document).unlink()
    assert document in _refused(bundle, seal_directory)


def test_an_unknown_outcome_value_is_refused(original: Original, tmp_path: Path) -> None:
    """Its rows would promise nothing, which must not go unnoticed."""
    copy = Copy(original, tmp_path / "bundle")
    copy.change("ledger", {"outcome": "ACKED"}, outcome="acked", topic="plain", partition=0)
    with pytest.raises(BadEvidence, match='outcome is "ACKED" and must be'):
        copy.sealed()


def test_an_undamaged_bundle_is_opened(bundle: Path) -> None:
    assert Bundle.open(bundle).complete
