"""Copies of one bundle, each changed in its tables or documents and sealed again. The original is never written to."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.evidence import Bundle
from harness.evidence.columns import arrow_schema
from harness.evidence.parts import write_parquet
from harness.evidence.seal import seal_directory
from harness.model.contract.contract import SENTINEL
from harness.model.schemas import TABLES

Row = dict[str, Any]


class Original:
    """The bundle of the real run, its tables read once for all copies.

    `merged` is the same bundle with one part for each table; copies are made from it. A run leaves 50 parts, and
    opening a part takes a seal, and each scan of the judge, longer than reading its rows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        read = {table: sorted((path / table).glob("*.parquet")) for table in TABLES}
        self.parts = {
            f"{table}/all-0.parquet": _with_all_columns(
                table, pa.concat_tables([pq.read_table(file) for file in files])
            )
            for table, files in read.items()
            if files
        }
        self._asked: dict[Hashable, list[Row]] = {}
        self.merged = path.with_name(f"{path.name}-merged")
        self._write_merged()

    def _write_merged(self) -> None:
        shutil.copytree(self.path, self.merged, copy_function=os.link)
        for name, part in self.parts.items():
            shutil.rmtree((self.merged / name).parent)
            (self.merged / name).parent.mkdir()
            write_parquet(part, self.merged / name)
        reserved = sorted((self.merged / "reservations").iterdir())
        text = "".join(file.read_text() for file in reserved)
        for file in reserved:
            file.unlink()
        (self.merged / "reservations" / "all.jsonl").write_text(text)

    @cached_property
    def documents(self) -> dict[str, Any]:
        """Every JSON document by its name without suffix. Not to be changed."""
        return {file.stem: json.loads(file.read_text()) for file in self.path.glob("*.json")}

    def reservations(self) -> list[Row]:
        """Every reservation."""
        return [json.loads(line) for line in (self.merged / "reservations" / "all.jsonl").read_text().splitlines()]

    def rows(self, table: str, **wanted: Any) -> list[Row]:
        """Rows that match, ordered by place and offset if the table has them. Cached, because many plants ask for
        the same."""
        key = (table, frozenset((c, frozenset(v) if _is_several(v) else v) for c, v in wanted.items()))
        if key not in self._asked:
            order = [c for c in ("topic", "partition", "offset", "base_offset") if c in TABLES[table]]
            part = self.parts.get(f"{table}/all-0.parquet", arrow_schema(table).empty_table())
            found = part.filter(_matching(part, wanted)).to_pylist()
            self._asked[key] = sorted(found, key=lambda row: [-1 if row[c] is None else row[c] for c in order])
        return [dict(row) for row in self._asked[key]]


