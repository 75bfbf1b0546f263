"""Reading a bundle: everything is checked before anything is judged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from harness.evidence.columns import arrow_schema
from harness.evidence.documents import WRITE_AGAIN, document_name, is_there, read_json, with_rights
from harness.evidence.forms import check_form
from harness.evidence.layout import check_tables, ignored, kind_of
from harness.evidence.manifest import MANIFEST, check_digests, read_manifest
from harness.evidence.parts import opened
from harness.evidence.values import (
    at_line,
    check_values,
    lines_of,
    misfit_of_line,
    nulls_in,
    read_whole,
    words_in,
)
from harness.model.contract.contract import SENTINEL
from harness.model.errors import BadEvidence
from harness.model.schemas import FORMAT_VERSION, OPTIONAL_COLUMNS, REQUIRED_DOCUMENTS, TABLES

# What a run that died half way may lack: it had not come that far.
_EMPTY: Final[dict[str, object]] = {
    "steps.json": [],
    "cluster.json": {"snapshots": [], "lineages": []},
    "reads.json": [],
}

# Columns that name what a contract is about.
_PROMISED: Final = {"ledger": ("topic",), "reservations": ("topic", "producer"), "transactions": ("producer",)}


class Bundle:
    """A checked evidence bundle. `complete` is False when the run died half way: absence then proves nothing."""

    def __init__(self, path: Path, manifest: dict[str, Any], documents: dict[str, Any], *, sealed: bool) -> None:
        self.path = path
        self.sealed = sealed
        self._documents = {MANIFEST: manifest, **documents}
        self.complete: bool = sealed and documents["run.json"]["finished"]

    @classmethod
    def open(cls, path: Path, *, allow_unfinished: bool = False) -> Bundle:
        """Checks manifest, digests, documents and columns. BadEvidence: one sentence with file, cause, remedy.

        `allow_unfinished` also opens the folder of a run that died before it could seal it.
        """
        with with_rights(path, "judge it as a user who may read all of it"):
            return cls._open(path, allow_unfinished)

    @classmethod
    def _open(cls, path: Path, allow_unfinished: bool) -> Bundle:
        if not path.is_dir():
            raise BadEvidence(f"{path} is not a folder; give the folder of an evidence bundle")
        sealed = is_there(path / MANIFEST)
        if not sealed:
            _refuse_foreign(path, allow_unfinished)
        manifest = read_manifest(path) if sealed else _unsealed_manifest()
        if sealed:
            check_digests(path, manifest)
        documents = documents_of(path)
        if not sealed and (documents["run.json"]["finished"] or _by_hand(path)):
            raise _never_sealed(path)
        check_tables(path)
        # What the harness wrote is what its digests say; anybody else may have sealed what nobody can read.
        check_parts(path, documents, whole=manifest.get("sealed_by") != "harness")
        return cls(path, manifest, documents, sealed=sealed)

    def document(self, name: str) -> Any:
        """A document by name (`run` or `run.json`)."""
        return self._documents[document_name(name)]

    def table_files(self, name: str) -> list[Path]:
        """The parts of a table, in order; none when nobody wrote a row."""
        return _parts(self.path, name)


def _refuse_foreign(path: Path, allow_unfinished: bool) -> None:
    if not (path / "scenario.json").is_file():
        raise BadEvidence(f"{path} has no {MANIFEST} and no scenario.json: it is not an evidence bundle")
    if not allow_unfinished:
        raise _never_sealed(path)


def _never_sealed(path: Path) -> BadEvidence:
    return BadEvidence(f"{path} was never sealed (no {MANIFEST}); if it is whole, run `durability seal {path}`")


def _by_hand(path: Path) -> bool:
    """Whether tables are JSON lines still, which nobody would read."""
    tables = (path / table for table in TABLES if table != "reservations")
    return any(not ignored(lines.name) for table in tables for lines in table.glob("*.jsonl"))


def _unsealed_manifest() -> dict[str, Any]:
    return {"format_version": FORMAT_VERSION, "sealed_by": None, "files": {}}


def documents_of(path: Path) -> dict[str, Any]:
    """The required documents but the manifest. A run that died half way may lack what it had not come to."""
    run = _document(path, "run.json", optional=False)
    others = [name for name in REQUIRED_DOCUMENTS if name not in (MANIFEST, "run.json")]
    return {"run.json": run, **{name: _document(path, name, optional=not run["finished"]) for name in others}}


def _document(path: Path, name: str, *, optional: bool) -> Any:
    file = path / name
    if not is_there(file):
        if optional and name in _EMPTY:
            return _EMPTY[name]
        raise BadEvidence(f"{file} is missing; a bundle cannot be judged without it (see FORMAT.md)")
    content = read_json(file)
    check_form(file, content)
    return content


def _parts(path: Path, table: str) -> list[Path]:
    return sorted(file for file in (path / table).glob(f"*{kind_of(table)}") if not ignored(file.name))


def check_parts(path: Path, documents: Mapping[str, Any], *, whole: bool) -> None:
    """BadEvidence for a part that cannot be judged. `whole`: every value is read, not only those that must be known."""
    for table in TABLES:
        for file in _parts(path, table):
            _check_part(file, table, whole=whole)
    for table in _PROMISED:
        for file in _parts(path, table):
            check_promised(file, table, documents)


def check_promised(file: Path, table: str, documents: Mapping[str, Any], *, source: Path | None = None) -> None:
    """Without a contract nothing says what was promised, and the strictest promise may accuse who kept its own.

    `source`: what the user knows the part by.
    """
    contract = documents["run.json"]["contract"]
    known = {"topic": contract["topics"].keys(), "producer": {*contract["producers"], SENTINEL}}
    for column in _PROMISED.get(table, ()):
        if strange := _names(file, column) - known[column]:
            raise BadEvidence(
                f"{source or file} has the {column} {min(strange)!r}, of which run.json has no contract; "
                f"add it to contract.{column}s and seal again"
            )


def _names(file: Path, column: str) -> set[str]:
    if file.suffix == ".jsonl":
        return {row[column] for row in _rows(file)}
    return {name for name in words_in(file, column) if name is not None}


def _check_part(file: Path, table: str, *, whole: bool) -> None:
    if file.suffix == ".jsonl":
        _check_lines(file, table)
        return
    expected = arrow_schema(table)
    with opened(file) as part:
        found = part.metadata.schema.to_arrow_schema()
        if wrong := _wrong_columns(found, expected, OPTIONAL_COLUMNS.get(table, frozenset())):
            raise BadEvidence(f"{file}: {wrong}; FORMAT.md lists the columns of {table}")
        if whole:
            read_whole(part)
        for column in found.names:
            if not expected.field(column).nullable and (nulls := nulls_in(part, column)):
                raise BadEvidence(f"{file}: column {column} has {nulls} nulls and may have none; write it again")
    check_values(file, table)


def _wrong_columns(found: pa.Schema, expected: pa.Schema, optional: frozenset[str]) -> str | None:
    """What is wrong with the columns, or None. Order does not matter; Arrow's variants of text are text."""
    if twice := [name for name in expected.names if found.names.count(name) > 1]:
        return f"columns {', '.join(twice)} stand there twice"
    if missing := [name for name in expected.names if name not in found.names and name not in optional]:
        return f"columns {', '.join(missing)} are missing"
    if foreign := [name for name in found.names if name not in expected.names]:
        return f"columns {', '.join(foreign)} are unknown"
    for field in (expected.field(name) for name in found.names):
        actual = _plain_type(found.field(field.name).type)
        if actual != field.type:
            return f"column {field.name} is {actual} and must be {field.type}"
    return None


def _plain_type(actual: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(actual):
        actual = actual.value_type
    return pa.string() if pa.types.is_large_string(actual) else actual


def _check_lines(file: Path, table: str) -> None:
    for number, row in enumerate(_rows(file), start=1):
        if wrong := misfit_of_line(row, table):
            raise BadEvidence(f"{at_line(file, number, wrong)}; FORMAT.md lists the columns of {table}")


def _rows(file: Path) -> Iterator[Any]:
    for number, line in enumerate(lines_of(file), start=1):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            # A line without its end is the last of a harness that was killed while it wrote: its range was not used,
            # for a send waits for the line to be on disk.
            if line.endswith("\n"):
                raise BadEvidence(f"{file} line {number} is not JSON; {WRITE_AGAIN}") from None
