"""Rows of Parquet files that match a filter, some at a time: a table of a run may not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from harness.evidence.documents import WRITE_AGAIN
from harness.evidence.parts import opened
from harness.model.errors import BadEvidence

Wanted: TypeAlias = pc.Expression

NOTHING: Final = pc.scalar(False)
_BATCH_ROWS: Final = 1 << 16
_BATCHES_AHEAD: Final = 2


def rows(file: Path, wanted: Wanted, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a file that match, in its order. columns: those to read; None = all.

    pyarrow skips the row groups in which nothing can match. Raises BadEvidence for a damaged file or a missing column.
    """
    try:
        with file.open("rb") as stream:  # by its descriptor, because pyarrow takes only names that are UTF-8
            fragment = ds.ParquetFileFormat().make_fragment(stream)
            scanner = fragment.scanner(
                columns=None if columns is None else [*columns],
                filter=wanted,
                batch_size=_BATCH_ROWS,
                batch_readahead=_BATCHES_AHEAD,
            )
            yield from (batch for batch in scanner.to_batches() if batch.num_rows)
    except (pa.ArrowException, ValueError, OSError) as damage:
        said = next(iter(str(damage).splitlines()), type(damage).__name__)
        raise BadEvidence(f"{file} cannot be read as a table of the evidence ({said}); {WRITE_AGAIN}") from None


def schema_in(file: Path) -> pa.Schema:
    """The columns of a file. Raises BadEvidence if it is damaged."""
    with opened(file) as part:
        return part.schema_arrow


def equals(column: str, value: str | int | None) -> Wanted:
    """Whether a column has a value; None = it is null. No table has text beyond UTF-8 or numbers beyond int64."""
    field = pc.field(column)
    try:
        return field.is_null() if value is None else field == value
    except (UnicodeEncodeError, OverflowError):
        return NOTHING


def any_of(several: Sequence[Wanted]) -> Wanted:
    """Whether one of several holds. It is a tree and not a chain, as a long chain exceeds the depth of recursion."""
    if not several:
        return NOTHING
    if len(several) <= 2:
        return reduce(lambda one, other: one | other, several)
    middle = len(several) // 2
    return any_of(several[:middle]) | any_of(several[middle:])
