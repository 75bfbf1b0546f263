"""Reading a bundle: every file is checked before the judge sees any of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

from harness.evidence.columns import arrow_schema, base_type, columns_of
from harness.evidence.documents import SOURCE_AGAIN, is_there, with_rights
from harness.evidence.history import history_in
from harness.evidence.judged_documents import Documents, documents_of
from harness.evidence.layout import check_tables, ignored, kind_of
from harness.evidence.lines import check_lines, texts_of
from harness.evidence.manifest import MANIFEST, check_digests, read_manifest
from harness.evidence.parts import opened
from harness.evidence.samples import samples_in
from harness.evidence.seal_recovery import recover
from harness.evidence.values import check_values, nulls_in, read_whole, words_in
from harness.model.contract.contract import SENTINEL
from harness.model.documents.manifest import Manifest
from harness.model.errors import BadEvidence
from harness.model.history.history import History
from harness.model.sample import Sample
from harness.model.schemas import FORMAT_VERSION, OPTIONAL_COLUMNS, TABLES

# Columns that name topics and producers, of each of which run.json must have a contract.
_PROMISED: Final = {"ledger": ("topic",), "reservations": ("topic", "producer"), "transactions": ("producer",)}


class Bundle:
    """A checked evidence bundle. `complete` is False if the run died half way: then absence proves nothing."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        documents: Documents,
        *,
        sealed: bool,
        history: History | None = None,
    ) -> None:
        self.path = path
        self.history = history  # of the cluster; None if the bundle has none
        self.sealed = sealed
        self.manifest = manifest
        self.documents = documents
        self.complete: bool = sealed and documents.run.finished

    @classmethod
    def open(cls, path: Path, *, allow_unfinished: bool = False) -> Bundle:
        """Checks manifest, digests, documents and columns. BadEvidence: one sentence with file, cause, remedy.

        `allow_unfinished` also opens the folder of a run that died before it was sealed. What a killed `durability
        seal` left in the folder is finished or undone first.
        """
        with with_rights(path, "judge it as a user with read access to all of it"):
            return cls._open(path, allow_unfinished)

    @classmethod
    def _open(cls, path: Path, allow_unfinished: bool) -> Bundle:
        if not path.is_dir():
            raise BadEvidence(f"{path} is not a folder; give the folder of an evidence bundle")
        recover(path)
        sealed = is_there(path / MANIFEST)
        if not sealed:
            _refuse_foreign(path, allow_unfinished)
        manifest = read_manifest(path) if sealed else _unsealed_manifest()
        if sealed:
            check_digests(path, manifest)
        # Evidence that was sealed by hand may lack its version, because the seal has one. Without a seal only run.json
        # has it.
        documents = documents_of(path, version_needed=not sealed and not _by_hand(path))
        _check_scenario(path, manifest, documents)
        if not sealed and (documents.run.finished or _by_hand(path)):
            raise _never_sealed(path)
        check_tables(path)
        # The harness writes sound parts, `durability seal` has read each value of others, and the digests show that
        # they are unchanged. Other programs may have sealed parts that cannot be read.
        check_parts(path, documents, whole=manifest.sealed_by is None)
        return cls(path, manifest, documents, sealed=sealed, history=history_in(path))

    def table_files(self, name: str) -> list[Path]:
        """The parts of a table, in order; none if it has no row."""
        return _parts(self.path, name)

    def samples(self) -> list[Sample]:
        """The rows of the table `positions`, read anew with each call."""
        return list(samples_in(self.table_files("positions")))


def _check_scenario(path: Path, manifest: Manifest, documents: Documents) -> None:
    """BadEvidence if the seal is of another scenario than the evidence."""
    played = documents.scenario.name
    if played and manifest.scenario and played != manifest.scenario:
        raise BadEvidence(
            f"{path} is of the scenario {played!r} by scenario.json, and of {manifest.scenario!r} by {MANIFEST}; "
            f"{SOURCE_AGAIN}"
        )


def _refuse_foreign(path: Path, allow_unfinished: bool) -> None:
    if not (path / "scenario.json").is_file():
        raise BadEvidence(f"{path} has no {MANIFEST} and no scenario.json: it is not an evidence bundle")
    if not allow_unfinished:
        raise _never_sealed(path)


def _never_sealed(path: Path) -> BadEvidence:
    return BadEvidence(f"{path} was never sealed (no {MANIFEST}); if it is complete, run `durability seal {path}`")


def _by_hand(path: Path) -> bool:
    """Whether tables are JSON lines still, which the judge does not read."""
    tables = (path / table for table in TABLES if table != "reservations")
    return any(not ignored(lines.name) for table in tables for lines in table.glob("*.jsonl"))


def _unsealed_manifest() -> Manifest:
    return Manifest(format_version=FORMAT_VERSION, files={})


def _parts(path: Path, table: str) -> list[Path]:
    return sorted(file for file in (path / table).glob(f"*{kind_of(table)}") if not ignored(file.name))


def check_parts(path: Path, documents: Documents, *, whole: bool) -> None:
    """BadEvidence for a part that cannot be judged. `whole`: decodes every value, also of columns that need no
    check.
    """
    for table in TABLES:
        for file in _parts(path, table):
            _check_part(file, table, whole=whole)
    for table in _PROMISED:
        for file in _parts(path, table):
            check_promised(file, table, documents)


def check_promised(file: Path, table: str, documents: Documents, *, source: Path | None = None) -> None:
    """BadEvidence for a topic or producer without a contract: to assume the strictest one may accuse a correct broker.

    `source`: the file that the user knows, if the part was made of it.
    """
    contract = documents.run.contract
    known = {"topic": contract.topics.keys(), "producer": {*contract.producers, SENTINEL}}
    for column in _PROMISED.get(table, ()):
        if strange := _names(file, column) - known[column]:
            raise BadEvidence(
                f"{source or file} has the {column} {min(strange)!r}, for which run.json has no contract; "
                f"add it to contract.{column}s and seal again"
            )


def _names(file: Path, column: str) -> set[str]:
    if file.suffix == ".jsonl":
        return texts_of(file, column)
    with opened(file, as_dictionaries=[column]) as part:
        return {name for name in words_in(part, [column])[column] if name is not None}


def _check_part(file: Path, table: str, *, whole: bool) -> None:
    if file.suffix == ".jsonl":
        check_lines(file, table)
        return
    expected = arrow_schema(table)
    with opened(file, as_dictionaries=_texts(table)) as part:
        found = part.metadata.schema.to_arrow_schema()
        if wrong := _wrong_columns(found, expected, OPTIONAL_COLUMNS.get(table, frozenset())):
            raise BadEvidence(f"{file}: {wrong}; FORMAT.md lists the columns of {table}")
        if whole:
            read_whole(part)
        for column in found.names:
            if not expected.field(column).nullable and (nulls := nulls_in(part, column)):
                raise BadEvidence(f"{file}: column {column} has {nulls} nulls and may have none; write the file again")
        check_values(part, file, table)


def _texts(table: str) -> list[str]:
    return [name for name, kind in columns_of(table).items() if base_type(kind) == "string"]


def _wrong_columns(found: pa.Schema, expected: pa.Schema, optional: frozenset[str]) -> str | None:
    """The error in the columns, or None. Their order does not matter, and any of Arrow's types of text will
    do.
    """
    if twice := [name for name in expected.names if found.names.count(name) > 1]:
        return f"columns {', '.join(twice)} are there twice"
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
