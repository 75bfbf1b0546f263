"""Snapshots of the metadata log on the disks of nodes (KIP-630), compared with the state that the log itself makes.

A node that starts loads its newest snapshot and replays the log from there on. So what a snapshot lacks, this node does
not know for ever. A snapshot is compared if the log is known from its first record up to the snapshot's end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from harness.model.history.log import Entry, LogBatch, NodeLog, Record, Snapshot

# An entity, such as ("setting", "topic", "orders", "retention.ms"), and its value as text.
Entity: TypeAlias = tuple[str, ...]
State: TypeAlias = Mapping[Entity, str]
SETTING: Final = "setting"
DIRECTORIES: Final = "directories"
_CONFIG: Final = "ConfigRecord"
_NAMED_MAX: Final = 10  # differences of one snapshot: one that lacks much is wrong anyway


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSnapshot:
    """A snapshot of a node, and in how many entities it differs from the log."""

    node: int
    end_offset: int
    epoch: int
    differences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDifference:
    """An entity that a snapshot has otherwise than the log, with both values; None = it is not there.

    leftover: a setting of a topic that was deleted, which the snapshot has and the log has not any more.
    """

    node: int
    end_offset: int
    entity: tuple[str, ...]
    in_snapshot: str | None
    in_log: str | None
    leftover: bool


class Replayed(Protocol):
    """The state after records: of the log, or of a snapshot."""

    def replay(self, entries: Iterable[Entry]) -> None: ...
    def load(self, snapshot: Snapshot) -> None: ...
    def state(self) -> State | None: ...


def compare_snapshots(
    logs: Sequence[NodeLog], batches: Sequence[LogBatch], new: Callable[[], Replayed], since_ms: int
) -> tuple[list[ComparedSnapshot], list[SnapshotDifference]]:
    """Compares the usable snapshots with a last record that is not older than that."""
    wanted: defaultdict[int, list[tuple[int, Snapshot]]] = defaultdict(list)
    for log in logs:
        for snapshot in log.usable_snapshots():
            if snapshot.end_offset and snapshot.time_ms >= since_ms:
                wanted[snapshot.end_offset].append((log.node, snapshot))
    compared: list[ComparedSnapshot] = []
    differences: list[SnapshotDifference] = []
    for batch, state, settings in _states(batches, new, wanted.keys()):
        end = batch.last_offset + 1
        for node, snapshot in wanted[end]:
            if snapshot.epoch == batch.epoch:
                loaded = new()
                loaded.load(snapshot)
                found = [*_differences(node, end, loaded.state() or {}, state, settings)]
                row = ComparedSnapshot(node=node, end_offset=end, epoch=snapshot.epoch, differences=len(found))
                compared.append(row)
                differences += found[:_NAMED_MAX]
    return compared, differences


def _states(
    batches: Sequence[LogBatch], new: Callable[[], Replayed], ends: Iterable[int]
) -> Iterator[tuple[LogBatch, State, set[Entity]]]:
    """The last batch before each of these offsets with the state behind it, and all settings of topics that there ever
    were. Only as far as the log is known from its first record on, and where no transaction is open."""
    replayed, at, left = new(), 0, set(ends)
    settings: set[Entity] = set()
    for batch in batches if left else ():
        if batch.base_offset != at:
            return
        replayed.replay(batch.entries)
        for entry in batch.entries:
            if isinstance(entry, Record) and entry.kind == _CONFIG:
                settings.add((SETTING, "topic", str(entry.fields["ResourceName"]), str(entry.fields["Name"])))
        at = batch.last_offset + 1
        if at in left and (state := replayed.state()) is not None:
            yield batch, state, settings


def _differences(
    node: int, end: int, snapshot: State, log: State, settings: set[Entity]
) -> Iterator[SnapshotDifference]:
    alive = {value for entity, value in log.items() if entity[0] == "topic"}
    for entity in sorted(snapshot.keys() | log.keys(), key=lambda entity: (entity[0] != "topic", entity)):
        one, other = snapshot.get(entity), log.get(entity)
        # Records of before metadata.version 3.7 have no directories. Later snapshots have some for their partitions.
        unknown = entity[-1] == DIRECTORIES and entity[0] == "partition" and "" in (one, other)
        if one != other and not unknown:
            of_topic = entity[:2] == (SETTING, "topic") and other is None
            leftover = of_topic and (entity[2] not in alive or entity in settings)
            yield SnapshotDifference(
                node=node, end_offset=end, entity=entity, in_snapshot=one, in_log=other, leftover=leftover
            )
