"""Reads a broker's log directories: replicas, segments, checkpoints and topic ids, of a running broker too.

Kafka writes a checkpoint to a temporary file and renames it, so a checkpoint is complete, or permanently damaged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.model.errors import HarnessFailure

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"  # flushed up to here
LOG_STARTS: Final = "log-start-offset-checkpoint"  # only where it is not the first segment's base
CLEANED: Final = "cleaner-offset-checkpoint"  # compacted up to here
METADATA_LOG: Final = "__cluster_metadata-0"  # the folder of its only partition
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"  # of a replica, in its own folder
_TOPIC_ID: Final = "partition.metadata"
_CHECKPOINT_VERSION: Final = "0"
_PARTITION_DIRECTORY: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
_SEGMENT: Final = re.compile(r"(?P<base>\d{20})\.log")
_DELETED_SEGMENT: Final = re.compile(r"(?P<base>\d{20})\.log\.deleted")


class DamagedFile(HarnessFailure):
    """A broker's file violates its format. The text names the file and the line."""


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """A replica's folder. Folders that wait for deletion and future copies do not count."""

    path: Path
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Segment:
    path: Path
    base_offset: int


def partition_directories(
    log_directories: Iterable[Path], topics: Collection[str] | None = None
) -> list[PartitionDirectory]:
    """The replicas in a broker's log directories, sorted; of these topics only, if given."""
    found = []
    for directory in log_directories:
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            match = _PARTITION_DIRECTORY.fullmatch(path.name)
            if match is None or not path.is_dir() or (topics is not None and match["topic"] not in topics):
                continue
            found.append(PartitionDirectory(path, match["topic"], int(match["partition"])))
    return sorted(found, key=lambda replica: (replica.topic, replica.partition))


def segments(replica: Path) -> list[Segment]:
    """The segments of a replica by base offset, without files that wait for deletion or are being cleaned."""
    matches = ((path, _SEGMENT.fullmatch(path.name)) for path in replica.iterdir())
    return sorted(
        (Segment(path, int(match["base"])) for path, match in matches if match is not None),
        key=lambda segment: segment.base_offset,
    )


def deleted_segments(replica: Path) -> set[int]:
    """Base offsets of the segments of a replica that wait for deletion: renamed but not yet removed."""
    return {int(match["base"]) for path in replica.iterdir() if (match := _DELETED_SEGMENT.fullmatch(path.name))}


def being_cleaned(replica: Path, since_ns: int = 0) -> set[str]:
    """Names of the log files that a cleaner has written since `since_ns` to replace others (LogCleaner).

    A cleaner that is stopped leaves such a file behind, and the next cleaner writes one of the same name.
    """
    names = set()
    with suppress(FileNotFoundError):  # the folder may be deleted at any moment
        for path in replica.iterdir():
            if path.name.endswith((".log.cleaned", ".log.swap")):
                with suppress(FileNotFoundError):
                    names |= {path.name} if path.stat().st_mtime_ns >= since_ns else set()
    return names


def leader_epochs(replica: Path) -> list[tuple[int, int]]:
    """(leader epoch, start offset) of a replica's log, oldest first (KIP-101). Empty without a checkpoint."""
    return [(epoch, start) for epoch, start in _integers(replica / LEADER_EPOCHS, columns=2)]


def topic_id(replica: Path) -> str | None:
    """The topic id in partition.metadata, in Kafka's form (KIP-516); None without the file."""
    path = replica / _TOPIC_ID
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if "topic_id" not in fields:
        raise DamagedFile(f"{path} names no topic id")
    return fields["topic_id"]


def offset_checkpoint(log_directory: Path, name: str) -> dict[tuple[str, int], int]:
    """(topic, partition) -> offset of one of the checkpoints of a log directory; empty without the file."""
    offsets = {}
    for line in _entries(log_directory / name):
        topic, _, numbers = line.partition(" ")
        partition, offset = _as_integers(log_directory / name, numbers, columns=2)
        offsets[topic, partition] = offset
    return offsets


def cleaned_end(log_directories: Iterable[Path], place: tuple[str, int]) -> int:
    """The offset up to which a broker has compacted a partition; 0 = not at all."""
    # A broker creates the file empty, and writes a line only after it has compacted something.
    written = [one for one in log_directories if (one / CLEANED).is_file() and (one / CLEANED).stat().st_size]
    return max((offset_checkpoint(directory, CLEANED).get(place, 0) for directory in written), default=0)


def _integers(path: Path, columns: int) -> list[Sequence[int]]:
    return [_as_integers(path, line, columns) for line in _entries(path)]


def _as_integers(path: Path, line: str, columns: int) -> Sequence[int]:
    try:
        numbers = [int(word) for word in line.split()]
    except ValueError:
        numbers = []
    if len(numbers) != columns:
        raise DamagedFile(f"{path}: {line!r} is not an entry of a checkpoint")
    return numbers


def _entries(path: Path) -> list[str]:
    """The lines of a checkpoint after its version and count. DamagedFile when either is wrong."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    if not lines or lines[0] != _CHECKPOINT_VERSION:
        raise DamagedFile(f"{path} is not a checkpoint of version {_CHECKPOINT_VERSION}")
    entries = [line for line in lines[2:] if line]
    if len(lines) < 2 or lines[1] != str(len(entries)):
        raise DamagedFile(
            f"{path} has {len(entries)} entries, but its count is {lines[1] if len(lines) > 1 else 'missing'}"
        )
    return entries