class Copy:
    """One copy. Conditions name columns, with a value or a collection of values."""

    def __init__(self, original: Original, path: Path) -> None:
        self.original = original
        self.path = path
        self._parts = dict(original.parts)
        self._documents: dict[str, Any] = {}
        self._reserved: dict[str, str] = {}
        self._removed: list[str] = []
        # True: run.json keeps what the run wrote about its load and steps, whatever happens to these.
        self.contradicts = False

    def drop(self, table: str, **wanted: Any) -> int:
        """Removes rows and returns their number; at least one must match."""
        removed = 0
        for name, part, mask in self._touched(table, wanted):
            self._parts[name] = part.filter(pc.invert(mask))
            removed += pc.sum(mask).as_py()
        return removed

    def change(self, table: str, to: Mapping[str, Any], **wanted: Any) -> int:
        """Sets columns of rows and returns the number of rows; at least one must match."""
        changed = 0
        for name, part, mask in self._touched(table, wanted):
            for column, value in to.items():
                kind = part.schema.field(column).type
                new = pc.if_else(mask, pa.scalar(value, kind), part[column])
                part = part.set_column(part.schema.get_field_index(column), part.schema.field(column), new)
            self._parts[name] = part
            changed += pc.sum(mask).as_py()
        return changed

    def add(self, table: str, rows: Sequence[Row]) -> None:
        """Adds rows, as a part of their own."""
        name = f"{table}/planted-0.parquet"
        schema = arrow_schema(table)
        added = pa.Table.from_pylist(list(rows), schema)
        self._parts[name] = pa.concat_tables([self._parts[name], added]) if name in self._parts else added

    def next(self, table: str, column: str) -> int:
        """One more than the highest value of a column, added rows included."""
        tops = [pc.max(part[column]).as_py() for part in self._parts_of(table)]
        highest: int = max(top for top in tops if top is not None)
        return 1 + highest

    def reserved_by(self, client: str, stream: int) -> None:
        """Changes the client that reserved the sequence numbers of a stream."""
        self.reserved(stream, client=client)

    def reserved(self, stream: int, **to: Any) -> None:
        """Changes the reservations of a stream, which are lines of JSON."""
        for file in sorted((self.original.merged / "reservations").iterdir()):
            rows = [json.loads(line) for line in self._reserved.get(file.name, file.read_text()).splitlines()]
            if any(row["stream"] == stream for row in rows):
                changed = [row | (to if row["stream"] == stream else {}) for row in rows]
                self._reserved[file.name] = "".join(f"{json.dumps(row)}\n" for row in changed)
        assert self._reserved, f"stream {stream} has no reservation"

    @contextmanager
    def document(self, name: str) -> Iterator[Any]:
        """A document to be changed in place; it is written when the copy is sealed."""
        if name not in self._documents:
            self._documents[name] = json.loads((self.original.path / f"{name}.json").read_text())
        yield self._documents[name]

    def without(self, name: str) -> None:
        """Leaves a document out."""
        self._removed.append(name)

    def without_disks(self) -> None:
        """The disks could not be read, and the run says so."""
        self.drop("batches")
        with self.document("run") as run:
            run["capabilities"].remove("disk.read")

    def sealed(self) -> Bundle:
        """Writes the copy; unchanged files are links to the original's."""
        if not self.contradicts:
            self._tell()
        shutil.copytree(self.original.merged, self.path, copy_function=os.link)
        for name in self._parts.keys() | self.original.parts.keys():
            part = self._parts[name]
            if part is not self.original.parts.get(name):
                (self.path / name).parent.mkdir(exist_ok=True)
                (self.path / name).unlink(missing_ok=True)  # otherwise the original would be overwritten
                write_parquet(part, self.path / name)
        for name, content in self._documents.items():
            file = self.path / f"{name}.json"
            file.unlink()
            file.write_text(json.dumps(content))
        for name in self._removed:
            (self.path / f"{name}.json").unlink()
        for name, text in self._reserved.items():
            (self.path / "reservations" / name).unlink()
            (self.path / "reservations" / name).write_text(text)
        return seal_directory(self.path)

    def _tell(self) -> None:
        """Makes run.json fit the changed tables, documents and steps."""
        with self.document("run") as run:
            run["recorded"] = [part for part in run["recorded"] or () if self._has(part)] or None
        if any(self._has_changed(table) for table in ("ledger", "transactions", "admin_ops")):
            with self.document("run") as run:
                run["load"] |= {
                    "acked": self._count("ledger", outcome="acked") - self._acked_sentinels(),
                    "transactions": _by(self._rows("transactions"), "producer", "outcome"),
                    "operations": {"every": dict(Counter(row["outcome"] for row in self._rows("admin_ops")))},
                }
        if "steps" in self._documents:
            with self.document("run") as run, self.document("steps") as steps:
                times = [step[at] for step in steps for at in ("started_ns", "ended_ns", "healed_ns") if step[at]]
                run["started_ns"] = min([run["started_ns"], *times])
                run["ended_ns"] = max([run["ended_ns"], *times])
                run["windows"]["during"] = [
                    [step["started_ns"], step["healed_ns"] or step["ended_ns"]] for step in steps if step["is_fault"]
                ]

    def _has(self, part: str) -> bool:
        """Whether the copy has a part, in the form of `recorded` of run.json."""
        name, _, key = part.partition(": ")
        if not key:
            place, _, broker = part.partition("/broker-")
            table = place.partition(".")[0]
            rows = self._rows(table) if table in TABLES and self._has_changed(table) else None
            return rows is None or any(not broker or row["broker"] == int(broker) for row in rows)
        with self.document(name.removesuffix(".json")) as content:
            value = content.get(key)
        return value is not None if name == "run.json" else bool(value)

    def _has_changed(self, table: str) -> bool:
        changed = {name for name, part in self._parts.items() if part is not self.original.parts.get(name)}
        return any(name.startswith(f"{table}/") for name in changed)

    def _rows(self, table: str) -> list[Row]:
        return [row for part in self._parts_of(table) for row in part.to_pylist()]

    def _count(self, table: str, **wanted: Any) -> int:
        return sum(pc.sum(_matching(part, wanted)).as_py() or 0 for part in self._parts_of(table))

    def _parts_of(self, table: str) -> list[pa.Table]:
        return [part for name, part in self._parts.items() if name.startswith(f"{table}/")]

    def _acked_sentinels(self) -> int:
        streams = {row["stream"] for row in self.original.reservations() if row["producer"] == SENTINEL}
        return self._count("ledger", outcome="acked", stream=streams)

    def _touched(self, table: str, wanted: Mapping[str, Any]) -> list[tuple[str, pa.Table, pa.ChunkedArray]]:
        masks = [
            (name, part, _matching(part, wanted)) for name, part in self._parts.items() if name.startswith(f"{table}/")
        ]
        touched = [(name, part, mask) for name, part, mask in masks if pc.any(mask).as_py()]
        assert touched, f"nothing in {table} is {wanted}"
        return touched


def _with_all_columns(table: str, part: pa.Table) -> pa.Table:
    """The table with those columns as nulls that the run's own version of the harness did not know."""
    for field in arrow_schema(table):
        if field.name not in part.column_names:
            part = part.append_column(field, pa.nulls(len(part), field.type))
    return part


def _matching(part: pa.Table, wanted: Mapping[str, Any]) -> pa.ChunkedArray:
    mask = pa.chunked_array([pa.array([True] * len(part), pa.bool_())])
    for column, value in wanted.items():
        mask = pc.and_(mask, pc.fill_null(_is(part[column], value), False))
    return mask


def _by(rows: Sequence[Row], *columns: str) -> dict[str, dict[str, int]]:
    """How many rows there are, by the values of two columns."""
    found: dict[str, dict[str, int]] = {}
    for (first, second), count in Counter(tuple(row[c] for c in columns) for row in rows).items():
        found.setdefault(first, {})[second] = count
    return found


def _is_several(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str)


def _is(column: pa.ChunkedArray, value: Any) -> pa.ChunkedArray:
    if value is None:
        return pc.is_null(column)
    if _is_several(value):
        return pc.is_in(column, pa.array(sorted(value), column.type))
    return pc.equal(column, pa.scalar(value, column.type))
