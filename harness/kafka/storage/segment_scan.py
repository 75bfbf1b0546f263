"""Reads the segments of every replica from the brokers' disks: one row for each batch, and all damage.

A broker sends its files to consumers without verifying checksums, and followers are rarely read, so damage and
divergence show here first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from harness.kafka.storage.log_directory import (
    DamagedFile,
    PartitionDirectory,
    Segment,
    leader_epochs,
    partition_directories,
    segments,
    topic_id,
)
from harness.kafka.storage.record_batch import Batch, Walk, oddities
from harness.model.documents.cluster import EmptySegment, Lineage

_ROWS: Final = 20_000  # batches in one write
REMOTE_TIER: Final = -1  # in place of a broker, in rows about batches in the remote tier
DAMAGE_MAX: Final = 1000  # more entries about one damaged replica would add nothing


class Rows(Protocol):
    """A writer of the table `batches`."""

    def append(self, columns: Mapping[str, object]) -> None: ...


@dataclass(frozen=True, slots=True)
class Damage:
    """Content of a replica's files that no broker writes. `base_offset` None = it is not part of a known batch."""

    broker: int
    topic: str
    partition: int
    segment: int
    position: int
    base_offset: int | None
    what: str

    def __str__(self) -> str:
        where = f"broker {self.broker}, {self.topic}-{self.partition}, segment {self.segment}, byte {self.position}"
        return f"{where}: {self.what}"


@dataclass(slots=True)
class Scrubbed:
    """The totals of a scan. `damage` has at most DAMAGE_MAX entries; `damaged` counts all."""

    replicas: int = 0
    batches: int = 0
    size_bytes: int = 0
    damaged: int = 0
    damage: list[Damage] = field(default_factory=list)

    def note(self, damage: Damage) -> None:
        self.damaged += 1
        if len(self.damage) < DAMAGE_MAX:
            self.damage.append(damage)


def scrub(directories: Mapping[int, Iterable[Path]], topics: Collection[str], table: Rows) -> Scrubbed:
    """Writes a row for each batch of every replica of the topics into `table`.

    `directories` are the log directories by broker.
    Segments and replicas that a broker removes or renames meanwhile are left out. Damage is returned and never raised:
    wrong checksums, impossible headers, and bytes after the last readable batch.
    """
    seen = Scrubbed()
    for broker, paths in sorted(directories.items()):
        for replica in partition_directories(paths, topics):
            seen.replicas += 1
            _scrub_replica(broker, replica, table, seen)
    return seen


def lineages_of(directories: Mapping[int, Iterable[Path]], topics: Collection[str]) -> tuple[Lineage, ...]:
    """The start offset of each leader epoch in each replica's log.

    The lineage of an unreadable checkpoint has no epochs, and the reason in `error`.
    """
    return tuple(
        _lineage(broker, replica)
        for broker, paths in sorted(directories.items())
        for replica in partition_directories(paths, topics)
    )


def empty_segments_of(directories: Mapping[int, Iterable[Path]], topics: Collection[str]) -> tuple[EmptySegment, ...]:
    """Segments of no bytes, which a cleaner leaves if it removes every record of them. The last one of a log may be
    empty for other reasons, and is left out."""
    return tuple(
        found
        for broker, paths in sorted(directories.items())
        for replica in partition_directories(paths, topics)
        for found in _empty_segments(broker, replica)
    )


def _empty_segments(broker: int, replica: PartitionDirectory) -> Iterator[EmptySegment]:
    with suppress(FileNotFoundError):  # the folder or a file may be deleted at any moment
        for segment in segments(replica.path)[:-1]:
            file = segment.path.stat()
            if file.st_size == 0:
                yield EmptySegment(
                    broker=broker,
                    topic=replica.topic,
                    partition=replica.partition,
                    base_offset=segment.base_offset,
                    modified_ms=file.st_mtime_ns // 10**6,
                )


