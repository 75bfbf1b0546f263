"""How much of a log the remote tier keeps (KIP-405), as retention by size counts it: each offset once.

Brokers count the whole log: the local part, and the remote segments of the log's leader epochs. Copies that were not
finished do not count (KAFKA-17062 is about a release that counted them), nor do second copies of the same offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.verify.checks.tier.state import Lineage, Partition, Segment, agreed, last_look, lineage_of


@dataclass(frozen=True, slots=True, order=True)
class Kept:
    """The log from its start on: bytes, records, and the offset `end` from which on only brokers have it."""

    size_bytes: int = 0
    records: int = 0
    end: int = 0


def kept_in_tier(partition: Partition, start: int, until_ms: int | None = None) -> Kept | None:
    """For the replica with the lineage that agrees with most of the tier, because the most complete one shows how much
    there was to keep.

    until_ms: count only segments without newer records. None when no finished copy is known.
    """
    if not any(segment.finished_ms for segment in partition.segments.values()):
        return None
    copied = [segment for segment in partition.segments.values() if segment.copied and segment.within(until_ms)]
    lineages = {lineage_of(row.epochs) for row in last_look(partition.replicas)}
    return max((_kept(copied, lineage, start) for lineage in lineages), default=Kept())


def ever_copied(partition: Partition, low: int, high: int) -> str:
    """Whether the offsets `low` to `high` were in the remote tier, as a sentence; empty when no copy is known."""
    finished = [s for s in partition.segments.values() if s.finished_ms is not None and s.base_offset is not None]
    if not finished:
        return ""
    at, had = low, 0
    for base, end in sorted((s.base_offset or 0, s.end_offset or 0) for s in finished):
        if end >= at and base <= high:
            had += min(end, high) - max(base, at) + 1
            at = end + 1
    never = high - low + 1 - had
    missing = f"the remote tier's metadata has no finished copy of {never} of these offsets"
    return missing if never else "all of them had been in the remote tier"


def _kept(copied: list[Segment], lineage: Lineage, start: int) -> Kept:
    size, records, at = 0.0, 0, start
    for low, high, bytes_each in sorted(_pieces(copied, lineage)):
        if high > at:
            fresh = high - max(low, at)
            size, records, at = size + fresh * bytes_each, records + fresh, high
    return Kept(size_bytes=round(size), records=records, end=at if records else 0)


def _pieces(copied: list[Segment], lineage: Lineage) -> Iterator[tuple[int, int, float]]:
    """Offset ranges with the bytes for each record, as an average over the segment."""
    for segment in copied:
        for low, high in agreed(segment, lineage):
            base, end = segment.base_offset or 0, segment.end_offset or 0
            yield low, high, (segment.size_bytes or 0) / (end - base + 1)
