"""Checks of the values in tables: columns with fixed words, numbers that count from 0, and rows of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.evidence.columns import base_type, columns_of, nullable
from harness.evidence.parts import opened
from harness.evidence.shapes import misfit, one_of, shown
from harness.model.errors import BadEvidence
from harness.model.schemas import COUNTED, OPTIONAL_COLUMNS, WORDS

_BATCH_ROWS: Final = 1 << 16
_BITS: Final = {"int32": 31, "int64": 63}


def check_values(file: Path, table: str, present: Sequence[str]) -> None:
    """BadEvidence for an unknown word in a column with fixed words, and for a count below 0, in a Parquet part.

    present: its columns, because optional ones may be left out.
    """
    for column in (name for name in WORDS[table] if name in present):
        words = WORDS[table][column]
        for word in words_in(file, column) - {*words, *([None] if nullable(columns_of(table)[column]) else [])}:
            raise BadEvidence(f"{file}: {_not_a_word(column, word, words)}; {_lists(table)}")
    for column in (name for name in COUNTED[table] if name in present):
        if (least := _least(file, column)) is not None and least < 0:
            raise BadEvidence(f"{file}: {_below_0(column, least)}; {_lists(table)}")


def words_in(file: Path, column: str) -> set[str | None]:
    """The distinct values of a text column, read a batch at a time."""
    found: set[str | None] = set()
    with opened(file, read_dictionary=[column]) as part:
        for batch in part.iter_batches(_BATCH_ROWS, columns=[column]):
            found.update(pc.unique(batch.column(0)).to_pylist())
    return found


def misfit_of_line(row: object, table: str, *, by_hand: bool = False) -> str | None:
    """The error in a JSON line; None if it fits. `by_hand`: columns that may be null may be left out."""
    if wrong := misfit(row, _shape(table, by_hand)):
        return wrong
    values: dict[str, Any] = dict(row) if isinstance(row, dict) else {}
    if foreign := [name for name in values if name not in columns_of(table)]:
        return f"has an unknown column {foreign[0]!r}"
    return next(_wrong_values(values, table), None)


def lines_of(file: Path) -> Iterator[str]:
    """Lines of JSON, each with its line break. BadEvidence if they are not UTF-8."""
    try:
        with file.open(encoding="utf-8", newline="\n") as lines:
            yield from lines
    except ValueError as damage:
        raise BadEvidence(f"{file} cannot be read as text ({damage}); write it as UTF-8") from None


def rows_by_hand(file: Path, table: str) -> Iterator[dict[str, Any]]:
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


_SHAPES: Final = {"int32": "int", "int64": "int", "bool": "bool", "string": "string"}


@cache
def _shape(table: str, by_hand: bool) -> dict[str, str]:
    optional = OPTIONAL_COLUMNS.get(table, frozenset())
    return {
        f"{name}{'?' if nullable(kind) and (by_hand or name in optional) else ''}": _SHAPES[base_type(kind)]
        + ("?" if nullable(kind) else "")
        for name, kind in columns_of(table).items()
    }


def _wrong_values(row: dict[str, Any], table: str) -> Iterator[str]:
    for name, kind in columns_of(table).items():
        bits = _BITS.get(base_type(kind))
        if bits and row.get(name) is not None and not -(1 << bits) <= row[name] < 1 << bits:
            yield f"{name} is {shown(row[name])} and must be an {base_type(kind)}"
    for name, words in WORDS[table].items():
        if row.get(name) is not None and row[name] not in words:
            yield _not_a_word(name, row[name], words)
    for name in COUNTED[table]:
        if row.get(name) is not None and row[name] < 0:
            yield _below_0(name, row[name])


def _least(file: Path, column: str) -> int | None:
    """The smallest value of a column, from the part's own statistics if it has them, else by reading it."""
    with opened(file) as part:
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