def _lineage(broker: int, replica: PartitionDirectory) -> Lineage:
    epochs: list[tuple[int, int]] = []
    error = None
    try:
        epochs = leader_epochs(replica.path)
    except DamagedFile as damaged:
        error = str(damaged)
    topic, partition = replica.topic, replica.partition
    return Lineage(broker=broker, topic=topic, partition=partition, epochs=tuple(epochs), error=error)


def _scrub_replica(broker: int, replica: PartitionDirectory, table: Rows, seen: Scrubbed) -> None:
    place = (broker, replica.topic, replica.partition)
    try:
        known_id = topic_id(replica.path) or ""
    except DamagedFile as damaged:
        known_id = ""
        seen.note(Damage(*place, segment=-1, position=0, base_offset=None, what=str(damaged)))
    common = {"broker": broker, "topic": replica.topic, "topic_id": known_id, "partition": replica.partition}
    before: Batch | None = None
    try:
        found = segments(replica.path)
    except FileNotFoundError:
        return  # deleted meanwhile, or renamed for deletion
    for segment in found:
        try:
            before = _scrub_segment(place, segment, before, common, table, seen)
        except FileNotFoundError:
            continue  # deleted by retention meanwhile; the log start shows whether that was justified


def _scrub_segment(
    place: tuple[int, str, int],
    segment: Segment,
    before: Batch | None,
    common: Mapping[str, object],
    table: Rows,
    seen: Scrubbed,
) -> Batch | None:
    """Scans one segment and returns its last intact batch, with which the first one of the next segment is compared."""
    rows: list[Batch] = []
    size_bytes = segment.path.stat().st_size
    with segment.path.open("rb", buffering=0) as stream:
        walk = Walk(stream, size_bytes)
        for batch in walk:
            wrong = [] if batch.crc_ok else ["the checksum is wrong"]
            wrong += oddities(batch, before)
            if batch.base_offset < segment.base_offset:
                wrong.append(f"offset {batch.base_offset} in segment {segment.base_offset}")
            for what in wrong:
                seen.note(Damage(*place, segment.base_offset, batch.position, batch.base_offset, what))
            # A damaged header says nothing about the order of the next batch.
            before = batch if batch.crc_ok else before
            seen.batches += 1
            rows.append(batch)
            if len(rows) >= _ROWS:
                table.append({**common, **batch_columns(rows, segment.base_offset)})
                rows = []
    if rows:
        table.append({**common, **batch_columns(rows, segment.base_offset)})
    if walk.tail is not None:
        tail = walk.tail
        what = f"{tail.size_bytes} bytes after the last batch: {tail.reason}"
        seen.note(Damage(*place, segment.base_offset, tail.position, None, what))
    seen.size_bytes += size_bytes
    return before


def batch_columns(rows: Sequence[Batch], segment: int | None) -> dict[str, object]:
    """The columns of the table `batches` except those of the replica. segment: base offset of its file, if known."""

    def column(name: str, kind: type[np.generic] = np.int64) -> npt.NDArray[np.generic]:
        return np.fromiter((getattr(batch, name) for batch in rows), dtype=kind, count=len(rows))

    return {
        "segment": segment,
        "base_offset": column("base_offset"),
        "last_offset": column("last_offset"),
        "count": column("records", np.int32),
        "leader_epoch": column("leader_epoch", np.int32),
        "producer_id": column("producer_id"),
        "producer_epoch": column("producer_epoch", np.int32),
        "base_sequence": column("base_sequence", np.int32),
        "transactional": column("transactional", np.bool_),
        "control": [batch.control for batch in rows],
        "codec": [batch.codec for batch in rows],
        "timestamp_type": [batch.timestamp_type for batch in rows],
        "max_timestamp_ms": column("max_timestamp_ms"),
        "size_bytes": column("size_bytes"),
        "crc_ok": column("crc_ok", np.bool_),
        "digest": column("digest"),
    }
