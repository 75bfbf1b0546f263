"""Rows about the remote tier (KIP-405), by partition: metadata that brokers wrote, objects, and what replicas report.

The rows are about segments and replicas, never about records, so they fit on the driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

from pyspark.sql import DataFrame

from harness.model.errors import BadEvidence
from harness.verify.engine.case import Place
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import UNBOUNDED

ROWS_MAX: Final = 2_000_000  # over all bundles; a segment has one object of each kind, at three looks
STARTED: Final = "COPY_SEGMENT_STARTED"
FINISHED: Final = "COPY_SEGMENT_FINISHED"
DELETING: Final = "DELETE_SEGMENT_STARTED"
DELETED: Final = "DELETE_SEGMENT_FINISHED"

Lineage = tuple[tuple[int, int], ...]  # leader epochs with their first offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A row of `tier_metadata`: see harness/model/schemas.py, also for those below."""

    bundle: int
    read: int
    partition: int
    offset: int
    timestamp_ms: int
    kind: str
    topic: str | None
    topic_id: str | None
    topic_partition: int | None
    segment_id: str | None
    broker: int | None
    state: str | None
    base_offset: int | None
    end_offset: int | None
    max_timestamp_ms: int | None
    size_bytes: int | None
    epochs: str | None
    txn_index_empty: bool | None
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """A row of `tier_objects`."""

    bundle: int
    look: str
    looked_ns: int
    topic: str
    topic_id: str
    partition: int
    segment_id: str
    kind: str
    size_bytes: int
    sha256: str
    first_offset: int | None
    last_offset: int | None
    faulty: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLook:
    """A row of `tier_replicas`."""

    bundle: int
    look: str
    looked_ns: int
    broker: int
    topic: str
    topic_id: str
    partition: int
    log_start: int
    local_log_start: int
    highest_tiered: int | None
    epochs: str


_Row = TypeVar("_Row", Recorded, StoredObject, ReplicaLook)
_Looked = TypeVar("_Looked", StoredObject, ReplicaLook)


@dataclass(slots=True, eq=False)
class Segment:
    """One copy of a segment, as brokers recorded it. `reported`: state, broker and read of each metadata record, in
    order.

    `size_bytes`, the newest timestamp and the offsets are None if no record says that the copy started.
    """

    id: str
    base_offset: int | None = None
    end_offset: int | None = None
    size_bytes: int | None = None
    max_timestamp_ms: int | None = None
    epochs: Lineage = ()
    txn_index_empty: bool | None = None
    reported: list[tuple[str | None, int | None, int]] = field(default_factory=list)
    finished_ms: int | None = None
    finished_at: int | None = None  # position in the metadata log of the partition
    deleting_ms: int | None = None  # when the newest record about its deletion was written

    @property
    def state(self) -> str | None:
        return self.reported[-1][0]

    @property
    def stable(self) -> bool:
        """Whether no broker wrote about it while the objects were looked at."""
        return self.reported[-1][2] == 1

    def copied_by(self, at_ns: int) -> bool:
        """Whether it was finished by then, by the clock of the broker that wrote it."""
        return self.finished_ms is not None and self.finished_ms * 10**6 <= at_ns

    def replaces(self, other: Segment) -> bool:
        """Whether it was finished later and has all offsets of the other copy with the same leader epochs: brokers
        read this copy from then on, and the other one is not needed."""
        if self.finished_at is None or other.finished_at is None or self.finished_at <= other.finished_at:
            return False
        mine = {epoch: (low, high) for epoch, low, high in spans(self.epochs, (self.end_offset or 0) + 1)}
        theirs = spans(other.epochs, (other.end_offset or 0) + 1)
        return all(epoch in mine and mine[epoch][0] <= low and high <= mine[epoch][1] for epoch, low, high in theirs)

    def within(self, until_ms: int | None) -> bool:
        """Whether none of its records is younger; None = any timestamp."""
        return until_ms is None or (self.max_timestamp_ms is not None and self.max_timestamp_ms <= until_ms)

    @property
    def copied(self) -> bool:
        """Whether it was there when replicas were asked, or soon after. A later deletion does not count."""
        states = {state for state, _, _ in self.reported}
        return FINISHED in states and not any(s in (DELETING, DELETED) and read == 1 for s, _, read in self.reported)


@dataclass(slots=True)
class Partition:
    """Everything known about one partition in the tier."""

    segments: dict[str, Segment] = field(default_factory=dict)
    objects: dict[str, list[StoredObject]] = field(default_factory=lambda: defaultdict(list))  # by segment
    replicas: list[ReplicaLook] = field(default_factory=list)


