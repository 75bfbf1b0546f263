"""The logs of coordinators: records of `__consumer_offsets`, `__transaction_state` and `__share_group_state` on a disk.

A key is the number of a message and the message; a value is a version and the message (int16 each), with definitions in
`messages/coordinator_records.json`. The last value of a key counts. A transactional commit of offsets counts from its
commit marker on, and not if a later commit was written before (OffsetMetadataManager.replayEndTransactionMarker).

A record that cannot be decoded is a problem of the log, and never skipped. Keys of kinds that this harness does not
compare are left out.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from harness.kafka.storage.log_directory import partition_directories, segments
from harness.kafka.storage.message_reader import BROKEN, MessageReader
from harness.kafka.storage.message_schema import definitions
from harness.kafka.storage.record_batch import MAGIC, Batch, Walk
from harness.kafka.storage.records import records_of
from harness.model.contract.internal_topics import OFFSETS, SHARE_STATE, TRANSACTIONS
from harness.model.history.log import Value
from harness.model.place import Place

# The names of the kinds of definitions, by topic.
COMPARED: Final = {OFFSETS: "offsets", TRANSACTIONS: "transactions", SHARE_STATE: "share"}
# The numbers of messages in keys that some release writes and that are not compared: metadata and targets of members,
# groups of the protocols for sharing and for Kafka Streams.
_OTHERS: Final = {
    OFFSETS: frozenset({4, 5, 7, *range(9, 30)}),
    TRANSACTIONS: frozenset[int](),
    SHARE_STATE: frozenset(),
}
_NO_PRODUCER: Final = -1
_TRIES: Final = 5  # a segment may be replaced or deleted while the log is read


class Key(NamedTuple):
    """A key, decoded. number: of its message."""

    number: int
    fields: tuple[tuple[str, Value], ...]

    @property
    def of(self) -> dict[str, Value]:
        """The fields by their names."""
        return dict(self.fields)


@dataclass(frozen=True, slots=True)
class Logged:
    """A value of a key. settled: the offset from which on it counts, which is that of its marker in a transaction."""

    offset: int
    settled: int
    epoch: int  # of the leader that wrote it
    key: Key
    value: bytes | None  # None: a tombstone

    def decoded(self, topic: str) -> dict[str, Value] | None:
        """The fields of the value. ValueError if it cannot be decoded."""
        try:
            return None if self.value is None else _message(f"{COMPARED[topic]}_value", self.key.number, self.value)
        except BROKEN as broken:
            raise ValueError(f"the value at offset {self.offset} cannot be decoded: {broken}") from None


@dataclass(slots=True)
class CoordinatorLog:
    """The log of one replica. values: in the order in which they count. compacted_to: below this offset records may
    have been removed. pending: keys with a commit in an open transaction. problems: why something of it is unknown; a
    sentence each."""

    broker: int
    topic: str
    partition: int
    end: int = 0
    compacted_to: int = 0
    values: list[Logged] = field(default_factory=list)
    pending: set[Key] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


class CoordinatorLogs:
    """Reads logs of coordinators. A batch that several replicas have is decoded once, also by a later call."""

    def __init__(self) -> None:
        self._batches: dict[tuple[str, int, int, int, int], list[tuple[int, bytes | None, bytes | None]]] = {}
        self._keys: dict[tuple[str, bytes], Key | None] = {}

    def read(self, broker: int, directories: Iterable[Path], places: Collection[Place]) -> dict[Place, CoordinatorLog]:
        """The logs of these topics and partitions that a broker has, which may run meanwhile."""
        found = partition_directories(directories, COMPARED.keys())
        return {
            (r.topic, r.partition): self._read(broker, r.topic, r.partition, r.path)
            for r in found
            if (r.topic, r.partition) in places
        }

    def _read(self, broker: int, topic: str, partition: int, path: Path) -> CoordinatorLog:
        why = ""
        for _ in range(_TRIES):
            log = CoordinatorLog(broker, topic, partition)
            try:
                _Replay(log, self).replay(path)
            except OSError as gone:
                why = str(gone)
            else:
                return log
        return CoordinatorLog(broker, topic, partition, problems=[f"it cannot be read ({why})"])

    def records(
        self, topic: str, partition: int, batch: Batch, data: bytes
    ) -> list[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of each record of a batch. One of BROKEN if it is damaged."""
        identity = (topic, partition, batch.base_offset, batch.leader_epoch, batch.digest)
        if identity not in self._batches:
            self._batches[identity] = [(offset, key, value) for offset, _, key, value in records_of(batch, data)]
        return self._batches[identity]

    def key(self, topic: str, data: bytes) -> Key | None:
        """A key, or None if it is not compared. One of BROKEN if it cannot be decoded."""
        if (topic, data) not in self._keys:
            self._keys[topic, data] = _key(topic, data)
        return self._keys[topic, data]


