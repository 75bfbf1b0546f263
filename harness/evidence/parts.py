"""Parquet parts of a table: how they are encoded, and how small ones are merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from harness.evidence.documents import WRITE_AGAIN
from harness.model.errors import BadEvidence

# A writer that rotates by time leaves hundreds of small parts, and opening a file costs the judge more than its rows
# do.
SMALL_ROWS: Final = 100_000


def encoding(schema: pa.Schema) -> dict[str, object]:
    """Options of the Parquet writer: texts as dictionaries and 64-bit numbers as deltas, which takes a third of the
    space and less CPU than plain values. The Arrow schema is left out, so that every reader gets dictionaries as plain
    strings.
    """
    counts = [field.name for field in schema if field.type == pa.int64()]
    return {
        "compression": "snappy",
        "use_dictionary": [name for name in schema.names if name not in counts],
        "column_encoding": dict.fromkeys(counts, "DELTA_BINARY_PACKED"),
        "store_schema": False,
    }


def write_parquet(table: pa.Table, target: Path) -> None:
    """Writes one part atomically."""
    unfinished = target.with_name(target.name + ".tmp")
    pq.write_table(table, unfinished, **encoding(table.schema))
    unfinished.replace(target)


@contextmanager
def opened(file: Path, *, as_dictionaries: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """A part to read from. BadEvidence if it is damaged, when it is opened or while it is read.

    as_dictionaries: columns, which it may lack, whose values are read as codes of distinct ones. For texts this takes
    half the time.

    It is opened by its descriptor, because pyarrow takes only names that are UTF-8.
    """
    with file.open("rb") as stream:
        try:
            footer = pq.read_metadata(stream)
            present = [name for name in as_dictionaries if name in footer.schema.names]
            with pq.ParquetFile(stream, metadata=footer, read_dictionary=present) as part:
                yield part
        except (pa.ArrowException, ValueError, OSError) as damage:
            said = next(iter(str(damage).splitlines()), type(damage).__name__)
            raise BadEvidence(f"{file} is not a whole Parquet file ({said}); {WRITE_AGAIN}") from None


def merge_small_parts(parts: Sequence[Path]) -> None:
    """Merges the small ones among `parts` into one. A crash in here may lose rows, but never leaves them twice."""
    small = [part for part in parts if pq.read_metadata(part).num_rows < SMALL_ROWS]
    if len(small) < 2:
        return
    merged = small[0].with_name(small[0].name + ".tmp")
    schema = pq.read_schema(small[0])
    with pq.ParquetWriter(merged, schema, **encoding(schema)) as file:
        for group in _groups(small):
            file.write_table(pa.concat_tables(group))
    hidden = [part.rename(part.with_name(part.name + ".merged.tmp")) for part in small[1:]]
    merged.replace(small[0])
    for part in hidden:
        part.unlink()


def _groups(parts: Sequence[Path]) -> Iterator[list[pa.Table]]:
    """Tables in groups of at least SMALL_ROWS rows, except the last: row groups of a size that is fast to read."""
    group: list[pa.Table] = []
    for part in parts:
        group.append(pq.read_table(part))
        if sum(len(table) for table in group) >= SMALL_ROWS:
            yield group
            group = []
    if group:
        yield group
