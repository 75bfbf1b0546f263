"""Damages files of a stopped broker as bad sectors, torn writes and lost files do.

`harness/faults/disks/damage.py` says which damage a broker has to detect. Each function returns None when there was
nothing to damage, because the files that it needs do not exist or are empty.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from harness.kafka.storage.log_directory import (
    LEADER_EPOCHS,
    LOG_STARTS,
    Segment,
    leader_epochs,
    offset_checkpoint,
    segments,
)
from harness.kafka.storage.record_batch import HEADER_BYTES, Batch, Walk

# Distance from the end of a batch. It is inside the value of the last record, so the other records stay readable.
FROM_THE_END_BYTES: Final = 24
GARBLED_BYTES: Final = 1024
_PRINT_BYTES: Final = 4096
# The other files of a segment. Kafka recovers a segment without an offset index.
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
_INDEXES: Final = (INDEX, TIME_INDEX, ".txnindex")
_SNAPSHOT: Final = ".snapshot"
META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
_CLUSTER_ID: Final = re.compile(r"cluster\.id=.*")
_NODE_ID: Final = re.compile(rb"(?m)^node\.id=\d+")
_FOREIGN: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_SNAPSHOT_CRC_AT: Final = 3  # inside the checksum of the rest, which follows the version (int16)


@dataclass(frozen=True, slots=True)
class Change:
    """A change to a file, and a fingerprint of the file after it."""

    path: Path
    reported: str
    left: tuple[int, int] | None  # size and checksum of its beginning; None = deleted
    was: bytes = b""  # of small files: the content before

    @property
    def stands(self) -> bool:
        """Whether the file is still as the change left it."""
        return _print(self.path) == self.left

    def undo(self) -> None:
        """Restores the content before the change."""
        self.path.write_bytes(self.was)


def log_end(replica: Path) -> int:
    """The offset after the last complete batch in a replica's files; the log's first offset if there is none.

    No process may write to the files meanwhile.
    """
    found = segments(replica) if replica.is_dir() else []
    for segment in reversed(found):
        if batches := list(_batches(segment)):
            return batches[-1].last_offset + 1
    return found[0].base_offset if found else 0


def sound_end(replica: Path) -> int:
    """The offset up to which recovery finds undamaged batches without a gap, from the log's first segment on.

    See LogLoader.recoverLog. No process may write to the files meanwhile.
    """
    found = segments(replica) if replica.is_dir() else []
    end = found[0].base_offset if found else 0
    for segment in found:
        if segment.base_offset != end:
            break
        for batch in _batches(segment):
            if not batch.crc_ok or batch.base_offset != end:
                return end
            end = batch.last_offset + 1
    return end


def flip(replica: Path, rng: Random, *, recovery_point: int, oldest: bool) -> Change | None:
    """Flips one bit in the last record of a random batch, in the oldest or the newest segment that recovery reads.

    Recovery begins with the segment that holds the recovery point (LogLoader.recoverLog). Nothing verifies the
    checksums of earlier segments again, except a follower that fetches them.
    """
    for segment in _recovered(replica, recovery_point, oldest=oldest):
        batches = [
            b for b in _batches(segment) if b.control is None and b.size_bytes > HEADER_BYTES + FROM_THE_END_BYTES
        ]
        if batches:
            batch = rng.choice(batches)
            position = batch.position + batch.size_bytes - FROM_THE_END_BYTES
            _flip_bit(segment.path, position, rng.randrange(8))
            reported = f"a bit of the batch at offset {batch.base_offset} in segment {segment.base_offset} was flipped"
            return _change(segment.path, reported)
    return None


def tear(replica: Path, tail_bytes: int, *, without_indexes: bool) -> Change | None:
    """Cuts `tail_bytes` off the end of a log, but never between two batches, like a partly completed last write.

    It cuts only the last non-empty segment. `without_indexes` also deletes its indexes and the producer snapshots above
    the cut: after a clean stop, Kafka drops a whole segment if its index points beyond its log, and recovers a segment
    without an index.
    """
    for segment in reversed(segments(replica)):
        batches = list(_batches(segment))
        if not batches:
            continue
        size = max(1, segment.path.stat().st_size - tail_bytes)
        size += size in {batch.position for batch in batches}
        with segment.path.open("r+b") as log:
            log.truncate(size)
        if without_indexes:
            _drop_indexes(replica, segment)
        return _change(segment.path, f"the log of segment {segment.base_offset} was cut to {size} bytes")
    return None


def garble(replica: Path, suffix: str, rng: Random, *, recovery_point: int, oldest: bool) -> Change | None:
    """Overwrites the beginning of an index of a segment that recovery reads, without changing its size."""
    path = beside(replica, suffix, recovery_point=recovery_point, oldest=oldest)
    if path is None:
        return None
    with path.open("r+b") as file:
        file.write(rng.randbytes(min(GARBLED_BYTES, path.stat().st_size)))
    return _change(path, f"{path.name} was overwritten")


def beside(replica: Path, suffix: str, *, recovery_point: int, oldest: bool) -> Path | None:
    """The oldest or the newest non-empty index of the segments that recovery reads."""
    paths = (s.path.with_suffix(suffix) for s in _recovered(replica, recovery_point, oldest=oldest))
    return next((path for path in paths if _size(path)), None)


def remove_index(replica: Path, *, oldest: bool) -> Change | None:
    """Deletes the offset index of the oldest or the newest non-empty segment."""
    for segment in _recovered(replica, 0, oldest=oldest):
        path = segment.path.with_suffix(INDEX)
        if _size(segment.path) and path.is_file():
            path.unlink()
            return _change(path, f"{path.name} was deleted")
    return None


def empty_leader_epochs(replica: Path) -> Change | None:
    """Empties the leader epoch checkpoint of a replica; None when it has no entry.

    Checkpoints are emptied and never garbled: Kafka treats a checkpoint that does not parse as an I/O error of the
    whole log directory, which it then takes offline by design (CheckpointFileWithFailureHandler).
    """
    return _emptied(replica / LEADER_EPOCHS) if leader_epochs(replica) else None


def empty_log_starts(directory: Path, place: tuple[str, int]) -> Change | None:
    """Empties the checkpoint of log start offsets of a log directory; None when it has no entry for `place`.

    It has an entry when a log starts inside a segment, and the broker has stopped cleanly or run for a minute since.
    """
    return _emptied(directory / LOG_STARTS) if place in offset_checkpoint(directory, LOG_STARTS) else None


def spoil_snapshot(replica: Path, *, recovery_point: int | None = None, cut_off: bool = False) -> Change | None:
    """Flips a bit of the newest producer snapshot, so that its checksum is wrong, or cuts half of it off.

    Recovery begins at the base offset of the segment that holds `recovery_point`, with the newest snapshot up to there.
    It deletes later snapshots without reading them (LogLoader, ProducerStateManager.truncateAndReload).
    """
    recovered = _recovered(replica, recovery_point, oldest=True) if recovery_point is not None else []
    for path in sorted(replica.glob(f"*{_SNAPSHOT}"), reverse=True):
        read = not recovered or int(path.stem) <= recovered[0].base_offset
        if read and (_size(path) or 0) > _SNAPSHOT_CRC_AT:
            if cut_off:
                return cut(path)
            _flip_bit(path, _SNAPSHOT_CRC_AT, 0)
            return _change(path, f"the producer snapshot {path.name} was damaged")
    return None


def last_written(replica: Path) -> list[Path]:
    """The log files of the non-empty segments, the newest first."""
    return [s.path for s in reversed(segments(replica)) if _size(s.path)] if replica.is_dir() else []


def flip_middle(path: Path) -> Change:
    """Flips one bit in the middle of a file."""
    was = path.read_bytes()
    _flip_bit(path, len(was) // 2, 0)
    return _change(path, f"a bit of {path.name} was flipped", was)


def flip_first(path: Path) -> Change:
    """Flips the lowest bit of the first byte of a small file. In a checkpoint that is the version."""
    was = path.read_bytes()
    _flip_bit(path, 0, 0)
    return _change(path, f"the first bit of {path.name} was flipped", was)


def cut(path: Path) -> Change:
    """Cuts off half of a small file, but never between two entries of an index."""
    was = path.read_bytes()
    path.write_bytes(was[: len(was) // 2 | 1])
    return _change(path, f"{path.name} was cut from {len(was)} to {path.stat().st_size} bytes", was)


def foreign_node(path: Path) -> Change:
    """Flips the lowest bit of the node id in a meta.properties."""
    was = path.read_bytes()
    match = _NODE_ID.search(was)
    if match is not None:
        _flip_bit(path, match.end() - 1, 0)
    return _change(path, f"a bit of the node id in {path.name} was flipped", was)


def foreign_cluster(path: Path) -> Change:
    """Writes the id of another cluster into a meta.properties."""
    was = path.read_bytes()
    path.write_text(_CLUSTER_ID.sub(f"cluster.id={_FOREIGN}", was.decode("utf-8")), "utf-8")
    return _change(path, f"the cluster id in {path.name} was replaced", was)


def remove(path: Path) -> Change:
    """Deletes a file."""
    was = path.read_bytes()
    path.unlink()
    return _change(path, f"{path.name} was deleted", was)


def _recovered(replica: Path, recovery_point: int, *, oldest: bool) -> Sequence[Segment]:
    found = segments(replica)
    first = max((s.base_offset for s in found if s.base_offset <= recovery_point), default=0)
    read = [s for s in found if s.base_offset >= first]
    return read if oldest else read[::-1]


def _drop_indexes(replica: Path, segment: Segment) -> None:
    for suffix in _INDEXES:
        segment.path.with_suffix(suffix).unlink(missing_ok=True)
    end = log_end(replica)
    for snapshot in replica.glob(f"*{_SNAPSHOT}"):
        if int(snapshot.stem) > end:
            snapshot.unlink()


def _batches(segment: Segment) -> Iterator[Batch]:
    with segment.path.open("rb", buffering=0) as stream:
        yield from Walk(stream, segment.path.stat().st_size)


def _emptied(path: Path) -> Change:
    path.write_bytes(b"")
    return _change(path, f"{path.name} was emptied")


def _flip_bit(path: Path, position: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


def _change(path: Path, reported: str, was: bytes = b"") -> Change:
    return Change(path, reported, _print(path), was)


def _print(path: Path) -> tuple[int, int] | None:
    size = _size(path)
    if size is None:
        return None
    with path.open("rb") as file:
        return size, zlib.crc32(file.read(_PRINT_BYTES))


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
