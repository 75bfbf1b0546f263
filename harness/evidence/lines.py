"""Rows of JSON lines: reservations, and tables that were written by hand. Their types follow from the columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct, defstruct

from harness.evidence.columns import base_type, columns_of, nullable
from harness.evidence.documents import WRITE_AGAIN
from harness.evidence.parsing import MisfitError, converted
from harness.evidence.values import lists_columns, not_a_word
from harness.model.errors import BadEvidence
from harness.model.schemas import COUNTED, OPTIONAL_COLUMNS, WORDS

_BITS: Final = {"int32": 31, "int64": 63}


def check_lines(file: Path, table: str) -> None:
    """BadEvidence for the first line that is no row of the table."""
    for number, row in enumerate(_rows(file), start=1):
        if wrong := _misfit(row, table, by_hand=False):
            raise BadEvidence(f"{_at_line(file, number, wrong)}; {lists_columns(table)}")


def texts_of(file: Path, column: str) -> set[str]:
    """The distinct values of a text column, in lines that have been checked."""
    return {str(row[column]) for row in _rows(file) if isinstance(row, Mapping)}


def rows_by_hand(file: Path, table: str) -> Iterator[dict[str, object]]:
    """Rows of JSON lines, which may leave out columns that may be null. BadEvidence with line and column of the first
    one that is no row of the table."""
    for number, line in enumerate(_lines(file), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            wrong = _misfit(row, table, by_hand=True)
        except (ValueError, RecursionError):
            wrong = "is not JSON"
        if wrong:
            raise BadEvidence(f"{_at_line(file, number, wrong)}; {lists_columns(table)}")
        yield row


def _rows(file: Path) -> Iterator[object]:
    for number, line in enumerate(_lines(file), start=1):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            # A line without its line break is the last one of a harness that was killed while it wrote. Its range was
            # not used, because a send waits until the line is on disk.
            if line.endswith("\n"):
                raise BadEvidence(f"{file} line {number} is not JSON; {WRITE_AGAIN}") from None


def _lines(file: Path) -> Iterator[str]:
    """Each line with its line break. BadEvidence if they are not UTF-8."""
    try:
        with file.open(encoding="utf-8", newline="\n") as lines:
            yield from lines
    except ValueError as damage:
        raise BadEvidence(f"{file} cannot be read as text ({damage}); write it as UTF-8") from None


def _misfit(row: object, table: str, *, by_hand: bool) -> str | None:
    """The error in a row; None if it fits."""
    try:
        values = converted(row, _row_of(table, by_hand))
    except MisfitError as wrong:
        return str(wrong)
    found = ((name, getattr(values, name), words) for name, words in WORDS[table].items())
    return next((not_a_word(*one) for one in found if one[1] is not None and one[1] not in one[2]), None)


@cache
def _row_of(table: str, by_hand: bool) -> type[Struct]:
    """The type of a row. Columns that may be null may be left out by hand, or if older bundles lack them."""
    optional = OPTIONAL_COLUMNS.get(table, frozenset())
    fields: list[tuple[str, object] | tuple[str, object, None]] = []
    for name, declared in columns_of(table).items():
        of_column = _type_of(declared, counted=name in COUNTED[table])
        left_out = nullable(declared) and (by_hand or name in optional)
        fields.append((name, of_column, None) if left_out else (name, of_column))
    return defstruct(table, fields, kw_only=True, forbid_unknown_fields=True)


def _type_of(declared: str, *, counted: bool) -> object:
    """The type of the values of a column. counted: they count from 0."""
    base = base_type(declared)
    if bits := _BITS.get(base):
        number = Annotated[int, Meta(ge=0 if counted else -(1 << bits), le=(1 << bits) - 1)]
        return number | None if nullable(declared) else number
    plain = bool if base == "bool" else str
    return plain | None if nullable(declared) else plain


def _at_line(file: Path, number: int, wrong: str) -> str:
    return f"{file} line {number}{' ' if wrong.startswith(('has ', 'is ')) else ': '}{wrong}"
