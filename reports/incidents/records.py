"""The records of an incident: the first as rows of the page, and all of them as CSV and Parquet files beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from harness.evidence.documents import is_there
from harness.evidence.parts import encoding
from harness.evidence.verdicts import FINDINGS
from harness.model.errors import BadEvidence
from harness.model.finding import Finding
from harness.model.schemas import INT64_LIMIT
from harness.model.verdict import Verdict
from reports.incidents.scan import Wanted, any_of, equals, rows, schema_in
from reports.review.content import Incident
from reports.summary import clock
from reports.whole_files import written_whole

ROWS_SHOWN: Final = 100
PLAIN_ROWS_MAX: Final = 100_000  # a longer CSV file is compressed
CSV: Final = ".csv"
CSV_PACKED: Final = ".csv.gz"
PARQUET: Final = ".parquet"
_CELL_MAX: Final = 200
# The columns that a page shows, in their order, with what each says.
_SHOWN: Final[Mapping[str, str]] = {
    "topic": "name of the topic",
    "partition": "number of the partition",
    "offset": "place of the record in the log of the partition",
    "stream": "number of the stream: the records that one producer sent to one partition",
    "seq": "number of the record in its stream, from 0",
    "outcome": "what the producer was told: acked (acknowledged), refused, or unknown",
    "called_ns": "when the producer called send",
    "returned_ns": "when the producer got the answer",
    "producer": "name of the producer in the scenario",
    "txn_id": "number of the transaction in this run",
    "reader": "the reader, replica or application that shows it",
    "reason": "the word of the check for what was observed",
    "other": "the second number of what was observed, such as the offset of the first copy of a duplicate",
}
_HEADS: Final[Mapping[str, str]] = {"called_ns": "sent, UTC", "returned_ns": "answered, UTC", "txn_id": "transaction"}
_OF_PLACE: Final = ("topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The rows of findings.parquet about one incident.

    count: of all rows. heads, first: the columns that say something, and the first rows. legend: what each of these
    columns says. files: names beside the page; () = there are no rows. missing: why there are none, if that is known.
    """

    count: int = 0
    heads: tuple[str, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    first: tuple[tuple[str, ...], ...] = ()
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def records_of(incident: Incident, verdict: Verdict, bundle: Path, folder: Path) -> Records:
    """Writes all records of an incident into `folder`, and returns the first. Raises OSError if it cannot write.

    Damaged evidence gives no records and a reason, and leaves no file.
    """
    file = bundle / FINDINGS
    try:
        if not is_there(file):
            return Records(missing=(f"{FINDINGS} is missing, so there are no records to show.",))
        wanted = wanted_of(incident, verdict)
        schema = schema_in(file)
        count = sum(batch.num_rows for batch in rows(file, wanted, ["kind"]))
        if not count:
            return Records()
        packed = count > PLAIN_ROWS_MAX
        names = (incident.stem + (CSV_PACKED if packed else CSV), incident.stem + PARQUET)
        first = _written(rows(file, wanted), schema, [folder / name for name in names], packed=packed)
    except BadEvidence as damage:
        return Records(missing=(f"{damage}.",))
    one_place = all(one.topic is not None for one in incident.members)
    heads = [
        name
        for name in _SHOWN
        if not (one_place and name in _OF_PLACE)
        and name in schema.names
        and any(row.get(name) not in (None, "") for row in first)
    ]
    if "txn_id" in heads and all(row.get("other") == row.get("txn_id") for row in first):
        heads = [name for name in heads if name != "other"]  # it says the same
    return Records(
        count=count,
        heads=tuple(_HEADS.get(name, name) for name in heads),
        legend=tuple((_HEADS.get(name, name), _SHOWN[name]) for name in heads),
        first=tuple(tuple(_text(name, row.get(name)) for name in heads) for row in first),
        files=names,
    )


def wanted_of(incident: Incident, verdict: Verdict) -> Wanted:
    """Which rows of findings.parquet the findings of an incident are about."""
    wanted = [_of_finding(one) for one in incident.members if not _is_rest(one)]
    for one in incident.members:
        if _is_rest(one):
            alike = [other for other in verdict.findings if other.kind == one.kind and not _is_rest(other)]
            listed = [_of_finding(other) for other in alike if one.topic in (None, other.topic)]
            of_place = _of_fate(one) if one.topic is None else _of_place(one)
            wanted.append(of_place & ~any_of(listed))
    return any_of(wanted)


def _is_rest(one: Finding) -> bool:
    """Whether it counts the records of ranges that the verdict does not list: it has no range itself."""
    return one.offset_first is None and one.stream is None


def _of_finding(one: Finding) -> Wanted:
    """Rows of one range. Without an offset it is a range of sequence numbers in one stream."""
    wanted = _of_place(one) & equals("reader", one.reader)
    if one.offset_first is not None:
        return wanted & _between("offset", one.offset_first, one.offset_last)
    wanted &= equals("offset", None) & equals("stream", one.stream)
    return wanted if one.seq_first is None else wanted & _between("seq", one.seq_first, one.seq_last)


def _of_place(one: Finding) -> Wanted:
    wanted = _of_fate(one) & equals("topic", one.topic) & equals("partition", one.partition)
    return wanted if one.topic_id is None else wanted & equals("topic_id", one.topic_id)


def _between(column: str, first: int, last: int | None) -> Wanted:
    field = pc.field(column)
    low, high = (min(number, INT64_LIMIT - 1) for number in (first, first if last is None else last))
    return (field >= low) & (field <= high)


def _of_fate(one: Finding) -> Wanted:
    excuse = equals("excused_by", one.excused_by) & equals("explained_by", one.explained_by)
    return equals("kind", one.kind.value) & excuse


def _written(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, targets: Sequence[Path], *, packed: bool
) -> list[Mapping[str, object]]:
    """Writes the rows as CSV and as Parquet, both or neither, and returns the first."""
    first: list[Mapping[str, object]] = []
    with ExitStack() as stack:
        as_csv, as_parquet = (stack.enter_context(written_whole(target)) for target in targets)
        sink = stack.enter_context(pa.CompressedOutputStream(as_csv, "gzip")) if packed else as_csv
        csv = stack.enter_context(pa_csv.CSVWriter(sink, schema))
        parquet = stack.enter_context(pq.ParquetWriter(as_parquet, schema, **encoding(schema)))
        for batch in batches:
            csv.write_batch(batch)
            parquet.write_batch(batch)
            first += batch.slice(0, ROWS_SHOWN - len(first)).to_pylist()
    return first


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    text = clock(value, digits=9) if name.endswith("_ns") and isinstance(value, int) else str(value)
    return text if len(text) <= _CELL_MAX else f"{text[:_CELL_MAX]} … ({len(text) - _CELL_MAX:,} more characters)"
