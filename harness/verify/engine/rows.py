"""The form in which every check returns what it found: one row for each record."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.described import Described
from harness.model.schemas import Columns
from harness.verify.engine.tables import BUNDLE

# `reason`: a `Reason`, or one with a place (`with_place`). `other`: a second place or figure,
# such as the offset of the first copy; kind and `reason` determine its meaning. For an offset that a coordinator
# reported: when it was reported, when the commit that it should have reported was done, and when the first commit that
# replaced the reported one was done.
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

# Kinds of rows that are not findings: the judge makes notes and doubts of them.
WRONG_ACK_OFFSET_NOTE: Final = "wrong_ack_offset_note"  # librdkafka may have reported a wrong offset
WRONG_ACK_OFFSET_WEAK: Final = "wrong_ack_offset_weak"  # acks=1 and acks=0 do not promise the offset
ACKED_TWICE_NOTE: Final = "acked_twice_note"  # librdkafka may have reported a wrong offset
# A leader finds no record of a time, because it looks into a segment that compaction has emptied; see `offset_lookup`.
LOOKUP_HIDDEN: Final = "lookup_hidden"
UNATTRIBUTED: Final = "unattributed"  # a client of which nothing is known may have caused it; `reader` names it
NOT_READ: Final = "not_read"
UNJUDGED: Final = "unjudged"
UNPROCESSED: Final = "unprocessed"
UNSHARED: Final = "unshared"
NOTED: Final = (WRONG_ACK_OFFSET_NOTE, WRONG_ACK_OFFSET_WEAK, ACKED_TWICE_NOTE, LOOKUP_HIDDEN)
LEADER_UNKNOWN: Final = "leader_unknown"  # missing, and it is unknown which of two leaders acknowledged it
NOT_FINDINGS: Final = (*NOTED, UNATTRIBUTED, LEADER_UNKNOWN, NOT_READ, UNJUDGED, UNPROCESSED, UNSHARED)


class Reason(Described):
    """The circumstances of a finding, for which the `CHECK` has the sentence. Each check has an enum of its own."""


class Only(Reason):
    """The reason of kinds that are found in one way only."""

    ONE = "", "The kind says all."


class AckedTwice(Reason):
    """Reasons of findings about two records that were acknowledged at one offset: which client reported it."""

    PROVEN = "acked_twice", "The release's own client reported both, or the log has the other record there."
    LIBRDKAFKA = "acked_twice_librdkafka", "librdkafka reported one of them, and may have named a wrong offset."
    UNKNOWN = "acked_twice_unknown", "A client of which nothing is known reported one of them."


class PassedOver(Reason):
    """The reason of findings about a record that a reader passed over and that the log does not have any more."""

    ONE = "passed_over", "The ledger and what others received say that it was there when the reader passed its offset."


class ByApplication(Reason):
    """Reasons of findings about what an application did with its input."""

    PROCESSED = "processed", "It processed the input twice, out of order, or never; with the place of its output."
    UNPROCESSED = "unprocessed", "Its group committed past the input in a transaction, and no output is visible."
    UNCOUNTED = "uncounted", "Its output is visible, and its group did not commit past the input; with its place."


_IN: Final = " in "
_SPARK: Final = {"string": "string", "int32": "int", "int64": "bigint"}


def found(rows: DataFrame, kind: str | Column, reason: str | Column = "", **columns: str | Column | None) -> DataFrame:
    """Rows in the common form. `columns` replace those of the same name; columns that the frame lacks are null."""
    given: dict[str, str | Column | None] = {"kind": _literal(kind), "reason": _literal(reason), **columns}
    there = dict(rows.dtypes)
    out: list[Column | str] = []
    for name, declared in COLUMNS.items():
        value, kind_of = given.get(name, name if name in there else None), _SPARK[declared.removesuffix("?")]
        if isinstance(value, str) and value == name and there.get(name) == kind_of:
            out.append(name)  # as it is: a cast is messages to Java, and a node of the plan
            continue
        column = F.lit(None) if value is None else F.col(value) if isinstance(value, str) else value
        out.append(column.cast(kind_of).alias(name))
    return rows.select(BUNDLE, *out)


def with_place(reason: Reason, place: str) -> Column:
    """A reason with the place in a column: "processed in made/0"."""
    return F.concat(F.lit(f"{reason.value}{_IN}"), F.col(place))


def word_of() -> Column:
    """The reason of a row, without a place."""
    return F.substring_index("reason", _IN, 1)


def reason_of(reason: str) -> str:
    """A reason without its place."""
    return reason.partition(_IN)[0]


def place_of(reason: str) -> str:
    """The place in a reason; "" without one."""
    return reason.partition(_IN)[2]


def in_form(rows: DataFrame) -> DataFrame:
    """The rows of a check. TypeError for rows in another form, which would cost the findings of all other checks."""
    form = {BUNDLE: "int", **{name: _SPARK[declared.removesuffix("?")] for name, declared in COLUMNS.items()}}
    if (given := dict(rows.dtypes)) != form:
        wrong = sorted(name for name in given.keys() | form.keys() if given.get(name) != form.get(name))
        raise TypeError(f"its rows have other columns than `found` makes: {', '.join(wrong)}")
    return rows


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames of one form; there must be at least one frame."""
    return reduce(DataFrame.unionByName, frames)


def _literal(value: str | Column) -> Column:
    return F.lit(value) if isinstance(value, str) else value