@dataclass(slots=True)
class Tier:
    """The rows of one bundle."""

    partitions: dict[Place, Partition] = field(default_factory=lambda: defaultdict(Partition))
    unreadable: list[Recorded] = field(default_factory=list)


def tiers_of(given: Prepared) -> list[Tier]:
    """The tier of each bundle, on the driver. BadEvidence when there are too many rows."""
    tiers = [Tier() for _ in given.cases]
    records = sorted(_rows(given.tier_metadata, Recorded), key=lambda row: (row.partition, row.offset))
    for row in records:
        if row.kind == "unreadable":
            tiers[row.bundle].unreadable.append(row)
        elif row.topic is not None and row.topic_id is not None and row.topic_partition is not None:
            _reported(tiers[row.bundle].partitions[row.topic, row.topic_id, row.topic_partition], row)
    for stored in _rows(given.tier_objects, StoredObject):
        tiers[stored.bundle].partitions[_place(stored)].objects[stored.segment_id].append(stored)
    for replica in _rows(given.tier_replicas, ReplicaLook):
        tiers[replica.bundle].partitions[_place(replica)].replicas.append(replica)
    return tiers


def _of_inputs(tiers: list[Tier]) -> list[Tier]:
    return tiers


TIERS: Final = OnDriver(name="tier", read=_of_inputs, none=Tier)


def lineage_of(text: str | None) -> Lineage:
    """`0:0,3:1500` as pairs of leader epoch and first offset; empty for any other text."""
    try:
        pairs = [pair.partition(":") for pair in (text or "").split(",") if pair]
        return tuple((int(epoch), int(start)) for epoch, _, start in pairs)
    except ValueError:
        return ()


def spans(lineage: Lineage, end: int) -> Iterator[tuple[int, int, int]]:
    """Leader epoch, first offset and the offset after its last one."""
    for (epoch, start), until in zip(lineage, [*(first for _, first in lineage[1:]), end], strict=False):
        if start < until:
            yield epoch, start, until


def agreed(segment: Segment, lineage: Lineage) -> Iterator[tuple[int, int]]:
    """Ranges [low, high) in which the segment has the same leader epochs as the lineage."""
    if segment.base_offset is None or segment.end_offset is None:
        return
    end = segment.end_offset + 1
    line = {epoch: (start, until) for epoch, start, until in spans(lineage, UNBOUNDED)}
    for epoch, start, until in spans(segment.epochs, end):
        first, last = line.get(epoch, (0, 0))
        low, high = max(start, first, segment.base_offset), min(until, last, end)
        if low < high:
            yield low, high


def _reported(partition: Partition, row: Recorded) -> None:
    if row.kind == "partition_delete" or row.segment_id is None:
        return  # no excuse for a partition that replicas still report; other partitions are not judged
    segment = partition.segments.setdefault(row.segment_id, Segment(row.segment_id))
    segment.reported.append((row.state, row.broker, row.read))
    if row.kind == "segment":
        segment.base_offset, segment.end_offset = row.base_offset, row.end_offset
        segment.size_bytes, segment.epochs = row.size_bytes, lineage_of(row.epochs)
        segment.max_timestamp_ms = row.max_timestamp_ms
        segment.txn_index_empty = row.txn_index_empty
    if row.state == FINISHED and segment.finished_ms is None:
        segment.finished_ms, segment.finished_at = row.timestamp_ms, row.offset
    if row.state in (DELETING, DELETED):
        segment.deleting_ms = row.timestamp_ms


def _rows(table: DataFrame, kind: type[_Row]) -> list[_Row]:
    rows = table.select(*[field.name for field in fields(kind)]).limit(ROWS_MAX + 1).collect()
    if len(rows) > ROWS_MAX:
        raise BadEvidence(
            f"the evidence has more than {ROWS_MAX} rows about the remote tier; judge fewer bundles at once"
        )
    return [kind(**row.asDict()) for row in rows]


def _place(row: StoredObject | ReplicaLook) -> Place:
    return row.topic, row.topic_id, row.partition


def last_look(rows: Iterable[_Looked]) -> list[_Looked]:
    """Rows of the look at the end."""
    return rows_of_look(rows, "end")


def rows_of_look(rows: Iterable[_Looked], look: str) -> list[_Looked]:
    """Rows of one look."""
    return [row for row in rows if row.look == look]
