"""Reads the metadata log of one node: the segments and snapshots in the `__cluster_metadata-0` of its disk.

The value of a record is a frame version, a message number and a message version (unsigned varints), followed by a
message of `messages/metadata_records.json`. Control records, of the quorum itself, have the number of their message in
the key and its version in their first field.

A record that cannot be decoded is returned as `Unreadable` and never skipped. A torn or damaged batch ends the log: the
bytes from there on are a `TornEnd`. The log of a running node may end in a batch that is being written.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from harness.kafka.storage.log_directory import METADATA_LOG, segments
from harness.kafka.storage.message_reader import BROKEN, FileReader, MessageReader
from harness.kafka.storage.message_schema import definitions
from harness.kafka.storage.record_batch import HEADER_BYTES, MAGIC, Batch, Tail, Walk, batch_at
from harness.kafka.storage.records import next_record
from harness.model.history.log import Entry, LogBatch, NodeLog, Record, Snapshot, TornEnd, Unreadable

FRAME_VERSION: Final = 1
HEADER_RECORD: Final = "SnapshotHeaderRecord"
FOOTER_RECORD: Final = "SnapshotFooterRecord"
_SNAPSHOT: Final = re.compile(r"(?P<end>\d{20})-(?P<epoch>\d{10})\.checkpoint")
_PLAIN: Final = "none"


class MetadataLogReader:
    """Reads the logs of several nodes. A batch that several nodes have is decoded once."""

    def __init__(self) -> None:
        self._decoded: dict[tuple[int, int, int], LogBatch] = {}

    def read(self, node: int, directories: Iterable[Path]) -> NodeLog:
        """The log of a node, which may run meanwhile. Empty if none of its log directories has one.

        A disk that cannot be read ends the log too.
        """
        for directory in directories:
            path = directory / METADATA_LOG
            try:
                if path.is_dir():
                    return self.read_folder(node, path)
            except OSError as refusal:
                return NodeLog(node, torn=_unreadable_file(path, refusal))
        return NodeLog(node)

    def read_folder(self, node: int, path: Path) -> NodeLog:
        """The log in a folder `__cluster_metadata-0`."""
        snapshots = tuple(self._snapshots(path))
        batches: list[LogBatch] = []
        torn: TornEnd | None = None
        for segment in segments(path):
            try:
                torn = self._read_segment(segment.path, batches)
            except FileNotFoundError:
                continue  # deleted meanwhile, because a snapshot covers it
            except OSError as refusal:
                torn = _unreadable_file(segment.path, refusal)
            if torn is not None:
                break
        return NodeLog(node, tuple(batches), snapshots, torn)

    def _read_segment(self, path: Path, batches: list[LogBatch]) -> TornEnd | None:
        """Appends the batches of a segment. Returns what ends the log, if it ends here."""
        size_bytes = path.stat().st_size
        with path.open("rb", buffering=0) as walked, path.open("rb") as file:
            walk = Walk(walked, size_bytes)
            for batch in walk:
                reason = damage(batch, batches[-1] if batches else None)
                if reason is not None:
                    return TornEnd(path.name, batch.position, size_bytes - batch.position, reason)
                identity = (batch.base_offset, batch.leader_epoch, batch.digest)
                if identity not in self._decoded:
                    self._decoded[identity] = decoded(batch, _payload(file, batch))
                batches.append(self._decoded[identity])
            tail = walk.tail
        return None if tail is None else TornEnd(path.name, tail.position, tail.size_bytes, tail.reason)

    def _snapshots(self, path: Path) -> Iterator[Snapshot]:
        for end_offset, epoch, file in snapshot_files(path):
            with suppress(FileNotFoundError):
                yield read_snapshot(file, end_offset, epoch)


class SnapshotFile:
    """The records of a snapshot in an open file, decoded while they are iterated, so that memory holds one at a time.

    Each iteration begins at the first record. A damaged batch ends it.
    """

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self._file = file
        self._size_bytes = size_bytes

    def __iter__(self) -> Iterator[Entry]:
        for batch in self._batches():
            if isinstance(batch, Tail) or damage(batch) is not None:
                return
            yield from self._records(batch)

    def problem(self) -> str | None:
        """Why the snapshot cannot be used; None = it is complete. Reads the whole file, and decodes only its ends."""
        first = last = None
        for batch in self._batches():
            problem = batch.reason if isinstance(batch, Tail) else damage(batch)
            if problem is not None:
                return problem
            assert isinstance(batch, Batch)
            first, last = first or batch, batch
        ends = (HEADER_RECORD, FOOTER_RECORD)
        if first is None or last is None or (self._kind(first, at=0), self._kind(last, at=-1)) != ends:
            return "it has no header or no footer"
        return None

    def _kind(self, batch: Batch, *, at: int) -> str:
        """The kind of one record of a batch, which is small where a header or a footer is."""
        entries = list(self._records(batch)) if batch.control is not None else []
        entry = entries[at] if entries else None
        return entry.kind if isinstance(entry, Record) else ""

    def _batches(self) -> Iterator[Batch | Tail]:
        position = 0
        while (batch := batch_at(self._file, position, self._size_bytes)) is not None:
            yield batch
            if isinstance(batch, Tail):
                return
            position += batch.size_bytes

    def _records(self, batch: Batch) -> Iterator[Entry]:
        size_bytes = batch.size_bytes - HEADER_BYTES
        return _entries(batch, FileReader(self._file, batch.position + HEADER_BYTES, size_bytes))


def snapshot_in(file: BinaryIO, size_bytes: int, end_offset: int, epoch: int) -> Snapshot:
    """A snapshot in an open file, with entries that can be iterated as long as it is open.

    Kafka renames the file when it is complete, so one without header or footer is damaged.
    """
    entries = SnapshotFile(file, size_bytes)
    header = next(iter(entries), None)
    time_ms = 0
    if isinstance(header, Record) and header.kind == HEADER_RECORD:
        time_ms = header.integer("LastContainedLogTimestamp")
    return Snapshot(end_offset, epoch, time_ms, entries, entries.problem())


def read_snapshot(path: Path, end_offset: int, epoch: int) -> Snapshot:
    """A snapshot file, with all of its entries in memory."""
    with path.open("rb") as file:
        snapshot = snapshot_in(file, path.stat().st_size, end_offset, epoch)
        return replace(snapshot, entries=tuple(snapshot.entries))


def snapshot_files(path: Path) -> list[tuple[int, int, Path]]:
    """End offset, epoch and file of each snapshot in a folder `__cluster_metadata-0`, sorted."""
    found = ((file, _SNAPSHOT.fullmatch(file.name)) for file in path.iterdir())
    return sorted((int(match["end"]), int(match["epoch"]), file) for file, match in found if match is not None)


def damage(batch: Batch, before: LogBatch | None = None) -> str | None:
    """Why a batch cannot be part of the log behind another one; None = it can."""
    if batch.magic != MAGIC:
        return f"magic {batch.magic}"
    if not batch.crc_ok:
        return "the checksum is wrong"
    if before is not None and batch.base_offset != before.last_offset + 1:
        return f"offset {batch.base_offset} follows {before.last_offset}"
    if before is not None and batch.leader_epoch < before.epoch:
        return f"leader epoch {batch.leader_epoch} follows {before.epoch}"
    return None


def _unreadable_file(path: Path, refusal: OSError) -> TornEnd:
    return TornEnd(path.name, 0, 0, f"it cannot be read ({refusal.strerror})")


def _payload(file: BinaryIO, batch: Batch) -> bytes:
    file.seek(batch.position)
    return file.read(batch.size_bytes)


def decoded(batch: Batch, data: bytes) -> LogBatch:
    """A batch with its records decoded. `data` has the whole batch, with its header."""
    entries = tuple(_entries(batch, MessageReader(data[HEADER_BYTES:])))
    return LogBatch(batch.base_offset, batch.last_offset, batch.leader_epoch, batch.digest, entries)


def _entries(batch: Batch, reader: MessageReader) -> Iterator[Entry]:
    """The records of a batch. The reader begins behind its header."""
    offset = batch.base_offset
    if batch.codec != _PLAIN:
        yield _unreadable(batch, offset, batch.base_timestamp_ms, why=f"a batch with compression {batch.codec}")
        return
    for _ in range(batch.records):
        try:
            offset, time_ms, key, value = next_record(reader, batch)
        except BROKEN as broken:
            yield _unreadable(batch, offset, batch.base_timestamp_ms, why=f"a damaged record: {broken}")
            return
        if batch.control is not None:
            yield _control(batch, offset, time_ms, key, value)
        else:
            yield _metadata(batch, offset, time_ms, value)
    if reader.left:
        yield _unreadable(batch, offset, batch.max_timestamp_ms, why=f"{reader.left} bytes after the last record")


def _metadata(batch: Batch, offset: int, time_ms: int, value: bytes | None) -> Entry:
    frame = key = version = None
    try:
        reader = MessageReader(value or b"")
        frame = reader.uvarint()
        if frame != FRAME_VERSION:
            return _unreadable(batch, offset, time_ms, frame=frame, why=f"frame version {frame}")
        key, version = reader.uvarint(), reader.uvarint()
        message = definitions("metadata").get(key)
        if message is None:
            raise ValueError(f"no message has the number {key}")
        return Record(offset, batch.leader_epoch, time_ms, message.name, version, message.decode(reader, version))
    except BROKEN as broken:
        why = str(broken) or type(broken).__name__
        return _unreadable(batch, offset, time_ms, frame=frame, key=key, version=version, why=why)


def _control(batch: Batch, offset: int, time_ms: int, key: bytes | None, value: bytes | None) -> Entry:
    number = version = None
    try:
        _, number = struct.unpack_from(">hh", key or b"")
        message = definitions("control").get(number)
        if message is None:
            raise ValueError(f"no control record has the number {number}")
        version = MessageReader(value or b"").number("h")
        fields = message.decode(MessageReader(value or b""), version)
        return Record(offset, batch.leader_epoch, time_ms, message.name, version, fields)
    except BROKEN as broken:
        why = f"a control record: {broken}"
        return _unreadable(batch, offset, time_ms, key=number, version=version, why=why)


def _unreadable(
    batch: Batch,
    offset: int,
    time_ms: int,
    *,
    frame: int | None = None,
    key: int | None = None,
    version: int | None = None,
    why: str,
) -> Unreadable:
    return Unreadable(offset, batch.leader_epoch, time_ms, frame, key, version, why)
