"""The form in which every check hands over what it found: one row a record."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.schemas import Columns
from harness.verify.engine.tables import BUNDLE

# `reason`: a word for the circumstances, of which sentences.py makes a text. `other`: a second place or figure, such as
# the offset of the first copy; its meaning follows from kind and `reason`. Of what a coordinator told: when, when the
# commit was done that it should have told, and when the first one that replaced what it told.
COLUMNS: Final[Columns] = {
    "kind": "string",
    "reason": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "offset": "int64?",
    "stream": "int32?",
    "seq": "int64?",
    "reader": "string?",
    "other": "int64?",
    "reported_ns": "int64?",
    "done_ns": "int64?",
    "replaced_ns": "int64?",
}

# Kinds that are not findings: the judge makes notes and doubts of them.
WRONG_ACK_OFFSET: Final = "displaced_by_client"  # where the client may have told a wrong offset
NOT_READ: Final = "not_read"
UNJUDGED: Final = "unjudged"
UNPROCESSED: Final = "unprocessed"
UNSHARED: Final = "unshared"
AFTERTHOUGHTS: Final = (WRONG_ACK_OFFSET, NOT_READ, UNJUDGED, UNPROCESSED, UNSHARED)

_SPARK: Final = {"string": "string", "int32": "int", "int64": "bigint"}


def found(rows: DataFrame, kind: str | Column, reason: str | Column = "", **columns: str | Column | None) -> DataFrame:
    """Rows in the common form. `columns` replace those of the same name; what a frame lacks is null."""
    given: dict[str, str | Column | None] = {"kind": _literal(kind), "reason": _literal(reason), **columns}
    out: list[Column] = []
    for name, declared in COLUMNS.items():
        value = given.get(name, name if name in rows.columns else None)
        column = F.lit(None) if value is None else F.col(value) if isinstance(value, str) else value
        out.append(column.cast(_SPARK[declared.removesuffix("?")]).alias(name))
    return rows.select(BUNDLE, *out)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames of one form; there must be at least one."""
    return reduce(DataFrame.unionByName, frames)


def _literal(value: str | Column) -> Column:
    return F.lit(value) if isinstance(value, str) else value
