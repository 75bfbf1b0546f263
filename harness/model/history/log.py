"""The metadata log of one node (KIP-500), decoded: batches of records, snapshots, and why the log ends where it does.

A record's fields have the names of Kafka's own message definitions, and any other room may make these values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

Value: TypeAlias = "bool | int | float | str | bytes | tuple[Value, ...] | Mapping[str, Value] | None"
Fields: TypeAlias = Mapping[str, Value]

_Kind = TypeVar("_Kind", int, str)


class WrongFieldError(ValueError):
    """A field of a record does not have the type that its definition gives it."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was decoded in full. `time_ms` is the clock of the controller that wrote it."""

    offset: int
    epoch: int  # of the quorum's leader, in the header of the batch
    time_ms: int
    kind: str  # the name of the message, such as "PartitionChangeRecord"
    version: int
    fields: Fields

    def integer(self, name: str) -> int:
        value = self.fields[name]
        if not isinstance(value, int) or isinstance(value, bool):
            raise WrongFieldError(f"{name} of {self.kind} is no number")
        return value

    def text(self, name: str) -> str:
        value = self.optional_text(name)
        if value is None:
            raise WrongFieldError(f"{name} of {self.kind} is null")
        return value

    def optional_text(self, name: str) -> str | None:
        value = self.fields[name]
        if value is not None and not isinstance(value, str):
            raise WrongFieldError(f"{name} of {self.kind} is no text")
        return value

    def flag(self, name: str) -> bool:
        """A field that older versions of the message may lack; false there."""
        value = self.fields.get(name, False)
        if not isinstance(value, bool):
            raise WrongFieldError(f"{name} of {self.kind} is neither true nor false")
        return value

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of numbers; None if it is null, or if this version of the message lacks it."""
        values = self._items(name)
        if values is None:
            return None
        return tuple(self._typed(name, value, int) for value in values)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts or ids; None if it is null, or if this version of the message lacks it."""
        values = self._items(name)
        if values is None:
            return None
        return tuple(self._typed(name, value, str) for value in values)

    def rows(self, name: str) -> tuple[Record, ...]:
        """A list of structures, each as a record of its own."""
        rows = []
        for value in self._items(name) or ():
            if not isinstance(value, Mapping):
                raise WrongFieldError(f"{name} of {self.kind} is no list of structures")
            rows.append(Record(self.offset, self.epoch, self.time_ms, f"{self.kind}.{name}", self.version, value))
        return tuple(rows)

    def _items(self, name: str) -> tuple[Value, ...] | None:
        value = self.fields.get(name)
        if value is not None and not isinstance(value, tuple):
            raise WrongFieldError(f"{name} of {self.kind} is no list")
        return value

    def _typed(self, name: str, value: Value, kind: type[_Kind]) -> _Kind:
        if not isinstance(value, kind):
            raise WrongFieldError(f"{name} of {self.kind} has an element that is no {kind.__name__}")
        return value


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that this harness cannot decode, above all one of a type or version that it does not know."""

    offset: int
    epoch: int
    time_ms: int
    frame: int | None  # None: not even this number was there
    key: int | None  # the number of the message type
    version: int | None
    why: str


Entry: TypeAlias = Record | Unreadable


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A batch of the log. Batches of two nodes are the same if base offset, epoch and digest are."""

    base_offset: int
    last_offset: int
    epoch: int
    digest: int
    entries: tuple[Entry, ...] = field(repr=False)

    @property
    def identity(self) -> tuple[int, int, int]:
        return self.base_offset, self.epoch, self.digest


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot (KIP-630): the state that all records below `end_offset` made, written as records.

    `problem` says why it cannot be used; None = it is complete, with header and footer. `entries` can be iterated more
    than once. A reader of large snapshots may decode them only then.
    """

    end_offset: int  # exclusive, as in the name of its file
    epoch: int  # of the last record that it contains
    time_ms: int  # of the last record that it contains
    entries: Iterable[Entry] = field(repr=False)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class TornEnd:
    """Bytes in the files behind the last batch that can be read."""

    file: str
    position: int
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class NodeLog:
    """Everything that one node has on its disk of the metadata log. Batches are contiguous and ordered by offset."""

    node: int
    batches: tuple[LogBatch, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()  # by end offset
    torn: TornEnd | None = None

    @property
    def start(self) -> int:
        """The first offset of the log. A node with nothing but a snapshot begins at the snapshot's end."""
        return self.batches[0].base_offset if self.batches else self._snapshot_end()

    @property
    def end(self) -> int:
        """The offset behind the last record, whether in the log or in a snapshot only."""
        return max(self.batches[-1].last_offset + 1 if self.batches else 0, self._snapshot_end())

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; -1 for an empty log."""
        of_batches = self.batches[-1].epoch if self.batches else -1
        return max([of_batches, *(snapshot.epoch for snapshot in self.usable_snapshots())])

    def usable_snapshots(self) -> Iterator[Snapshot]:
        return (snapshot for snapshot in self.snapshots if snapshot.problem is None)

    def _snapshot_end(self) -> int:
        return max((snapshot.end_offset for snapshot in self.usable_snapshots()), default=0)
