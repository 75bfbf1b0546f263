"""The many files of a table as one: Spark opens each file once for every plan, which costs more than its rows do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from harness.evidence.columns import arrow_schema
from harness.evidence.parts import encoding, opened

# Larger tables have large files. Opening these costs less than their rows.
JOINED_BYTES: Final = 64 << 20
# Small files share a row group; Spark skips row groups by the smallest and largest value of each column.
_GROUP_ROWS: Final = 10_000
Files = Mapping[int, Sequence[Path]]  # of one table, by the number of the bundle


def worth_joining(files: Files) -> bool:
    """Whether there are several files, which are small together."""
    parts = [part for each in files.values() for part in each]
    return len(parts) > 1 and sum(part.stat().st_size for part in parts) <= JOINED_BYTES


def join(files: Files, table: str, bundle: str, target: Path) -> None:
    """Writes the rows of all files of a table to `target`, with the number of the bundle as column `bundle`.

    Files of the same name are neighbours, because they have rows of the same kind. So a row group has either all rows
    of one file, or those of small files that are alike, and Spark can skip it as it would skip the files.
    """
    schema = pa.schema([pa.field(bundle, pa.int32(), nullable=False), *arrow_schema(table)])
    with pq.ParquetWriter(target, schema, **encoding(schema)) as joined:
        for group in _groups(files, schema):
            joined.write_table(group)


def _groups(files: Files, schema: pa.Schema) -> Iterator[pa.Table]:
    parts = sorted((part.name, number, part) for number, each in files.items() for part in each)
    group: list[pa.Table] = []
    last = ""
    for name, number, part in parts:
        if group and (name != last or sum(map(len, group)) >= _GROUP_ROWS):
            yield pa.concat_tables(group)
            group = []
        group.append(_rows(part, number, schema))
        last = name
    if group:
        yield pa.concat_tables(group)


def _rows(part: Path, number: int, schema: pa.Schema) -> pa.Table:
    """The rows of a file in the columns of the schema, of which it may lack those that are optional."""
    with opened(part) as file:
        found = file.read()
    first, *others = schema
    columns = [pa.repeat(pa.scalar(number, first.type), len(found))]
    for field in others:
        there = field.name in found.column_names
        columns.append(found[field.name].cast(field.type) if there else pa.nulls(len(found), field.type))
    return pa.Table.from_arrays(columns, schema=schema)
