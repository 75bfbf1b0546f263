"""The command `docs`: writes the generated catalogues, tables and JSON Schemas beside the code that they describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from msgspec.structs import replace

import harness
import reports
from harness.audit.rules import catalogue as rules
from harness.commands.matrix import declared_cells, matrix_scenarios
from harness.evidence import format_tables
from harness.evidence.documents import write_json
from harness.evidence.matrix import MatrixCell, PlayedMatrix
from harness.evidence.record_tables import RECORDS, json_schema
from harness.faults.failpoints import catalogue as points
from harness.faults.steps import catalogue as faults
from harness.faults.steps.registry import all_kinds
from harness.model.errors import BadInput
from harness.model.plugin import Plugin, active
from harness.scenarios import catalogue as scenarios
from harness.scenarios import every

_PACKAGE: Final = Path(harness.__file__).parent
MATRIX: Final = _PACKAGE / "model" / "contract" / "MATRIX.md"
FORMAT: Final = _PACKAGE / "evidence" / "FORMAT.md"
SCHEMAS: Final = FORMAT.with_name("schemas")
# The results that MATRIX.md shows: they come from brokers, so they are kept beside it.
PLAYED: Final = MATRIX.with_name("matrix.json")
CATALOGUE: Final = "CATALOGUE.md"  # of a plugin, in its folder


def pages(played: Sequence[Path] = (PLAYED,)) -> dict[Path, str]:
    """The text of every catalogue, by its path. played: the results that MATRIX.md shows."""
    checks = _catalogue_of_checks()
    return {
        _PACKAGE / "audit" / "rules" / "CATALOGUE.md": rules.render(),
        _PACKAGE / "faults" / "CATALOGUE.md": faults.render(),
        _PACKAGE / "faults" / "failpoints" / "POINTS.md": points.render(),
        _PACKAGE / "scenarios" / "CATALOGUE.md": scenarios.render(),
        _PACKAGE / "verify" / "checks" / "CATALOGUE.md": checks.render(),
        MATRIX: _matrix(reports.read_matrix(played)),
        FORMAT: format_tables.render(FORMAT.read_text(encoding="utf-8"), {"excuses": checks.excuses_table()}),
        **{SCHEMAS / document: json_schema(document) for document in RECORDS},
    }


def write(played: Sequence[Path]) -> list[Path]:
    """Writes every catalogue and returns their paths. played: results that replace those which MATRIX.md shows.

    With plugins, only the catalogue of each: it is about files outside the source, which may be an installed package.
    """
    if active():
        return _write({plugin.folder / CATALOGUE: _of_plugin(plugin) for plugin in active()})
    if not (_PACKAGE.parent / "pyproject.toml").is_file():
        raise BadInput(f"{_PACKAGE} is an installed package; run `durability docs` in a checkout of the source")
    texts = pages(played or [PLAYED])  # all of them before anything is replaced
    if played:
        write_json(PLAYED, reports.read_matrix(played))
    return _write(texts)


def _write(texts: Mapping[Path, str]) -> list[Path]:
    try:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    except OSError as refused:
        raise BadInput(f"{path} cannot be written ({refused.strerror}); give a folder that you may write to") from None
    return list(texts)


def _catalogue_of_checks() -> ModuleType:
    try:
        from harness.verify import catalogue
    except ModuleNotFoundError as absent:
        raise BadInput(f"this installation lacks {absent.name}; pip install 'kafka-durability[all]'") from None
    return catalogue


def _of_plugin(plugin: Plugin) -> str:
    """CATALOGUE.md of one plugin."""
    parts = [f"# {plugin.name}\n\nWritten by `durability docs --plugins`; do not edit.\n"]
    if plugin.faults:
        kinds = [kind for kind in all_kinds() if kind.do in plugin.faults]
        parts.append(f"## Steps\n{faults.tables(kinds)}")
    if plugin.scenarios:
        known = every()
        rows = scenarios.table([known[name] for name in plugin.scenarios], "scenarios/")
        parts.append(f"## Scenarios\n\n{rows}\n")
    if plugin.checks:
        checks = _catalogue_of_checks()
        rows = checks.table({name: checks.declared()[name] for name in plugin.checks})
        meanings = "".join(f"- `{kind}`: {meaning}\n" for kind, meaning in plugin.kinds.items())
        parts.append(f"## Checks\n\n{rows}\n\n{meanings}".rstrip() + "\n")
    return "\n".join(parts)


def _matrix(played: PlayedMatrix) -> str:
    """MATRIX.md. The texts of its cells are those that the scenarios have now."""
    every = (declared_cells(scenario, played.release) for scenario in matrix_scenarios().values())
    now = {(cell.scenario, cell.topic): cell.document for cells in every for cell in cells}
    cells = (_with_texts(cell, now.get((cell.scenario, cell.topic), cell)) for cell in played.cells)
    return reports.matrix_document(replace(played, cells=tuple(cells)))


def _with_texts(cell: MatrixCell, of: MatrixCell) -> MatrixCell:
    return replace(
        cell,
        happens=of.happens,
        configuration=of.configuration,
        which=of.which,
        why=of.why,
        source=of.source,
        fix=of.fix,
    )
