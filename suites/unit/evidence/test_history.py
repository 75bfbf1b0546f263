"""history.json of a bundle."""

from __future__ import annotations

import re
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import get_type_hints

import pytest

from harness.evidence import Bundle
from harness.evidence.history import HISTORY, history_in, write_history
from harness.evidence.seal import seal_directory
from harness.model.errors import BadEvidence
from harness.model.history.changes import Change, Dropped, Problem, ProblemKind, Written
from harness.model.history.rows import CHANGES, document_of
from suites.unit.evidence_examples import FORMAT, write_example
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


SECTION = FORMAT.split(f"\n### {HISTORY}: ", 1)[1].split("\n### ", 1)[0]


@pytest.mark.parametrize("name", CHANGES)
def test_the_format_documents_every_field_of_every_change(name: str) -> None:
    (row,) = re.findall(rf"^\| {name} \| (.*) \|$", SECTION, re.MULTILINE)
    of_all = {field.name for field in fields(Change)}
    assert {field.name for field in fields(CHANGES[name])} - of_all <= set(re.findall(r"`(\w+)`", row))
    assert of_all <= set(re.findall(r"`(\w+)`", SECTION))
    hints = get_type_hints(CHANGES[name], localns={"Value": object}).values()
    words = {str(word) for hint in hints if isinstance(hint, type) and issubclass(hint, Enum) for word in hint}
    assert words <= set(re.findall(r"`(\w+)`", row))


def test_the_format_documents_every_key_and_every_kind_of_problem() -> None:
    keys = {name.strip() for row in re.findall(r"^\| ([\w, ]+) \|", SECTION, re.MULTILINE) for name in row.split(",")}
    assert document_of(example()).keys() | set(ProblemKind) <= keys
    named = set(re.findall(r"`(\w+)`", SECTION))
    assert {field.name for kind in (Written, Dropped, Problem) for field in fields(kind)} <= named
