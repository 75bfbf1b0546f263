"""Lists and reads the objects in the folder of a remote tier (FileStorage, or Kafka's own LocalTieredStorage).

A partition has a folder `TOPIC-PARTITION-TOPICID`, and each file of a segment is called `BASE-SEGMENTID.KIND`
(RemoteLogSegmentFileset in Kafka's storage tests). Brokers may write and delete objects meanwhile: each object is
reported as it was when it was read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.kafka.settings.tier_settings import BUCKET
from harness.kafka.storage.record_batch import Batch, Walk, oddities

ROOT: Final = BUCKET
LOG: Final = "log"
_PARTITION: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-(?P<topic_id>[A-Za-z0-9_-]{22})")
_OBJECT: Final = re.compile(r"(?P<base>\d{20})-(?P<segment>[A-Za-z0-9_-]{22})\.(?P<kind>\w+)")
_CHUNK_BYTES: Final = 1 << 20
_FAULTS_MAX: Final = 5  # reported per object, because a damaged object may have very many


@dataclass(frozen=True, slots=True)
class TierObject:
    """A file of the tier, with the facts in its path. `kind`: log, index, timeindex, snapshot, txnindex, ..."""

    path: Path
    topic: str
    topic_id: str
    partition: int
    segment_id: str
    base_offset: int
    kind: str


@dataclass(frozen=True, slots=True)
class Content:
    """The size and digest of an object, and the batches of a log.

    faulty: what is wrong with the log; empty if it is intact. records: number of records in data and control batches.
    first_offset, last_offset: None if no batch was readable.
    """

    size_bytes: int
    sha256: str
    batches: tuple[Batch, ...] = ()
    faulty: str = ""

    @property
    def records(self) -> int:
        return sum(batch.records for batch in self.batches)

    @property
    def first_offset(self) -> int | None:
        return self.batches[0].base_offset if self.batches else None

    @property
    def last_offset(self) -> int | None:
        return self.batches[-1].last_offset if self.batches else None


def objects_of(store: Path, topics: Collection[str]) -> list[TierObject]:
    """The objects of these topics, with any topic id, by topic, partition and base offset."""
    return sorted(_objects(store / ROOT, topics), key=lambda one: (one.topic, one.partition, one.base_offset, one.path))


def read_object(one: TierObject) -> Content | None:
    """Reads a whole object. None if it was deleted meanwhile."""
    try:
        digest, size_bytes = hashlib.sha256(), 0
        with one.path.open("rb", buffering=0) as stream:
            while piece := stream.read(_CHUNK_BYTES):
                digest.update(piece)
                size_bytes += len(piece)
            if one.kind != LOG:
                return Content(size_bytes, digest.hexdigest())
            stream.seek(0)
            walk = Walk(stream, size_bytes)
            batches = tuple(walk)
    except (FileNotFoundError, NotADirectoryError):
        return None
    faults = list(_batch_errors(one, batches))
    if walk.tail is not None:
        faults.append(f"{walk.tail.size_bytes} bytes after the last batch: {walk.tail.reason}")
    return Content(size_bytes, digest.hexdigest(), batches, "; ".join(faults[:_FAULTS_MAX]))


def _objects(root: Path, topics: Collection[str]) -> Iterator[TierObject]:
    for folder in _entries(root):
        place = _PARTITION.fullmatch(folder.name)
        if place is None or place["topic"] not in topics:
            continue
        for path in _entries(folder):
            name = _OBJECT.fullmatch(path.name)
            if name is not None:
                where = (place["topic"], place["topic_id"], int(place["partition"]))
                yield TierObject(path, *where, name["segment"], int(name["base"]), name["kind"])


def _entries(folder: Path) -> list[Path]:
    """Empty if the folder was deleted, or if a file is in its place."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _batch_errors(one: TierObject, batches: tuple[Batch, ...]) -> Iterator[str]:
    """Errors in the batches of a log that is not compacted. Offsets of such a log have no gaps."""
    trusted: Batch | None = None
    for before, batch in zip((None, *batches), batches, strict=False):
        wrong = [] if batch.crc_ok else ["the checksum is wrong"]
        wrong += oddities(batch, trusted)
        if before is None and batch.base_offset != one.base_offset:
            wrong.append(f"the first offset is {batch.base_offset}, not {one.base_offset}")
        # A header with a wrong checksum says nothing about the next batch.
        if before is not None and before.crc_ok and batch.base_offset > before.last_offset + 1:
            wrong.append(f"offset {batch.base_offset} after {before.last_offset}")
        yield from (f"byte {batch.position}: {error}" for error in wrong)
        trusted = batch if batch.crc_ok else trusted
