"""Checks of the values in Parquet parts. They go by column, because a part may have millions of rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.evidence.columns import columns_of, nullable
from harness.evidence.parsing import one_of, shown
from harness.model.errors import BadEvidence
from harness.model.schemas import COUNTED, WORDS

_BATCH_ROWS: Final = 1 << 17


class _Statistics(Protocol):
    """The statistics that a part has of a column, for one of its groups of rows."""

    has_null_count: bool
    null_count: int
    has_min_max: bool
    min: int


def check_values(part: pq.ParquetFile, file: Path, table: str) -> None:
    """BadEvidence for an unknown word in a column with fixed words, and for a count below 0, in a Parquet part. It may
    lack optional columns."""
    present = part.schema_arrow.names
    for column, found in words_in(part, [name for name in WORDS[table] if name in present]).items():
        words = WORDS[table][column]
        for word in found - {*words, *([None] if nullable(columns_of(table)[column]) else [])}:
            raise BadEvidence(f"{file}: {not_a_word(column, word, words)}; {lists_columns(table)}")
    for column in (name for name in COUNTED[table] if name in present):
        if (least := _least(part, column)) is not None and least < 0:
            raise BadEvidence(f"{file}: {column} is {least} and cannot be below 0; {lists_columns(table)}")


def words_in(part: pq.ParquetFile, columns: Sequence[str]) -> dict[str, set[str | None]]:
    """The distinct values of text columns, read a batch at a time."""
    found: dict[str, set[str | None]] = {column: set() for column in columns}
    if not columns:
        return found
    for batch in part.iter_batches(_BATCH_ROWS, columns=columns):
        for column, words in found.items():
            words.update(pc.unique(batch.column(column)).to_pylist())
    return found


def nulls_in(part: pq.ParquetFile, column: str) -> int:
    """The number of nulls in a column, from the part's own statistics if it has them, else by reading it."""
    reported = _statistics(part, column)
    counts = [s.null_count for s in reported if s is not None and s.has_null_count]
    if len(counts) == len(reported):
        return sum(counts)
    return sum(batch.column(0).null_count for batch in part.iter_batches(_BATCH_ROWS, columns=[column]))


def read_whole(part: pq.ParquetFile) -> None:
    """Decodes every value, because pages may be damaged although the footer is sound."""
    for _ in part.iter_batches(_BATCH_ROWS):
        pass


def not_a_word(column: str, word: object, words: Sequence[str]) -> str:
    """An error: a column with fixed words has another one."""
    return f"{column} is {shown(word)} and must be {one_of(tuple(words))}"


def lists_columns(table: str) -> str:
    """The remedy for a row that does not fit its table."""
    return f"FORMAT.md lists the columns of {table}"


def _least(part: pq.ParquetFile, column: str) -> int | None:
    """The smallest value of a column, from the part's own statistics if it has them, else by reading it."""
    reported = _statistics(part, column)
    least = [s.min for s in reported if s is not None and s.has_min_max]
    if len(least) < len(reported):
        least = [pc.min(b.column(0)).as_py() for b in part.iter_batches(_BATCH_ROWS, columns=[column])]
    return min((n for n in least if n is not None), default=None)


def _statistics(part: pq.ParquetFile, column: str) -> list[_Statistics | None]:
    at = part.schema_arrow.names.index(column)
    chunks = [part.metadata.row_group(group).column(at) for group in range(part.num_row_groups)]
    # pyarrow aborts the process if it is asked for statistics of a footer that contradicts itself.
    if any(chunk.physical_type != part.metadata.schema.column(at).physical_type for chunk in chunks):
        raise ValueError(f"its footer gives column {column} two types")
    return [chunk.statistics for chunk in chunks]
