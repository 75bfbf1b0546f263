"""The single operations of a run, a range of time at once: each send with its outcome, each record of a live reader.

The tables of a run may have millions of rows. Row groups of another time are not read, so the memory depends on the
range alone. Rows are sorted into its parts batch by batch: arrays of a whole range cost more to get from the kernel
than to fill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.evidence.parts import opened
from harness.model.outcome import Outcome
from reports.review.bands import Place
from reports.review.rates import Numbers, parts_of

UNKNOWN: Final = -1  # an offset or an error that the ledger lacks
_NO_TIME: Final = np.iinfo(np.int64).min  # in place of a time that a row lacks
FIRST_NS: Final = int(_NO_TIME) + 1  # before all times
LAST_NS: Final = int(np.iinfo(np.int64).max)  # after all times
OUTCOMES: Final = tuple(Outcome)
_BATCH_ROWS: Final = 1 << 16
_TEXTS: Final = ("topic", "topic_id", "outcome", "error", "reader")
_SENT: Final = ("topic", "topic_id", "partition", "stream", "seq", "outcome", "error", "offset", "called_ns")
_READ: Final = ("topic", "topic_id", "partition", "reader", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Where the operations of a kind are. at: the column with the time of each; rows without it are none."""

    name: str
    at: str
    columns: tuple[str, ...]


