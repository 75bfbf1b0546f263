"""The plan of the probes: offsets of each partition at which a broker has to search for the position. Reads nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

import pyarrow.parquet as pq

from harness.model.documents.reads import Read
from harness.model.place import Place
from harness.model.scenario.scenario import Scenario

PLACES_MAX: Final = 24
INSIDE, EDGE, TIME, COMMIT, START, BELOW = "batch", "segment", "time", "commit", "log_start", "below_log_start"
_INSIDE: Final = 3  # how many offsets of each kind, for each partition
_SEGMENTS: Final = 2
_TIMES: Final = 2
_TIERED: Final = 8  # how many offsets of the part of a log that is on no disk, each from another part of it
_Batch = tuple[int | None, int, int]  # its segment, if it is known, its first and its last offset


@dataclass(frozen=True, slots=True)
class Ask:
    """An offset to read from, and why. `time_ms`: the leader returned the offset for that timestamp (ListOffsets)."""

    place: Place
    offset: int
    why: str
    time_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Facts about each partition's log, from the drain.

    `starts`: the log start from which it was read; `leaders`: the leader's id; `positions`: the next offset after the
    read, by isolation; `holes`: gaps in the log as (first, last + 1) offsets.
    """

    starts: Mapping[Place, int] = field(default_factory=dict)
    leaders: Mapping[Place, int] = field(default_factory=dict)
    positions: Mapping[tuple[Place, str], int] = field(default_factory=dict)
    holes: Mapping[Place, Sequence[tuple[int, int]]] = field(default_factory=dict)

    def missing(self, place: Place, offset: int) -> bool:
        """Whether an offset is in a gap of the log."""
        return any(low <= offset < high for low, high in self.holes.get(place, ()))


def logs_of(reads: Iterable[Read]) -> Logs:
    """The logs, from the drain's reads."""
    drained = [read for read in reads if read.kind == "drain"]
    return Logs(
        starts={(read.topic, read.partition): read.start for read in drained},
        leaders={(read.topic, read.partition): read.replica for read in drained if read.replica is not None},
        positions={((read.topic, read.partition), read.isolation): read.position for read in drained},
        holes={
            (read.topic, read.partition): [(hole.from_offset, hole.to_offset) for hole in read.holes]
            for read in drained
            if read.holes
        },
    )


def non_committing_groups(scenario: Scenario) -> frozenset[str]:
    """Groups that no probe joins: it would be a member of the classic protocol.

    Static members keep their partitions after they have closed (KIP-345), and a group of the consumer protocol
    (KIP-848) may still exist as such. A probe reads from the committed offsets of these groups without joining.
    """
    changes = any("protocol" in step.args for step in scenario.steps)
    return frozenset(r.group for r in scenario.readers if r.group and (changes or r.static or r.protocol != "classic"))


def asks_of(logs: Logs, bundle: Path, rng: Random) -> dict[Place, list[Ask]]:
    """The probes by partition, for at most PLACES_MAX partitions; from the bundle's tables `batches` and `lookups`."""
    chosen = sorted(rng.sample(sorted(logs.starts), min(PLACES_MAX, len(logs.starts))))
    batches, times = _batches(bundle, logs), _times(bundle)
    return {place: _of_one(place, logs, batches.get(place, []), times.get(place, []), rng) for place in chosen}


def _of_one(
    place: Place, logs: Logs, batches: Sequence[_Batch], times: Sequence[tuple[int, int]], rng: Random
) -> list[Ask]:
    """`times`: (timestamp, the offset returned for it)."""
    start = logs.starts[place]
    end = max((position for (at, _), position in logs.positions.items() if at == place), default=0)
    offsets = [(rng.randrange(start, end), INSIDE)] if start < end else []
    on_disk = min((first for _, first, _ in batches), default=start)
    offsets += [(offset, INSIDE) for offset in _apart(start, on_disk, rng)]
    inner = [(first, last) for _, first, last in batches if last > first]
    offsets += [(rng.randint(first + 1, last), INSIDE) for first, last in rng.sample(inner, min(_INSIDE, len(inner)))]
    segments = sorted({segment for segment, _, _ in batches if segment is not None})
    for segment in rng.sample(segments, min(_SEGMENTS, len(segments))):
        offsets += [(segment, EDGE), (segment - 1, EDGE)]
    offsets.append((start, START))
    asks = {
        offset: Ask(place, offset, why)
        for offset, why in offsets
        if start <= offset < end and not logs.missing(place, offset)
    }
    for time_ms, offset in rng.sample(times, min(_TIMES, len(times))):
        asks[offset] = Ask(place, offset, TIME, time_ms)
    below = {offset: Ask(place, offset, BELOW) for offset in (start - 1, start // 2) if 0 <= offset < start}
    return [*asks.values(), *below.values()]


def _apart(start: int, end: int, rng: Random) -> list[int]:
    """An offset from each of several equal parts; none where there is nothing."""
    bounds = [start + (end - start) * n // _TIERED for n in range(_TIERED + 1)]
    return [rng.randrange(low, high) for low, high in pairwise(bounds) if low < high]


def _batches(bundle: Path, logs: Logs) -> dict[Place, list[_Batch]]:
    """The batches of the leaders' own replicas; none if they could not be read."""
    found: dict[Place, list[_Batch]] = defaultdict(list)
    for part in sorted((bundle / "batches").glob("*.parquet")):
        columns = ("broker", "topic", "partition", "segment", "base_offset", "last_offset")
        rows = pq.read_table(part, columns=list(columns))
        for broker, topic, partition, *bounds in zip(*(rows[c].to_pylist() for c in columns), strict=True):
            if logs.leaders.get((topic, partition)) == broker:
                found[topic, partition].append(tuple(bounds))
    return found


def _times(bundle: Path) -> dict[Place, list[tuple[int, int]]]:
    found: dict[Place, list[tuple[int, int]]] = defaultdict(list)
    for part in sorted((bundle / "lookups").glob("*.parquet")):
        for row in pq.read_table(part, columns=["topic", "partition", "time_ms", "offset"]).to_pylist():
            if row["offset"] is not None and row["time_ms"] >= 0:
                found[row["topic"], row["partition"]].append((row["time_ms"], row["offset"]))
    return found
