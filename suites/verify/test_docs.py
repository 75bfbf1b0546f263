"""The generated catalogues are those that the code and the played matrix give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import scenarios
from harness.commands import docs, matrix
from harness.evidence.documents import plain
from harness.model.errors import BadInput


def as_json(cell: matrix.Cell) -> dict[str, Any]:
    return plain(cell.document)


def test_each_catalogue_is_current() -> None:
    stale = [path for path, text in docs.pages().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run `durability docs`"


def test_the_catalogue_of_scenarios_has_each_of_them_once() -> None:
    lines = docs.pages()[Path(scenarios.__file__).with_name("CATALOGUE.md")].splitlines()
    for name in scenarios.builtin():
        assert sum(line.startswith(f"| [`{name}`](") for line in lines) == 1


def test_the_kept_matrix_has_every_cell_as_the_scenarios_declare_it_and_each_holds() -> None:
    """After a change of a cell, its scenario is played again: `durability contracts`, then `durability docs`."""
    played = json.loads(docs.PLAYED.read_text(encoding="utf-8"))
    kept = {
        (cell["scenario"], cell["topic"]): (
            cell["event"],
            cell["settings"],
            cell["promised"],
            cell["exactly"],
            cell["holds"],
        )
        for cell in played["cells"]
    }
    declared = {
        (row["scenario"], row["topic"]): (row["event"], row["settings"], row["promised"], row["exactly"], True)
        for scenario in matrix.matrix_scenarios().values()
        for row in map(as_json, matrix.declared_cells(scenario, played["release"]))
    }
    assert kept == declared


def test_a_catalogue_that_cannot_be_written_leaves_the_kept_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> str:
        raise KeyError("column")

    played, kept = docs.PLAYED, tmp_path / "matrix.json"
    kept.write_text("kept", encoding="utf-8")
    monkeypatch.setattr(docs, "PLAYED", kept)
    monkeypatch.setattr("harness.scenarios.catalogue.render", fails)
    with pytest.raises(KeyError):
        docs.write([played])
    assert kept.read_text(encoding="utf-8") == "kept"


def test_an_installed_package_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "_PACKAGE", tmp_path / "harness")
    with pytest.raises(BadInput, match="in a checkout of the source"):
        docs.write([])
    assert list(tmp_path.iterdir()) == []
