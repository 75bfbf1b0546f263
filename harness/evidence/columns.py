"""Columns of the evidence as pyarrow types, and the buffers in which writers collect rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.model.errors import MachineFailure
from harness.model.schemas import TABLES, Column, Columns

_ARROW: Final = {"int32": pa.int32(), "int64": pa.int64(), "bool": pa.bool_(), "string": pa.string()}
_NUMPY: Final[Mapping[str, type[np.generic]]] = {"int32": np.int32, "int64": np.int64, "bool": np.bool_}
_FIRST_CAPACITY: Final = 4096


def base_type(declared: str) -> str:
    """The type without the "?" of a nullable column."""
    return declared.removesuffix("?")


def nullable(declared: str) -> bool:
    return declared.endswith("?")


def columns_of(table: str) -> Columns:
    """The columns of a table. MachineFailure for a table that the format does not have."""
    if table not in TABLES:
        raise MachineFailure(f"the evidence has no table {table!r}; it has {', '.join(TABLES)}")
    return TABLES[table]


def arrow_schema(table: str) -> pa.Schema:
    """The pyarrow schema of a table."""
    return pa.schema(
        [
            pa.field(name, _ARROW[base_type(declared)], nullable=nullable(declared))
            for name, declared in columns_of(table).items()
        ]
    )


def schema_of(columns: Mapping[str, Column]) -> pa.Schema:
    """The pyarrow schema of columns all of which may hold nulls."""
    return pa.schema([(name, _ARROW[base_type(column.type)]) for name, column in columns.items()])


class NumberBuffer:
    """Rows of one column of numbers. numpy broadcasts scalars, so a column of one value costs a memset."""

    def __init__(self, declared: str) -> None:
        self.type: pa.DataType = _ARROW[base_type(declared)]
        self._dtype = _NUMPY[base_type(declared)]
        self._nullable = nullable(declared)
        self._values: npt.NDArray[np.generic] = np.empty(_FIRST_CAPACITY, dtype=self._dtype)
        self._null: npt.NDArray[np.bool_] | None = None

    def put(self, at: int, rows: int, value: object) -> None:
        """Copies `rows` values to index `at`. ValueError on nulls in a column that may not have them."""
        self._reserve(at + rows)
        numbers, null = _numbers(value, self._dtype)
        if numbers is not None:
            np.copyto(self._values[at : at + rows], numbers, casting="same_kind")
        if null is None and self._null is None:
            return
        if null is not None and not self._nullable:
            raise ValueError("has nulls and may have none")
        if self._null is None:
            self._null = np.zeros(len(self._values), dtype=np.bool_)
        self._null[at : at + rows] = False if null is None else null

    def take(self, rows: int) -> pa.Array:
        """The first `rows` values as an array, valid until the next `put`."""
        null = None if self._null is None else self._null[:rows]
        return pa.array(self._values[:rows], type=self.type, mask=null)

    def _reserve(self, rows: int) -> None:
        if rows > len(self._values):
            capacity = max(rows, 2 * len(self._values))
            self._values = np.resize(self._values, capacity)
            if self._null is not None:
                self._null = np.resize(self._null, capacity)


class TextBuffer:
    """Rows of one text column, as codes of its distinct values: most texts are names that repeat."""

    def __init__(self, declared: str) -> None:
        self._nullable = nullable(declared)
        self._codes: npt.NDArray[np.int32] = np.empty(_FIRST_CAPACITY, dtype=np.int32)
        self._code_of: dict[str, int] = {}

    def put(self, at: int, rows: int, value: object) -> None:
        """Copies `rows` values to index `at`. ValueError on nulls in a column that may not have them."""
        if at + rows > len(self._codes):
            self._codes = np.resize(self._codes, max(at + rows, 2 * len(self._codes)))
        if value is None or isinstance(value, str):
            codes: npt.ArrayLike = self._code(value)
        else:
            encoded = pa.array(value, type=pa.string()).dictionary_encode()
            known = np.array([*map(self._code, encoded.dictionary.to_pylist()), -1], dtype=np.int32)
            codes = known[np.asarray(encoded.indices.fill_null(len(known) - 1))]
        if not self._nullable and np.any(np.less(codes, 0)):
            raise ValueError("has nulls and may have none")
        np.copyto(self._codes[at : at + rows], codes)

    def take(self, rows: int) -> pa.Array:
        """The first `rows` values as a dictionary array, valid until the next `put`."""
        codes = self._codes[:rows]
        indices = pa.array(codes, mask=codes < 0) if self._nullable else pa.array(codes)
        taken = pa.DictionaryArray.from_arrays(indices, pa.array(list(self._code_of), type=pa.string()))
        if len(self._code_of) > _FIRST_CAPACITY:  # else a column of distinct values takes more memory with each part
            self._code_of = {}
        return taken

    def _code(self, value: str | None) -> int:
        if value is None:
            return -1
        return self._code_of.setdefault(value, len(self._code_of))


def buffer_of(declared: str) -> NumberBuffer | TextBuffer:
    """An empty buffer for a column."""
    return TextBuffer(declared) if base_type(declared) == "string" else NumberBuffer(declared)


def _numbers(value: object, dtype: type[np.generic]) -> tuple[npt.ArrayLike | None, npt.ArrayLike | None]:
    """Values and null mask of what was appended; the mask is None if nothing is null."""
    if value is None:
        return None, True
    if isinstance(value, np.ma.MaskedArray):
        return value.data, np.ma.getmaskarray(value) if np.ma.is_masked(value) else None
    if isinstance(value, np.ndarray | np.generic | int):
        return value, None
    array = value if isinstance(value, pa.Array) else pa.array(value, type=_arrow_of(dtype))
    if not array.null_count:
        return array.to_numpy(zero_copy_only=False), None
    null = array.is_null().to_numpy(zero_copy_only=False)
    return array.fill_null(False if dtype is np.bool_ else 0).to_numpy(zero_copy_only=False), null


def _arrow_of(dtype: type[np.generic]) -> pa.DataType:
    return _ARROW[next(name for name, known in _NUMPY.items() if known is dtype)]
