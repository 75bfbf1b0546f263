"""Whether every replica of a compacted partition compacts its closed segments.

A cleaner takes the log with the largest share of segments that it has not compacted, if that is above
min.cleanable.dirty.ratio, and compacts all of its closed segments below the last stable offset. It looks again after
log.cleaner.backoff.ms. Without load, nothing is left to do within moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Final

from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView
from harness.kafka.storage.log_directory import (
    DamagedFile,
    PartitionDirectory,
    cleaned_end,
    partition_directories,
    segments,
)
from harness.model.documents.run import CleanerLag, CleanersAtRest
from harness.model.waiting import settled
from harness.run.stalls import Stalls

DEADLINE_S: Final = 45.0
_COMPACT: Final = "compact"

Replica = tuple[str, int, int]  # topic, partition, broker


@dataclass(frozen=True, slots=True)
class _Lag:
    """See CleanerLag. Further closed segments are no progress."""

    topic_id: str
    cleaned_end: int
    closed_end: int = field(compare=False)


def cleaners_at_rest(cluster: Cluster, admin: AdminView, topics: Sequence[str]) -> CleanersAtRest | None:
    """Waits until the cleaners have nothing left to do. None without a topic that they must compact at once."""
    ratios = {name: _ratio(config) for name, config in admin.topic_configs(topics).items() if _at_once(config)}
    if not ratios:
        return None
    stalls: Stalls[Replica, _Lag] = Stalls()

    def pending() -> str:
        behind = dict(_behind(cluster, admin, ratios))
        stalls.look(behind)
        return "; ".join(_sentence(replica, lag) for replica, lag in sorted(behind.items()))

    waited = settled(pending, what="compaction to come to rest", deadline_s=DEADLINE_S)
    behind = tuple(
        CleanerLag(
            topic=one.of[0],
            topic_id=one.seen.topic_id,
            partition=one.of[1],
            broker=one.of[2],
            cleaned_end=one.seen.cleaned_end,
            closed_end=one.seen.closed_end,
            still_s=one.still_s,
        )
        for one in sorted(() if waited.ok else stalls.stalled(DEADLINE_S), key=attrgetter("of"))
    )
    return CleanersAtRest(ok=waited.ok, waited_s=waited.waited_s, last_seen=waited.last_seen, behind=behind)


def _at_once(config: Mapping[str, str]) -> bool:
    """Whether closed segments are compacted as soon as a cleaner sees them."""
    return _COMPACT in config.get("cleanup.policy", "") and config.get("min.compaction.lag.ms", "0") == "0"


def _ratio(config: Mapping[str, str]) -> float:
    return float(config.get("min.cleanable.dirty.ratio", "0.5"))


def _behind(cluster: Cluster, admin: AdminView, ratios: Mapping[str, float]) -> Iterator[tuple[Replica, _Lag]]:
    """The replicas with segments that a cleaner has to compact."""
    for state in admin.partitions(list(ratios)):
        for broker in set(state.replicas) & set(cluster.brokers):
            for directory in cluster.log_directories(broker):
                found = partition_directories([directory], [state.topic])
                replica = next((one for one in found if one.partition == state.partition), None)
                # A cleaner, or the end of a move, may rename files at any moment.
                with suppress(FileNotFoundError, DamagedFile):
                    if replica and (lag := _lag(directory, replica, state.topic_id, ratios[state.topic])):
                        yield (state.topic, state.partition, broker), lag


def _lag(directory: Path, replica: PartitionDirectory, topic_id: str, ratio: float) -> _Lag | None:
    sizes = {segment.base_offset: segment.path.stat().st_size for segment in segments(replica.path)}
    if not sizes:
        return None
    active, start = max(sizes), min(sizes)
    done = max(start, cleaned_end([directory], (replica.topic, replica.partition)))
    closed = {base: size for base, size in sizes.items() if base != active}
    dirty = sum(size for base, size in closed.items() if base >= done)
    return _Lag(topic_id, done, active) if dirty and dirty / sum(closed.values()) > ratio else None


def _sentence(replica: Replica, lag: _Lag) -> str:
    topic, partition, broker = replica
    return f"{topic}-{partition} of broker {broker} is compacted up to {lag.cleaned_end} of {lag.closed_end}"
