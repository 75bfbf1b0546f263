"""Sealing of evidence that this harness did not write, or that a person edited: checked in full, and marked as such."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import to_builtins

from harness.evidence.bundle import Bundle, check_parts, check_promised
from harness.evidence.columns import arrow_schema
from harness.evidence.documents import is_there, read_json, with_rights, write_json
from harness.evidence.history import history_in
from harness.evidence.judged_documents import Documents, documents_of
from harness.evidence.layout import check_names, check_tables, ignored
from harness.evidence.lines import rows_by_hand
from harness.evidence.manifest import (
    MANIFEST,
    OWN_DIGEST,
    SEALED_FROM,
    check_version,
    digest,
    manifest_of,
    parse_manifest,
    sealed_names,
)
from harness.evidence.parts import encoding
from harness.evidence.seal_recovery import STAGED, recover_locked, sealing
from harness.evidence.verdicts import VERDICT
from harness.model.documents.manifest import SealedBy
from harness.model.errors import BadEvidence
from harness.model.schemas import TABLES

HAND: Final[SealedBy] = "hand"
# Keys of a manifest that follow from the files.
_OF_THE_SEAL: Final = ("format_version", "sealed_by", "files", SEALED_FROM, OWN_DIGEST)
_CHUNK_ROWS: Final = 1 << 16


def seal_directory(path: Path) -> Bundle:
    """Digests every file of a bundle made or edited by hand, and opens it. BadEvidence says what is wrong.

    Tables may be JSON lines; they become Parquet here. Release, seed and versions are taken from an earlier manifest if
    there is one. A verdict on the evidence before this seal is removed, because it is not about this evidence. A folder
    that is refused stays as it was, with the seal and the verdict that it had.
    """
    with with_rights(path, "seal it as a user with both rights, on a disk with space left"):
        if not path.is_dir():
            raise BadEvidence(f"{path} is not a folder; give the folder of the evidence")
        with sealing(path):
            return _seal(path)


def _seal(path: Path) -> Bundle:
    check_names(path)
    check_tables(path, by_hand=True)
    facts = _earlier_facts(path)
    documents = documents_of(path)
    history = history_in(path)
    facts = facts or _own_facts(path, documents)
    if documents.scenario.name:  # it may have been edited
        facts["scenario"] = documents.scenario.name
    staged = {lines: _beside(lines) for lines in _lines_by_hand(path)}
    check_parts(path, documents, whole=True)
    try:
        for lines, part in staged.items():
            _to_parquet(lines, part)
            check_promised(part, lines.parent.name, documents, source=lines)
        content = _manifest(path, facts, staged)
        manifest = parse_manifest(path / MANIFEST, to_builtins(content))
        _put_in_place(path, content, staged)
    except BaseException:
        recover_locked(path)
        raise
    return Bundle(path, manifest, documents, sealed=True, history=history)


def _earlier_facts(path: Path) -> dict[str, object]:
    """Release, seed and so on from an earlier manifest; empty without one. BadEvidence on one of another version."""
    if not is_there(path / MANIFEST):
        return {}
    earlier = read_json(path / MANIFEST)
    if not isinstance(earlier, dict):
        return {}
    if "format_version" in earlier:
        check_version(path / MANIFEST, earlier["format_version"])
    return {k: v for k, v in earlier.items() if k not in _OF_THE_SEAL}


def _own_facts(path: Path, documents: Documents) -> dict[str, object]:
    name = documents.scenario.name or path.resolve().name
    release = {"version": "unknown", "commit": "unknown", "source": "evidence sealed by hand"}
    return {"release": release, "scenario": name, "seed": None, "versions": {}, "clock": {}}


def _lines_by_hand(path: Path) -> Iterator[Path]:
    for table in TABLES:
        if table == "reservations":
            continue
        for lines in sorted((path / table).glob("*.jsonl")):
            if is_there(lines.with_suffix(".parquet")):
                raise BadEvidence(
                    f"{lines} would become {lines.with_suffix('.parquet').name}, which is there already; move away the "
                    f"one that is out of date, or rename {lines.name} if both are evidence"
                )
            if not ignored(lines.name):
                yield lines


def _beside(lines: Path) -> Path:
    return lines.with_name(f"{lines.stem}.parquet{STAGED}")


def _to_parquet(lines: Path, part: Path) -> None:
    table = lines.parent.name
    schema = arrow_schema(table)
    rows = rows_by_hand(lines, table)
    chunk = list(islice(rows, _CHUNK_ROWS))
    if not chunk:
        raise BadEvidence(f"{lines} has no rows; write them, or remove the file if there were none")
    # By its descriptor, because pyarrow takes only names that are UTF-8.
    with part.open("wb") as stream, pq.ParquetWriter(stream, schema, **encoding(schema)) as file:
        while chunk:
            try:
                file.write_table(pa.Table.from_pylist(chunk, schema))
            except ValueError as misfit:  # such as half of a surrogate pair, which JSON can hold and UTF-8 cannot
                raise BadEvidence(f"{lines} does not fit the columns of {table}: {misfit}; write it again") from None
            chunk = list(islice(rows, _CHUNK_ROWS))


def _manifest(path: Path, facts: Mapping[str, object], staged: Mapping[Path, Path]) -> dict[str, object]:
    """The manifest of the files as they are once the staged parts have replaced their JSON lines."""
    files = {name: path / name for name in sealed_names(path) if path / name not in staged}
    for lines, part in staged.items():
        files[lines.with_suffix(".parquet").relative_to(path).as_posix()] = part
    made_from = {lines.relative_to(path).as_posix(): digest(lines) for lines in staged}
    return manifest_of(files, {**facts, **({SEALED_FROM: made_from} if made_from else {})}, HAND)


def _put_in_place(path: Path, manifest: Mapping[str, object], staged: Mapping[Path, Path]) -> None:
    """The seal holds once the manifest is written. After a kill later than that, `recover` does the rest of this."""
    verdict, hidden = path / VERDICT, path / f"{VERDICT}{STAGED}"
    if verdict.is_file():
        verdict.replace(hidden)
    try:
        write_json(path / MANIFEST, manifest)
    except BaseException:
        if hidden.is_file():
            hidden.replace(verdict)
        raise
    for lines, part in staged.items():
        part.replace(lines.with_suffix(".parquet"))
        lines.unlink()
    hidden.unlink(missing_ok=True)
