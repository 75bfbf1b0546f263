"""The state of every partition of a cluster in about 100 bytes each: what the metadata log says, and the last look.

Objects of 100,000 partitions would take more memory than the whole auditor may. So each topic has one array of rows
of a fixed size. Lists of replicas and of their directories are kept once for all partitions that share them. Sets of
replicas (ISR, ELR, last known ELR) are bits that stand for positions in that list; their order is not kept.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Final

from harness.model.clock import NS_PER_MS
from harness.model.history.changes import PartitionChange

_ROW: Final = struct.Struct("<B iii III i iqq iqqqqq")
ROW_BYTES: Final = _ROW.size
_PRESENT: Final = 1
_RECOVERING: Final = 2
_CHANGED: Final = 4  # the database lacks the state
_MOVED: Final = 8  # the database lacks the offsets
_KEPT: Final = _PRESENT | _RECOVERING
_MEMBERS_MAX: Final = 32
_LISTS: Final = 5  # of a shape
_UNPACKED: Final = 512  # shapes that are kept as objects, too: a small cluster has no more
UNKNOWN: Final = -1  # of an offset or of an epoch


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets that the leader reported at the last look, and the leader epoch of that answer. UNKNOWN = none."""

    leader_epoch: int = UNKNOWN
    log_start: int = UNKNOWN
    high_watermark: int = UNKNOWN
    log_end: int = UNKNOWN
    local_log_start: int = UNKNOWN
    highest_tiered: int = UNKNOWN


NEVER: Final = Offsets()


