"""Reading a bundle: everything is checked before anything is judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from harness.evidence.columns import arrow_schema
from harness.evidence.documents import SOURCE_AGAIN, document_name, read_json
from harness.evidence.forms import check_form
from harness.evidence.manifest import MANIFEST, check_digests, read_manifest
from harness.evidence.values import at_line, check_values, lines_of, misfit_of_line, words_in
from harness.model.contract import SENTINEL
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
        if not path.is_dir():
            raise BadEvidence(f"{path} is not a folder; give the folder of an evidence bundle")
        sealed = (path / MANIFEST).is_file()
        if not sealed:
            _refuse_foreign(path, allow_unfinished)
        manifest = read_manifest(path) if sealed else _unsealed_manifest()
        if sealed:
            check_digests(path, manifest)
        documents = documents_of(path)
        if not sealed and (documents["run.json"]["finished"] or _by_hand(path)):
            raise _never_sealed(path)
        bundle = cls(path, manifest, documents, sealed=sealed)
        for table in TABLES:
            for file in bundle.table_files(table):
                _check_part(file, table)
        _check_promised(bundle)
        return bundle

    def document(self, name: str) -> Any:
        """A document by name (`run` or `run.json`)."""
        return self._documents[document_name(name)]

    def table_files(self, name: str) -> list[Path]:
        """The parts of a table, in order; none when nobody wrote a row."""
        suffix = "*.jsonl" if name == "reservations" else "*.parquet"
        return sorted((self.path / name).glob(suffix))


def _refuse_foreign(path: Path, allow_unfinished: bool) -> None:
    if not (path / "scenario.json").is_file():
        raise BadEvidence(f"{path} has no {MANIFEST} and no scenario.json: it is not an evidence bundle")
    if not allow_unfinished:
        raise _never_sealed(path)


def _never_sealed(path: Path) -> BadEvidence:
    return BadEvidence(f"{path} was never sealed (no {MANIFEST}); if it is whole, run `durability seal {path}`")


def _by_hand(path: Path) -> bool:
    """Whether tables are JSON lines still, which nobody would read."""
    return any(next((path / table).glob("*.jsonl"), None) for table in TABLES if table != "reservations")


def _unsealed_manifest() -> dict[str, Any]:
    return {"format_version": FORMAT_VERSION, "sealed_by": None, "files": {}}


def documents_of(path: Path) -> dict[str, Any]:
    """The required documents but the manifest. A run that died half way may lack what it had not come to."""
    run = _document(path, "run.json", optional=False)
    others = [name for name in REQUIRED_DOCUMENTS if name not in (MANIFEST, "run.json")]
    return {"run.json": run, **{name: _document(path, name, optional=not run["finished"]) for name in others}}


def _document(path: Path, name: str, *, optional: bool) -> Any:
    file = path / name
    if not file.is_file():
        if optional and name in _EMPTY:
            return _EMPTY[name]
        raise BadEvidence(f"{file} is missing; a bundle cannot be judged without it (see FORMAT.md)")
    content = read_json(file)
    check_form(file, content)
    return content


def _check_promised(bundle: Bundle) -> None:
    """Without a contract nothing says what was promised, and the strictest promise may accuse who kept its own."""
    contract = bundle.document("run")["contract"]
    known = {"topic": contract["topics"].keys(), "producer": {*contract["producers"], SENTINEL}}
    for table, columns in _PROMISED.items():
        for file in bundle.table_files(table):
            for column in columns:
                if strange := _names(file, column) - known[column]:
                    raise BadEvidence(
                        f"{file} has the {column} {min(strange)!r}, of which run.json has no contract; "
                        f"add it to contract.{column}s and seal again"
                    )


def _names(file: Path, column: str) -> set[str]:
    if file.suffix == ".jsonl":
        return {row[column] for row in _rows(file)}
    return {name for name in words_in(file, column) if name is not None}


def _check_part(file: Path, table: str) -> None:
    if file.suffix == ".jsonl":
        _check_lines(file, table)
        return
    try:
        metadata = pq.read_metadata(file)
        found = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as damage:
        raise BadEvidence(f"{file} is not a whole Parquet file ({damage}); {SOURCE_AGAIN}") from None
    expected = arrow_schema(table)
    if wrong := _wrong_columns(found, expected, OPTIONAL_COLUMNS.get(table, frozenset())):
        raise BadEvidence(f"{file}: {wrong}; FORMAT.md lists the columns of {table}")
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            nulls = chunk.statistics.null_count if chunk.statistics and chunk.statistics.has_null_count else 0
            if nulls and not expected.field(chunk.path_in_schema).nullable:
                raise BadEvidence(f"{file}: column {chunk.path_in_schema} has {nulls} nulls and may have none")
    check_values(file, table)


def _wrong_columns(found: pa.Schema, expected: pa.Schema, optional: frozenset[str]) -> str | None:
    """What is wrong with the columns, or None. Order does not matter; Arrow's variants of text are text."""
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
    lines = lines_of(file)
    for number, line in enumerate(lines, start=1):
        try:
            yield json.loads(line)
        except ValueError:
            # The last line of a harness that was killed while it wrote: its range was not used, for a send waits
            # for the line to be on disk.
            if number < len(lines):
                raise BadEvidence(f"{file} line {number} is not JSON; {SOURCE_AGAIN}") from None
