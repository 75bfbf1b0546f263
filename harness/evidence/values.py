"""Checks of the values in tables: columns with fixed words, numbers that count from 0, and rows of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Meta, Struct, defstruct

from harness.evidence.columns import columns_of, nullable
from harness.evidence.parsing import MisfitError, converted, one_of, shown
from harness.model.errors import BadEvidence
from harness.model.schemas import COUNTED, OPTIONAL_COLUMNS, WORDS

_BATCH_ROWS: Final = 1 << 17
_Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Count32 = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
_Count64 = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
# The type of a column by its declared one, and by whether it counts from 0.
_TYPES: Final[Mapping[tuple[str, bool], object]] = {
    ("int32", False): _Int32,
    ("int32?", False): _Int32 | None,
    ("int64", False): _Int64,
    ("int64?", False): _Int64 | None,
    ("int32", True): _Count32,
    ("int32?", True): _Count32 | None,
    ("int64", True): _Count64,
    ("int64?", True): _Count64 | None,
    ("bool", False): bool,
    ("bool?", False): bool | None,
    ("string", False): str,
    ("string?", False): str | None,
}


def text_columns(table: str) -> list[str]:
    """The columns of texts. A part that is opened with them as dictionaries is decoded in half the time."""
    return [name for name, kind in columns_of(table).items() if kind.removesuffix("?") == "string"]


def check_values(part: pq.ParquetFile, file: Path, table: str) -> None:
    """BadEvidence for an unknown word in a column with fixed words, and for a count below 0, in a Parquet part. It may
    lack optional columns."""
    present = part.schema_arrow.names
    for column, found in words_in(part, [name for name in WORDS[table] if name in present]).items():
        words = WORDS[table][column]
        for word in found - {*words, *([None] if nullable(columns_of(table)[column]) else [])}:
            raise BadEvidence(f"{file}: {_not_a_word(column, word, words)}; {_lists(table)}")
    for column in (name for name in COUNTED[table] if name in present):
        if (least := _least(part, column)) is not None and least < 0:
            raise BadEvidence(f"{file}: {_below_0(column, least)}; {_lists(table)}")


def words_in(part: pq.ParquetFile, columns: Sequence[str]) -> dict[str, set[str | None]]:
    """The distinct values of text columns, read a batch at a time."""
    found: dict[str, set[str | None]] = {column: set() for column in columns}
    if not columns:
        return found
    for batch in part.iter_batches(_BATCH_ROWS, columns=columns):
        for column, words in found.items():
            words.update(pc.unique(batch.column(column)).to_pylist())
    return found


def misfit_of_line(row: object, table: str, *, by_hand: bool = False) -> str | None:
    """The error in a JSON line; None if it fits. `by_hand`: columns that may be null may be left out."""
    try:
        values = converted(row, _row_of(table, by_hand))
    except MisfitError as wrong:
        return str(wrong)
    found = ((name, getattr(values, name), words) for name, words in WORDS[table].items())
    return next((_not_a_word(*one) for one in found if one[1] is not None and one[1] not in one[2]), None)


def lines_of(file: Path) -> Iterator[str]:
    """Lines of JSON, each with its line break. BadEvidence if they are not UTF-8."""
    try:
        with file.open(encoding="utf-8", newline="\n") as lines:
            yield from lines
    except ValueError as damage:
        raise BadEvidence(f"{file} cannot be read as text ({damage}); write it as UTF-8") from None


def rows_by_hand(file: Path, table: str) -> Iterator[dict[str, object]]:
    """Rows of JSON lines. BadEvidence with line and column of the first one that is no row of the table."""
    for number, line in enumerate(lines_of(file), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            wrong = misfit_of_line(row, table, by_hand=True)
        except (ValueError, RecursionError):
            wrong = "is not JSON"
        if wrong:
            raise BadEvidence(f"{at_line(file, number, wrong)}; {_lists(table)}")
        yield row


def at_line(file: Path, number: int, wrong: str) -> str:
    """A sentence about a line: the file, the line's number and what is wrong."""
    return f"{file} line {number}{' ' if wrong.startswith(('has ', 'is ')) else ': '}{wrong}"


def nulls_in(part: pq.ParquetFile, column: str) -> int:
    """The number of nulls in a column, from the part's own statistics if it has them, else by reading it."""
    reported = _statistics(part, column)
    if all(s is not None and s.has_null_count for s in reported):
        return sum(s.null_count for s in reported)
    return sum(batch.column(0).null_count for batch in part.iter_batches(_BATCH_ROWS, columns=[column]))


def read_whole(part: pq.ParquetFile) -> None:
    """Decodes every value, because pages may be damaged although the footer is sound."""
    for _ in part.iter_batches(_BATCH_ROWS):
        pass


@cache
def _row_of(table: str, by_hand: bool) -> type[Struct]:
    """The type of a row of JSON lines. Columns that may be null may be left out by hand, or if older bundles lack
    them."""
    optional = OPTIONAL_COLUMNS.get(table, frozenset())
    fields: list[tuple[str, object] | tuple[str, object, None]] = []
    for name, kind in columns_of(table).items():
        of_column = _TYPES[kind, name in COUNTED[table]]
        left_out = nullable(kind) and (by_hand or name in optional)
        fields.append((name, of_column, None) if left_out else (name, of_column))
    return defstruct(table, fields, kw_only=True, forbid_unknown_fields=True)


def _least(part: pq.ParquetFile, column: str) -> int | None:
    """The smallest value of a column, from the part's own statistics if it has them, else by reading it."""
    reported = _statistics(part, column)
    if all(s is not None and s.has_min_max for s in reported):
        return min((s.min for s in reported), default=None)
    least = [pc.min(b.column(0)).as_py() for b in part.iter_batches(_BATCH_ROWS, columns=[column])]
    return min((n for n in least if n is not None), default=None)


def _statistics(part: pq.ParquetFile, column: str) -> list[Any]:
    at = part.schema_arrow.names.index(column)
    chunks = [part.metadata.row_group(group).column(at) for group in range(part.num_row_groups)]
    # pyarrow aborts the process if it is asked for statistics of a footer that contradicts itself.
    if any(chunk.physical_type != part.metadata.schema.column(at).physical_type for chunk in chunks):
        raise ValueError(f"its footer gives column {column} two types")
    return [chunk.statistics for chunk in chunks]


def _not_a_word(column: str, word: object, words: Sequence[str]) -> str:
    return f"{column} is {shown(word)} and must be {one_of(tuple(words))}"


def _below_0(column: str, value: int) -> str:
    return f"{column} is {value} and cannot be below 0"


def _lists(table: str) -> str:
    return f"FORMAT.md lists the columns of {table}"
