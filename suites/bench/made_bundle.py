"""Makes a sealed bundle of any size, to measure what judging it costs: a few partitions, one stream each.

Its log is legal except for the defects that are requested. It has no broker's disks, admin operations or transactions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness.evidence.columns import arrow_schema
from harness.evidence.seal import seal_directory

TOPIC: Final = "scale"
COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"
_BEGIN_NS: Final = 1_700_000_000 * 10**9
_SPACING_NS: Final = 20_000
_PART_ROWS: Final = 500_000
_BROKERS: Final = (1, 2, 3)

Longs = npt.NDArray[np.int64]
Constant = int | str | bool | None


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader of everything."""

    name: str
    kind: str
    isolation: str
    replica: int | None = None


ONE_READER: Final = (Reader("drain", "drain", COMMITTED),)
SEVEN_READERS: Final = (
    Reader("drain-committed", "drain", COMMITTED),
    Reader("drain-uncommitted", "drain", UNCOMMITTED),
    Reader("live-committed", "live", COMMITTED),
    Reader("live-uncommitted", "live", UNCOMMITTED),
    *(Reader(f"replica-{broker}", "replica", COMMITTED, broker) for broker in _BROKERS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defects:
    """How many records of the first partition are lost, duplicated, or below the record before them."""

    lost: int = 0
    duplicated: int = 0
    reordered: int = 0


def make_bundle(
    folder: Path,
    records: int,
    *,
    readers: Sequence[Reader] = ONE_READER,
    partitions: int = 12,
    defects: Defects = Defects(),
) -> Path:
    """Writes and seals a bundle of `records` acknowledged records, rounded down to equal partitions."""
    of_each = records // partitions
    for table in ("ledger", "observations", "reservations"):
        (folder / table).mkdir(parents=True)
    ends = [_write_partition(folder, number, of_each, readers, defects) for number in range(partitions)]
    (folder / "reservations" / "flat.jsonl").write_text("".join(_reservation(n, of_each) for n in range(partitions)))
    for name, document in _documents(ends, of_each, readers).items():
        (folder / name).write_text(json.dumps(document))
    seal_directory(folder)
    return folder


def _write_partition(folder: Path, number: int, records: int, readers: Sequence[Reader], defects: Defects) -> int:
    """Writes ledger and observations of one partition; returns the end of its log."""
    seq = np.arange(records, dtype=np.int64)
    offset = seq.copy()
    shown, copies = np.ones(records, dtype=bool), np.empty(0, dtype=np.int64)
    if number == 0:
        shown[_spread(records, defects.lost, 3)] = False
        later = _spread(records, defects.reordered, 5)
        offset[later], offset[later + 1] = later + 1, later
        copies = _spread(records, defects.duplicated, 7)
    called = _BEGIN_NS + seq * _SPACING_NS
    for part, rows in _slices(records):
        columns = {
            "seq": seq[rows],
            "offset": offset[rows],
            "called_ns": called[rows],
            "returned_ns": called[rows] + 5 * 10**6,
        }
        _write(folder, "ledger", f"flat-{number}-{part}", columns, _at(number) | {"stream": number, "outcome": "acked"})
    order = np.argsort(offset[shown], kind="stable")
    read_seq = np.concatenate([seq[shown][order], copies])
    read_offset = np.concatenate([offset[shown][order], records + np.arange(len(copies), dtype=np.int64)])
    first = np.arange(len(read_offset)) == 0
    previous_offset = np.ma.masked_array(np.roll(read_offset, 1), first)
    for reader in readers:
        for part, rows in _slices(len(read_seq)):
            columns = {
                "seq": read_seq[rows],
                "offset": read_offset[rows],
                "poll": read_offset[rows] // 5000,
                "previous_offset": previous_offset[rows],
                "timestamp_ms": called[read_seq[rows]] // 10**6 + 1,
            }
            _write(folder, "observations", f"{reader.name}-{number}-{part}", columns, _seen(reader, number))
    return records + len(copies)


def _spread(records: int, count: int, phase: int) -> Longs:
    """`count` sequence numbers at equal distances, away from the ends and from those of other phases."""
    return np.asarray((np.arange(count) + 1) * (records // (count + 1)) - 10 * phase, dtype=np.int64)


def _slices(rows: int) -> Iterator[tuple[int, slice]]:
    return ((part, slice(low, min(low + _PART_ROWS, rows))) for part, low in enumerate(range(0, rows, _PART_ROWS)))


def _write(folder: Path, table: str, name: str, columns: dict[str, Longs], constants: dict[str, Constant]) -> None:
    """Writes one part file. Columns that are in neither of both are null."""
    rows = len(columns["seq"])
    schema = arrow_schema(table)
    same = np.zeros(rows, dtype=np.int64)
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.array([constants.get(field.name)], field.type).take(pa.array(same))
        for field in schema
    ]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), folder / table / f"{name}.parquet")


def _at(number: int) -> dict[str, Constant]:
    return {"topic": TOPIC, "topic_id": "S", "partition": number}


def _seen(reader: Reader, number: int) -> dict[str, Constant]:
    of_reader: dict[str, Constant] = {
        "reader": reader.name,
        "kind": reader.kind,
        "isolation": reader.isolation,
        "replica": reader.replica,
    }
    return of_reader | _at(number) | {"session": 0, "stream": number, "intact": True, "leader_epoch": 0}


def _reservation(number: int, records: int) -> str:
    row = {
        "stream": number,
        "producer": "flat",
        **_at(number),
        "first_seq": 0,
        "end_seq": records,
        "acks": "all",
        "idempotent": True,
        "transactional": False,
        "client": "by hand",
        "reserved_ns": _BEGIN_NS,
    }
    return json.dumps(row) + "\n"


def _documents(ends: Sequence[int], records: int, readers: Sequence[Reader]) -> dict[str, object]:
    last_ns = _BEGIN_NS + records * _SPACING_NS + 10**10
    topic = {
        "topic": TOPIC,
        "replicas": 3,
        "min_insync_replicas": 2,
        "unclean_election": False,
        "retention_ms": -1,
        "retention_bytes": -1,
        "segment_bytes": 1 << 30,
        "compacted": False,
        "timestamp_type": "create",
        "delete_records": False,
    }
    producer = {"producer": "flat", "acks": "all", "idempotent": True, "transactional": False}
    settled = {"ok": True, "waited_s": 0, "last_seen": ""}
    whole = [_BEGIN_NS, last_ns]
    return {
        "scenario.json": {"name": TOPIC, "title": TOPIC, "property": TOPIC},
        "run.json": {
            "finished": True,
            "negative_control": None,
            "started_ns": _BEGIN_NS,
            "ended_ns": last_ns,
            "contract": {"topics": {TOPIC: topic}, "producers": {"flat": producer}, "exact_losses": []},
            "windows": {"before": whole, "during": [], "after": whole},
            "floors": {"before": 0, "during": 0, "after": 0},
            **{name: [] for name in ("targets", "doubts", "notes", "capabilities")},
            "recovered": settled,
            "transactions_settled": settled,
        },
        "steps.json": [],
        "cluster.json": {"snapshots": [_snapshot(ends, last_ns)], "lineages": []},
        "reads.json": [
            _read(reader, number, end) for reader in readers if reader.kind != "live" for number, end in enumerate(ends)
        ],
    }


def _snapshot(ends: Sequence[int], at_ns: int) -> dict[str, object]:
    partitions = [
        {
            **_at(number),
            "leader": 1,
            "leader_epoch": 0,
            "isr": _BROKERS,
            "replicas": _BROKERS,
            "elr": [],
            "logs": [{"broker": broker, "log_start": 0, "log_end": end} for broker in _BROKERS],
            "high_watermark": end,
            "last_stable_offset": end,
        }
        for number, end in enumerate(ends)
    ]
    return {
        "phase": "drained",
        "at_ns": at_ns,
        "brokers_up": _BROKERS,
        "groups": [],
        "topic_configs": {TOPIC: {}},
        "broker_configs": {},
        "partitions": partitions,
    }


def _read(reader: Reader, number: int, end: int) -> dict[str, object]:
    return {
        "reader": reader.name,
        "kind": reader.kind,
        "isolation": reader.isolation,
        "replica": reader.replica,
        **_at(number),
        "start": 0,
        "target": end,
        "position": end,
        "reached": True,
        "stuck_reason": None,
        "served_by": [reader.replica or 1],
        "sentinel_offset": None,
    }