@dataclass(frozen=True, slots=True)
class Shape:
    """What many partitions have in common. `others` are members of an ISR or ELR that are no replicas."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    directories: tuple[str, ...]
    others: tuple[int, ...]

    @property
    def members(self) -> tuple[int, ...]:
        return self.replicas + self.others


class _Directories:
    """A few directories are in many shapes: each has a number."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    def numbers(self, names: Iterable[str]) -> list[int]:
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = len(self._names)
                self._names.append(name)
        return [self._numbers[name] for name in names]

    def names(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(self._names[number] for number in numbers)


class PackedPartitions:
    """`PartitionStates` in little memory, with the offsets of the last look at each partition.

    What has changed since it was taken is remembered, for the database.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # topic id -> name
        self._rows: dict[str, bytearray] = {}  # topic id -> the rows of its partitions
        self._shapes: list[bytes] = []  # a large cluster has tens of thousands of them, so each is packed, too
        self._numbers: dict[bytes, int] = {}
        self._directories = _Directories()
        self._unpacked = lru_cache(_UNPACKED)(self._unpack)
        self._unsaved: dict[str, int] = {}  # topic id -> which marks its rows may have
        self._removed: set[str] = set()
        self._replaced: dict[str, bytearray] = {}  # the rows before a snapshot replaced the state

    # The protocol of the replay

    def get(self, topic_id: str, partition: int) -> PartitionChange | None:
        row = self._row(topic_id, partition)
        if row is None:
            return None
        flags, leader, leader_epoch, partition_epoch, isr, elr, known, shape, *rest = row
        controller_epoch, offset, time_ms = rest[:3]
        of = self._unpacked(self._shapes[shape])
        return PartitionChange(
            topic=self._names[topic_id],
            topic_id=topic_id,
            partition=partition,
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            isr=_chosen(of.members, isr),
            elr=_chosen(of.members, elr),
            last_known_elr=_chosen(of.members, known),
            recovering=bool(flags & _RECOVERING),
            replicas=of.replicas,
            adding=of.adding,
            removing=of.removing,
            directories=of.directories,
            time_ns=time_ms * NS_PER_MS,
            offset=offset,
            controller_epoch=controller_epoch,
        )

    def put(self, state: PartitionChange) -> None:
        place = state.topic_id, state.partition
        rows = self._rows.setdefault(state.topic_id, bytearray())
        self._names[state.topic_id] = state.topic
        at = _room(rows, state.partition)
        seen = self.offsets(*place)
        if seen is NEVER and (old := _row(self._replaced.get(state.topic_id), state.partition)) is not None:
            seen = Offsets(*old[-6:])
        members = sorted({*state.isr, *state.elr, *state.last_known_elr} - {*state.replicas})
        shape = Shape(state.replicas, state.adding, state.removing, tuple(state.directories), tuple(members))
        mark = _CHANGED | (rows[at] & _MOVED)
        self._write(rows, at, state, shape, seen)
        self._mark(state.topic_id, at, mark)

    def remove_topic(self, topic_id: str) -> None:
        if self._rows.pop(topic_id, None) is not None:
            self._names.pop(topic_id)
            self._removed.add(topic_id)

    def clear(self) -> None:
        """Removes all, because a snapshot replaces it. Looks at partitions that are put back are kept."""
        self._replaced, self._rows = self._rows, {}
        self._removed |= self._replaced.keys()

    def end_replacement(self) -> None:
        """Frees the states before the snapshot, once all of the snapshot was put."""
        self._replaced = {}

    def __iter__(self) -> Iterator[PartitionChange]:
        for topic_id in list(self._rows):
            yield from self.of_topic(topic_id)

    # What the auditor adds

    def __len__(self) -> int:
        return sum(1 for _ in self.places())

    def topic_ids(self) -> tuple[str, ...]:
        return tuple(self._rows)

    def topic(self, topic_id: str) -> str | None:
        """The name of a topic that exists."""
        return self._names.get(topic_id)

    def of_topic(self, topic_id: str) -> Iterator[PartitionChange]:
        for partition in range(len(self._rows.get(topic_id, b"")) // ROW_BYTES):
            state = self.get(topic_id, partition)
            if state is not None:
                yield state

    def places(self) -> Iterator[tuple[str, int]]:
        """(topic id, partition) of each partition, without an object for it."""
        for topic_id, rows in list(self._rows.items()):
            for at in range(0, len(rows), ROW_BYTES):
                if rows[at] & _PRESENT:
                    yield topic_id, at // ROW_BYTES

    def offsets(self, topic_id: str, partition: int) -> Offsets:
        """The last look; NEVER before the first one."""
        row = self._row(topic_id, partition)
        return NEVER if row is None else Offsets(*row[-6:])

    def put_offsets(self, topic_id: str, partition: int, seen: Offsets) -> None:
        """Keeps a look at a partition that is there."""
        rows = self._rows[topic_id]
        _OFFSETS.pack_into(rows, partition * ROW_BYTES + _OFFSETS_AT, *_as_row(seen))
        self._mark(topic_id, partition * ROW_BYTES, _MOVED)

    def take_removed(self) -> set[str]:
        """The topics that were removed since the last call."""
        removed, self._removed = self._removed - self._rows.keys(), set()
        return removed

    def take_changed(self, *, moved_too: bool) -> Iterator[tuple[str, int]]:
        """The partitions with a new state since they were taken last; with `moved_too` also those with new offsets."""
        wanted = _CHANGED | _MOVED if moved_too else _CHANGED
        for topic_id, marks in [*self._unsaved.items()]:
            rows = self._rows.get(topic_id)
            for at in range(0, len(rows), ROW_BYTES) if rows is not None and marks & wanted else ():
                if rows is not None and rows[at] & wanted:
                    rows[at] &= ~wanted & 0xFF
                    yield topic_id, at // ROW_BYTES
            if rows is None or not marks & ~wanted:
                del self._unsaved[topic_id]
            else:
                self._unsaved[topic_id] = marks & ~wanted

    def packed(self, topic_id: str, partition: int) -> bytes:
        """The row of a partition, as the database keeps it. It refers to `shapes`."""
        at = partition * ROW_BYTES
        row = self._rows[topic_id][at : at + ROW_BYTES]
        row[0] &= _KEPT
        return bytes(row)

    def shapes(self, known: int = 0) -> Iterator[Shape]:
        """The shapes behind the first `known` ones."""
        return (self._unpacked(self._shapes[number]) for number in range(known, len(self._shapes)))

    def load(self, topic_id: str, name: str, rows: Iterator[tuple[int, bytes]]) -> None:
        """Puts back what the database kept; `load_shapes` comes first."""
        self._names[topic_id] = name
        array = self._rows.setdefault(topic_id, bytearray())
        for partition, row in rows:
            at = _room(array, partition)
            array[at : at + ROW_BYTES] = row

    def load_shapes(self, shapes: Sequence[Shape]) -> None:
        self._shapes = [self._packed(shape) for shape in shapes]
        self._numbers = {shape: number for number, shape in enumerate(self._shapes)}

    def _packed(self, shape: Shape) -> bytes:
        """The length of each list in a byte, and then their numbers."""
        lists = shape.replicas, shape.adding, shape.removing, self._directories.numbers(shape.directories), shape.others
        return bytes(map(len, lists)) + array("i", chain.from_iterable(lists)).tobytes()

    def _unpack(self, packed: bytes) -> Shape:
        numbers = array("i")
        numbers.frombytes(packed[_LISTS:])
        left = iter(numbers)
        replicas, adding, removing, directories, others = (tuple(islice(left, length)) for length in packed[:_LISTS])
        return Shape(replicas, adding, removing, self._directories.names(directories), others)

    def _mark(self, topic_id: str, at: int, mark: int) -> None:
        self._rows[topic_id][at] |= mark
        self._unsaved[topic_id] = self._unsaved.get(topic_id, 0) | mark

    def _row(self, topic_id: str, partition: int) -> tuple[int, ...] | None:
        return _row(self._rows.get(topic_id), partition)

    def _write(self, rows: bytearray, at: int, state: PartitionChange, shape: Shape, seen: Offsets) -> None:
        packed = self._packed(shape)
        number = self._numbers.get(packed)
        if number is None:
            number = self._numbers[packed] = len(self._shapes)
            self._shapes.append(packed)
        members = shape.members
        if len(members) > _MEMBERS_MAX:
            raise ValueError(f"{state.topic}/{state.partition} has {len(members)} replicas, at most {_MEMBERS_MAX} fit")
        _ROW.pack_into(
            rows,
            at,
            _PRESENT | (_RECOVERING if state.recovering else 0),
            *(state.leader, state.leader_epoch, state.partition_epoch),
            *(_bits(members, of) for of in (state.isr, state.elr, state.last_known_elr)),
            number,
            *(state.controller_epoch, state.offset, state.time_ns // NS_PER_MS),
            *_as_row(seen),
        )


_OFFSETS: Final = struct.Struct("<iqqqqq")
_OFFSETS_AT: Final = ROW_BYTES - _OFFSETS.size


def _room(rows: bytearray, partition: int) -> int:
    """Where the row of a partition is, behind empty rows if it is new."""
    at = partition * ROW_BYTES
    rows.extend(bytes(max(0, at + ROW_BYTES - len(rows))))
    return at


def _row(rows: bytearray | None, partition: int) -> tuple[int, ...] | None:
    at = partition * ROW_BYTES
    if rows is None or at >= len(rows) or not rows[at] & _PRESENT:
        return None
    return _ROW.unpack_from(rows, at)


def _as_row(seen: Offsets) -> tuple[int, ...]:
    local = (seen.local_log_start, seen.highest_tiered)
    return seen.leader_epoch, seen.log_start, seen.high_watermark, seen.log_end, *local


def _bits(members: Sequence[int], chosen: Sequence[int]) -> int:
    return sum(1 << members.index(member) for member in chosen)


def _chosen(members: Sequence[int], bits: int) -> tuple[int, ...]:
    return tuple(member for at, member in enumerate(members) if bits >> at & 1)
