"""The command `docs`: writes the generated catalogues beside the code that they describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import harness
import reports
from harness.commands.matrix import declared_cells, matrix_scenarios, plain
from harness.evidence.documents import write_json
from harness.faults.steps import catalogue as faults
from harness.model.errors import BadInput
from harness.scenarios import catalogue as scenarios

_PACKAGE: Final = Path(harness.__file__).parent
MATRIX: Final = _PACKAGE / "model" / "contract" / "MATRIX.md"
# The results that MATRIX.md shows: they come from brokers, so they are kept beside it.
PLAYED: Final = MATRIX.with_name("matrix.json")


def matrix() -> str:
    """MATRIX.md, from the results that are kept in the source tree. Texts are those of the code of today."""
    played = reports.read_matrix([PLAYED])
    declared = {
        (cell.scenario, cell.topic): plain(cell)
        for scenario in matrix_scenarios().values()
        for cell in declared_cells(scenario, played["release"])
    }
    cells = [{**row, **_texts(declared.get((row["scenario"], row["topic"]), row))} for row in played["cells"]]
    return reports.matrix_document({**played, "cells": cells})


def _texts(cell: Mapping[str, object]) -> dict[str, object]:
    return {key: cell[key] for key in ("happens", "configuration", "which", "why", "source", "fix")}


CATALOGUES: Final[Mapping[Path, Callable[[], str]]] = {
    _PACKAGE / "faults" / "CATALOGUE.md": faults.render,
    _PACKAGE / "scenarios" / "CATALOGUE.md": scenarios.render,
    MATRIX: matrix,
}


def write(played: Sequence[Path]) -> list[Path]:
    """Writes every catalogue and returns their paths. played: results that replace those which MATRIX.md shows."""
    if not (_PACKAGE.parent / "pyproject.toml").is_file():
        raise BadInput(f"{_PACKAGE} is an installed package; run `durability docs` in a checkout of the source")
    if played:
        write_json(PLAYED, reports.read_matrix(played))
    for path, render in CATALOGUES.items():
        path.write_text(render(), encoding="utf-8")
    return list(CATALOGUES)
