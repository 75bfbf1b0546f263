"""Writers of an evidence bundle: rows while they happen, documents atomically, the seal last.

A part file is written under a name that ends in `.tmp` and then renamed, so after a crash each part is whole or absent.
Rows that were still in memory are lost then. Their sequences were reserved on disk before, so the verifier counts them
as `unknown`.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
from msgspec.structs import replace

from harness.evidence.columns import arrow_schema, buffer_of, columns_of, nullable
from harness.evidence.documents import document_name, write_json
from harness.evidence.manifest import write_manifest
from harness.evidence.parts import merge_small_parts, write_parquet
from harness.model.documents.manifest import Origin
from harness.model.documents.record import Record
from harness.model.documents.run import Run
from harness.model.errors import MachineFailure
from harness.model.schemas import FORMAT_VERSION

ROTATE_ROWS: Final = 200_000
ROTATE_AFTER_S: Final = 2.0


class TableWriter(Protocol):
    """One writer of one table.

    One thread appends. Another thread may close the writer meanwhile, as `BundleWriter.close` does while a worker
    hangs: each append is then either in the evidence as a whole, or refused.
    """

    def append(self, columns: Mapping[str, object]) -> None:
        """Adds rows: arrays (numpy, masked, pyarrow, lists with None) of one length; scalars are broadcast.

        A nullable column may be left out. Values are copied. MachineFailure if the columns do not fit the table, or if
        the writer is closed; no row is added then.
        """
        ...

    def flush(self) -> None:
        """Makes everything appended so far survive a crash of the harness."""
        ...

    def close(self) -> None:
        """Flushes; a closed writer takes no more rows. Idempotent."""
        ...


class ParquetWriter:
    """Buffers rows and writes them as a Parquet part after ROTATE_ROWS rows or ROTATE_AFTER_S seconds."""

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
        self._lock = threading.Lock()  # the buffers, and which part comes next

    def append(self, columns: Mapping[str, object]) -> None:
        with self._lock:
            if self._closed:
                raise _closed(self._what)
            rows = _row_count(columns, self._what)
            if rows == 0:
                return
            if foreign := columns.keys() - self._columns.keys():
                raise MachineFailure(f"{self._what}: the table has no columns {sorted(foreign)}")
            for name, (buffer, optional) in self._columns.items():
                value = columns.get(name)
                if value is None and not optional:
                    raise MachineFailure(f"{self._what}: column {name} must be given")
                try:
                    buffer.put(self._rows, rows, value)
                except (ValueError, TypeError, OverflowError, pa.ArrowException) as misfit:
                    raise MachineFailure(f"{self._what}: column {name} {misfit}") from misfit
            self._rows += rows  # last, so that a refused append leaves nothing behind
            if self._rows >= ROTATE_ROWS or time.monotonic() - self._rotated_s > ROTATE_AFTER_S:
                self._rotate()

    def flush(self) -> None:
        """Writes what is buffered as a part file. Without buffered rows it writes nothing."""
        with self._lock:
            self._rotate()

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._rotate()
                self._closed = True

    def _rotate(self) -> None:
        """The caller holds the lock."""
        self._rotated_s = time.monotonic()
        if self._rows == 0:
            return
        taken = {name: buffer.take(self._rows) for name, (buffer, _) in self._columns.items()}
        target = self._directory / f"{self._writer}-{len(self.parts)}.parquet"
        write_parquet(pa.table(taken), target)
        self.parts.append(target)
        self._rows = 0


class JsonLinesWriter:
    """One JSON object a line, on disk (fsync) before `append` returns: for reservations, which come before sends."""

    def __init__(self, directory: Path, table: str, writer: str) -> None:
        self._what = f"{table}/{writer}"
        self._schema = arrow_schema(table)
        self._file = (directory / f"{writer}.jsonl").open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def append(self, columns: Mapping[str, object]) -> None:
        rows = _row_count(columns, self._what)
        try:
            arrays = [_plain(columns.get(field.name), rows, field) for field in self._schema]
        except (ValueError, TypeError, pa.ArrowException) as misfit:
            raise MachineFailure(f"{self._what}: {misfit}") from misfit
        if foreign := columns.keys() - set(self._schema.names):
            raise MachineFailure(f"{self._what}: the table has no columns {sorted(foreign)}")
        lines = [
            json.dumps(dict(zip(self._schema.names, row, strict=True))) + "\n" for row in zip(*arrays, strict=True)
        ]
        with self._lock:
            if self._file.closed:
                raise _closed(self._what)
            self._file.writelines(lines)
            self._to_disk()

    def flush(self) -> None:
        with self._lock:
            if not self._file.closed:
                self._to_disk()

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _to_disk(self) -> None:
        """The caller holds the lock."""
        self._file.flush()
        os.fsync(self._file.fileno())


class BundleWriter:
    """Writes one bundle. `path` is created; a folder that already holds files is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise MachineFailure(f"{path} holds files already; evidence is never written twice into one folder")
        self._writers: dict[tuple[str, str], TableWriter] = {}
        self._closed = False
        self._lock = threading.Lock()  # which writers there are

    def table(self, name: str, writer: str) -> TableWriter:
        """A new writer of a table. MachineFailure if the bundle has a writer of that name, or is closed."""
        columns_of(name)
        with self._lock:
            if self._closed:
                raise _closed(f"{name}/{writer}")
            if (name, writer) in self._writers:
                raise MachineFailure(f"{name}/{writer} is being written already; every writer needs a name of its own")
            directory = self.path / name
            directory.mkdir(exist_ok=True)
            kind = JsonLinesWriter if name == "reservations" else ParquetWriter
            opened: TableWriter = kind(directory, name, writer)
            self._writers[name, writer] = opened
        return opened

    def document(self, name: str, content: Record | Sequence[Record] | Mapping[str, object]) -> None:
        """Writes a JSON document atomically; a later one of the same name replaces it.

        run.json gets the `format_version`: it is the first document of a run, so evidence of a run that died before it
        was sealed, and has no manifest, is still distinguishable from evidence of another format.
        """
        if isinstance(content, Run):
            content = replace(content, format_version=FORMAT_VERSION)
        write_json(self.path / document_name(name), content)

    def with_rows(self) -> list[tuple[str, str]]:
        """Table and name of each writer that has written a part. Complete once the bundle is closed."""
        with self._lock:
            return [who for who, writer in self._writers.items() if isinstance(writer, ParquetWriter) and writer.parts]

    def log(self, source: Path, name: str) -> None:
        """Copies a file into logs/."""
        target = self.path / "logs" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

    def close(self) -> None:
        """Closes every table. Rows that a thread appends from now on are refused. Idempotent."""
        with self._lock:
            self._closed = True
        for writer in self._writers.values():
            writer.close()

    def seal(self, origin: Origin) -> None:
        """Closes all writers, then writes manifest.json with the digests of every file. Nothing may be added after."""
        self.close()
        for writer in self._writers.values():
            if isinstance(writer, ParquetWriter):
                merge_small_parts(writer.parts)
        write_manifest(self.path, origin)


def _closed(what: str) -> MachineFailure:
    return MachineFailure(f"{what}: the bundle is closed and takes no more rows; a thread went on after the run")


def _row_count(columns: Mapping[str, object], what: str) -> int:
    lengths = {len(v) for v in columns.values() if isinstance(v, Sized) and not isinstance(v, str | bytes)}
    if len(lengths) > 1:
        raise MachineFailure(f"{what}: columns of different lengths {sorted(lengths)}")
    return lengths.pop() if lengths else 1


def _plain(value: object, rows: int, field: pa.Field) -> list[object]:
    scalar = isinstance(value, str) or not isinstance(value, Sized)
    array = pa.array([value] * rows if scalar else value, type=field.type)
    if array.null_count and not field.nullable:
        raise ValueError(f"column {field.name} must be given")
    return list(array.to_pylist())