SENDS: Final = Table(name="ledger", at="returned_ns", columns=_SENT)
READS: Final = Table(name="observations", at="given_ns", columns=_READ)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Columns of the operations in a range of time, in the order of the tables.

    sends: place, stream, seq, offset, outcome, error, called_ns, returned_ns. reads: reader, place, offset, given_ns.
    outcome: its index in OUTCOMES; place, reader, error: the index of their name. Offsets and errors may be UNKNOWN.
    """

    places: Sequence[Place]
    readers: Sequence[str]
    errors: Sequence[str]
    sends: Mapping[str, Numbers]
    reads: Mapping[str, Numbers]

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(len(of[at]) for of, at in ((self.sends, SENDS.at), (self.reads, READS.at)) if of)

    def parts(self, starts_ns: Numbers) -> Iterator[Operations]:
        """Those of each part of the range: from its start on, and before that of the next one."""
        for sends, reads in zip(
            _parts(self.sends, SENDS.at, starts_ns), _parts(self.reads, READS.at, starts_ns), strict=True
        ):
            yield replace(self, sends=sends, reads=reads)


class _Numbered(dict[object, int]):
    """Numbers of values, in the order in which they were seen first."""

    def __missing__(self, value: object) -> int:
        self[value] = len(self)
        return self[value]


def operations_at_most(bundle: Path) -> int:
    """An upper limit of the number of operations, from the footers of the tables. Raises BadEvidence for a damaged
    part."""
    found = 0
    for table in (SENDS, READS):
        for file in parts_of(bundle, table.name):
            with opened(file) as part:
                groups = _groups(part, table, FIRST_NS, LAST_NS)
                found += sum(part.metadata.row_group(group).num_rows for group in groups)
    return found


def times_of(bundle: Path, table: Table) -> Iterator[Numbers]:
    """The times of all operations of a table, some at a time. Raises BadEvidence for a damaged part."""
    for batch in _batches(bundle, table, (table.at,), FIRST_NS, LAST_NS):
        yield _numbers(batch[table.at].drop_null())


def operations_of(bundle: Path, starts_ns: Numbers, end_ns: int) -> Iterator[Operations]:
    """The operations of each part of a range of time. starts_ns: of the parts; each ends where the next one starts, and
    the last one before `end_ns`. All are in memory when the first one is returned. Raises BadEvidence for a damaged
    part of a table."""
    places, readers, errors = _Numbered(), _Numbered(), _Numbered()
    outcomes = _Numbered({one.value: number for number, one in enumerate(OUTCOMES)})

    def sent(rows: pa.RecordBatch) -> dict[str, Numbers]:
        return {
            "place": _places(rows, places),
            "stream": _numbers(rows["stream"]),
            "seq": _numbers(rows["seq"]),
            "offset": _numbers(rows["offset"].fill_null(UNKNOWN)),
            "outcome": _coded(rows, "outcome", outcomes),
            "error": _coded(rows, "error", errors),
            "called_ns": _numbers(rows["called_ns"]),
            "returned_ns": _numbers(rows["returned_ns"]),
        }

    def read(rows: pa.RecordBatch) -> dict[str, Numbers]:
        return {
            "reader": _coded(rows, "reader", readers),
            "place": _places(rows, places),
            "offset": _numbers(rows["offset"].fill_null(UNKNOWN)),
            "given_ns": _numbers(rows["given_ns"]),
        }

    sends = _collected(bundle, SENDS, sent, starts_ns, end_ns)
    reads = _collected(bundle, READS, read, starts_ns, end_ns)
    if len(outcomes) > len(OUTCOMES):
        raise ValueError(f"{[*outcomes][-1]!r} is no outcome")
    names = Operations(
        places=[place for place in places if isinstance(place, tuple)],
        readers=[str(name) for name in readers],
        errors=[str(text) for text in errors],
        sends={},
        reads={},
    )
    for part in range(len(starts_ns)):
        yield replace(names, sends=_joined(sends[part]), reads=_joined(reads[part]))


def _joined(pieces: list[dict[str, Numbers]]) -> dict[str, Numbers]:
    """The pieces as one, without columns if there is none. The list is empty afterwards."""
    found = {name: np.concatenate([piece[name] for piece in pieces]) for name in (pieces[0] if pieces else ())}
    pieces.clear()
    return found


def _parts(columns: Mapping[str, Numbers], at: str, starts_ns: Numbers) -> Iterator[dict[str, Numbers]]:
    """The rows of each part; without columns if there is none."""
    if not columns:
        yield from ({} for _ in starts_ns)
        return
    part = np.searchsorted(starts_ns, columns[at], side="right") - 1
    order = np.argsort(part.astype(np.min_scalar_type(len(starts_ns))), kind="stable")  # few bits are sorted faster
    first = 0
    for count in np.bincount(part, minlength=len(starts_ns)).tolist():
        rows, first = order[first : first + count], first + count
        yield {name: column[rows] for name, column in columns.items()} if count else {}


def _collected(
    bundle: Path,
    table: Table,
    columns_of: Callable[[pa.RecordBatch], dict[str, Numbers]],
    starts_ns: Numbers,
    end_ns: int,
) -> list[list[dict[str, Numbers]]]:
    """The rows of each part, in pieces. Each is a copy, because a view of a column keeps its whole batch."""
    pieces: list[list[dict[str, Numbers]]] = [[] for _ in starts_ns]
    first_ns = int(starts_ns[0])
    for batch in _batches(bundle, table, (*table.columns, table.at), first_ns, end_ns):
        times_ns = _numbers(batch[table.at].fill_null(_NO_TIME))
        wanted = (times_ns >= first_ns) & (times_ns < end_ns)
        if not wanted.any():
            continue
        some = columns_of(batch if wanted.all() else batch.filter(pa.array(wanted)))
        for of_part, piece in zip(pieces, _parts(some, table.at, starts_ns), strict=True):
            if piece:
                of_part.append(piece)
    return pieces


def _batches(bundle: Path, table: Table, columns: Sequence[str], from_ns: int, to_ns: int) -> Iterator[pa.RecordBatch]:
    """The rows of the row groups that may have operations of this time."""
    for file in parts_of(bundle, table.name):
        with opened(file, as_dictionaries=_TEXTS) as part:
            groups = _groups(part, table, from_ns, to_ns)
            if groups:
                found = part.iter_batches(_BATCH_ROWS, row_groups=groups, columns=[*columns])
                yield from (batch for batch in found if batch.num_rows)


def _groups(part: pq.ParquetFile, table: Table, from_ns: int, to_ns: int) -> list[int]:
    """The row groups that may have operations of this time. Older bundles lack the times of reads."""
    at = part.schema_arrow.get_field_index(table.at)
    each = [part.metadata.row_group(number) for number in range(part.num_row_groups if at >= 0 else 0)]
    return [
        number
        for number, group in enumerate(each)
        if _may_have(group.column(at).statistics, group.num_rows, from_ns, to_ns)
    ]


def _may_have(known: pq.Statistics | None, rows: int, from_ns: int, to_ns: int) -> bool:
    """Whether a row group may have a time of a range, as far as its statistics say."""
    if known is None:
        return True
    if not known.has_min_max:
        return not (known.has_null_count and known.null_count == rows)
    return bool(known.max >= from_ns and known.min < to_ns)


def _places(rows: pa.RecordBatch, names: _Numbered) -> Numbers:
    """The numbers of the places of rows. A batch has few different ones."""
    parts = [_dictionary(rows[name]) for name in ("topic", "topic_id", "partition")]
    sizes = [len(part.dictionary) for part in parts]
    codes = np.ravel_multi_index([_numbers(part.indices) for part in parts], sizes)
    numbers = np.zeros(int(np.prod(sizes)), np.int64)
    numbers[codes] = 1
    for code in np.flatnonzero(numbers).tolist():
        place = np.unravel_index(code, sizes)
        numbers[code] = names[tuple(part.dictionary[int(at)].as_py() for part, at in zip(parts, place, strict=True))]
    found: Numbers = numbers[codes]
    return found


def _coded(rows: pa.RecordBatch, name: str, names: _Numbered) -> Numbers:
    """The numbers of the texts of a column; UNKNOWN where it is null, or the table lacks it."""
    if name not in rows.schema.names:
        return np.full(rows.num_rows, UNKNOWN, np.int64)
    coded = _dictionary(rows[name])
    found = np.asarray([*(names[text] for text in coded.dictionary.to_pylist()), UNKNOWN], np.int64)
    return found[_numbers(coded.indices.fill_null(UNKNOWN))]


def _dictionary(column: pa.Array) -> pa.DictionaryArray:
    return column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()


def _numbers(column: pa.Array) -> Numbers:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