class _Replay:
    """Reads the segments of one log in the order of offsets."""

    def __init__(self, log: CoordinatorLog, logs: CoordinatorLogs) -> None:
        self._log = log
        self._logs = logs
        self._last: dict[Key, int] = {}  # offset of the value that counts
        self._open: dict[int, dict[Key, Logged]] = {}  # by producer id, commits of open transactions

    def replay(self, path: Path) -> None:
        for segment in segments(path):
            data = segment.path.read_bytes()
            for batch in Walk(io.BytesIO(data), len(data)):
                if batch.magic != MAGIC or not batch.crc_ok:
                    self._problem(batch.base_offset, "a damaged batch")
                elif batch.base_offset >= self._log.end:  # a cleaner may have replaced a segment meanwhile
                    if batch.base_offset > self._log.end or batch.records <= batch.last_offset_delta:
                        self._log.compacted_to = batch.last_offset + 1
                    self._batch(batch, data)
                    self._log.end = batch.last_offset + 1
        self._log.pending = {key for kept in self._open.values() for key in kept}

    def _batch(self, batch: Batch, data: bytes) -> None:
        if batch.control is not None:
            self._marker(batch)
            return
        if batch.codec != "none":
            self._problem(batch.base_offset, f"a batch with compression {batch.codec}")
            return
        try:
            for offset, key, value in self._logs.records(self._log.topic, self._log.partition, batch, data):
                known = self._logs.key(self._log.topic, key or b"")
                if known is not None:
                    self._record(Logged(offset, offset, batch.leader_epoch, known, value), batch)
        except BROKEN as broken:
            self._problem(batch.base_offset, str(broken) or type(broken).__name__)

    def _record(self, logged: Logged, batch: Batch) -> None:
        if batch.transactional and logged.value is not None:
            self._open.setdefault(batch.producer_id, {})[logged.key] = logged
            return
        self._counts(logged)
        if logged.value is None:
            for commits in self._open.values():
                commits.pop(logged.key, None)

    def _marker(self, batch: Batch) -> None:
        commits = self._open.pop(batch.producer_id, {}) if batch.producer_id != _NO_PRODUCER else {}
        for commit in commits.values() if batch.control == "commit" else ():
            if commit.offset > self._last.get(commit.key, -1):
                self._counts(Logged(commit.offset, batch.base_offset, commit.epoch, commit.key, commit.value))

    def _counts(self, logged: Logged) -> None:
        self._last[logged.key] = logged.offset
        self._log.values.append(logged)

    def _problem(self, offset: int, why: str) -> None:
        self._log.problems.append(f"offset {offset}: {why}")


def _key(topic: str, data: bytes) -> Key | None:
    number = MessageReader(data).number("h")
    if number in _OTHERS[topic]:
        return None
    return Key(number, tuple(_message(f"{COMPARED[topic]}_key", number, struct.pack(">h", 0) + data[2:]).items()))


def _message(kind: str, number: int, data: bytes) -> dict[str, Value]:
    """A message behind its version."""
    message = definitions(kind).get(number)
    if message is None:
        raise ValueError(f"no {kind} has the number {number}")
    reader = MessageReader(data)
    return message.decode(reader, reader.number("h"))
