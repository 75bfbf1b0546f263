"""Writers of an evidence bundle: rows as they happen, documents atomically, the seal last.

A part file is written as `.tmp` and renamed, so after a crash each part is whole or absent. Rows that were still in
memory are lost then: their sequences were reserved durably before, so the verifier counts them as `unknown`.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from harness.evidence.columns import arrow_schema, buffer_of, columns_of, nullable
from harness.evidence.documents import document_name, write_json
from harness.evidence.manifest import write_manifest
from harness.evidence.parts import merge_small_parts, write_parquet
from harness.model.errors import HarnessFailure

ROTATE_ROWS: Final = 200_000
ROTATE_AFTER_S: Final = 2.0


class TableWriter(Protocol):
    """One writer of one table; used by one thread at a time."""

    def append(self, columns: Mapping[str, Any]) -> None:
        """Adds rows: arrays (numpy, masked, pyarrow, lists with None) of one length; scalars are broadcast.

        A nullable column may be left out. Values are copied. HarnessFailure on columns that do not fit the table.
        """
        ...

    def flush(self) -> None:
        """Makes everything appended so far survive a crash of the harness."""
        ...

    def close(self) -> None:
        """Flushes; a closed writer takes no more rows. Idempotent."""
        ...


class ParquetWriter:
    """Buffers rows and rotates them into Parquet parts, after ROTATE_ROWS rows or ROTATE_AFTER_S seconds."""

    def __init__(self, directory: Path, table: str, writer: str) -> None:
        self._what = f"{table}/{writer}"
        self._directory = directory
        self._writer = writer
        self._schema = arrow_schema(table)
        self._columns = {name: (buffer_of(kind), nullable(kind)) for name, kind in columns_of(table).items()}
        self._rows = 0
        self.parts: list[Path] = []
        self._rotated_s = time.monotonic()
        self._closed = False

    def append(self, columns: Mapping[str, Any]) -> None:
        if self._closed:
            raise HarnessFailure(f"{self._what}: rows were appended after the writer was closed")
        rows = _row_count(columns, self._what)
        if rows == 0:
            return
        if foreign := columns.keys() - self._columns.keys():
            raise HarnessFailure(f"{self._what}: the table has no columns {sorted(foreign)}")
        for name, (buffer, optional) in self._columns.items():
            value = columns.get(name)
            if value is None and not optional:
                raise HarnessFailure(f"{self._what}: column {name} must be given")
            try:
                buffer.put(self._rows, rows, value)
            except (ValueError, TypeError, OverflowError, pa.ArrowException) as misfit:
                raise HarnessFailure(f"{self._what}: column {name} {misfit}") from misfit
        self._rows += rows
        if self._rows >= ROTATE_ROWS or time.monotonic() - self._rotated_s > ROTATE_AFTER_S:
            self.flush()

    def flush(self) -> None:
        """Rotates: what is buffered becomes a part file. Nothing buffered, nothing written."""
        self._rotated_s = time.monotonic()
        if self._rows == 0:
            return
        taken = {name: buffer.take(self._rows) for name, (buffer, _) in self._columns.items()}
        target = self._directory / f"{self._writer}-{len(self.parts)}.parquet"
        write_parquet(pa.table(taken), target)
        self.parts.append(target)
        self._rows = 0

    def close(self) -> None:
        if not self._closed:
            self.flush()
            self._closed = True


class JsonLinesWriter:
    """One JSON object a line, on disk (fsync) before `append` returns: for reservations, which come before sends."""

    def __init__(self, directory: Path, table: str, writer: str) -> None:
        self._what = f"{table}/{writer}"
        self._schema = arrow_schema(table)
        self._file = (directory / f"{writer}.jsonl").open("a", encoding="utf-8")

    def append(self, columns: Mapping[str, Any]) -> None:
        rows = _row_count(columns, self._what)
        try:
            arrays = [_plain(columns.get(field.name), rows, field) for field in self._schema]
        except (ValueError, TypeError, pa.ArrowException) as misfit:
            raise HarnessFailure(f"{self._what}: {misfit}") from misfit
        if foreign := columns.keys() - set(self._schema.names):
            raise HarnessFailure(f"{self._what}: the table has no columns {sorted(foreign)}")
        for values in zip(*arrays, strict=True):
            self._file.write(json.dumps(dict(zip(self._schema.names, values, strict=True))) + "\n")
        self.flush()

    def flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class BundleWriter:
    """Writes one bundle. `path` is created; one that already holds files is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise HarnessFailure(f"{path} holds files already; evidence is never written twice into one folder")
        self._writers: dict[tuple[str, str], TableWriter] = {}

    def table(self, name: str, writer: str) -> TableWriter:
        """A new writer of a table; each name once a bundle."""
        if (name, writer) in self._writers:
            raise HarnessFailure(f"{name}/{writer} is being written already; every writer needs a name of its own")
        columns_of(name)
        directory = self.path / name
        directory.mkdir(exist_ok=True)
        kind = JsonLinesWriter if name == "reservations" else ParquetWriter
        opened: TableWriter = kind(directory, name, writer)
        self._writers[name, writer] = opened
        return opened

    def document(self, name: str, content: object) -> None:
        """Writes a JSON document atomically; the last one of a name stays."""
        write_json(self.path / document_name(name), content)

    def log(self, source: Path, name: str) -> None:
        """Copies a file into logs/."""
        target = self.path / "logs" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

    def close(self) -> None:
        """Closes every writer that was handed out. Idempotent."""
        for writer in self._writers.values():
            writer.close()

    def seal(self, facts: Mapping[str, object]) -> None:
        """Closes all writers, then writes manifest.json with the digests of every file. Nothing may be added after."""
        self.close()
        for writer in self._writers.values():
            if isinstance(writer, ParquetWriter):
                merge_small_parts(writer.parts)
        write_manifest(self.path, facts, sealed_by="harness")


def _row_count(columns: Mapping[str, Any], what: str) -> int:
    lengths = {len(v) for v in columns.values() if hasattr(v, "__len__") and not isinstance(v, str | bytes)}
    if len(lengths) > 1:
        raise HarnessFailure(f"{what}: columns of different lengths {sorted(lengths)}")
    return lengths.pop() if lengths else 1


def _plain(value: Any, rows: int, field: pa.Field) -> list[Any]:
    scalar = isinstance(value, str) or not hasattr(value, "__len__")
    array = pa.array([value] * rows if scalar else value, type=field.type)
    if array.null_count and not field.nullable:
        raise ValueError(f"column {field.name} must be given")
    return list(array.to_pylist())
