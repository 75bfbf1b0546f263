"""What the remote tier keeps of a log (KIP-405), as retention by size counts it: each offset once.

Brokers count the whole log: what only they have, and what the tier has of the log's leader epochs. A copy that was not
finished is no part of it (KAFKA-17062 is a release that counted such), nor is a second one of the same offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.verify.checks.tier_state import Lineage, Partition, Segment, agreed, last_look, lineage_of


@dataclass(frozen=True, slots=True, order=True)
class Kept:
    """Of the log from its start on: bytes, records, and the offset `end`, from where on brokers alone have it."""

    size_bytes: int = 0
    records: int = 0
    end: int = 0


def kept_in_tier(partition: Partition, start: int, until_ms: int | None = None) -> Kept | None:
    """Of the replica whose lineage agrees with most of it: the most complete one tells what there was to keep.

    until_ms: of segments all of whose records are of that time or older. None where nothing tells of a finished copy.
    """
    if not any(segment.finished_ms for segment in partition.segments.values()):
        return None
    copied = [segment for segment in partition.segments.values() if segment.copied and segment.within(until_ms)]
    lineages = {lineage_of(row["epochs"]) for row in last_look(partition.replicas)}
    return max((_kept(copied, lineage, start) for lineage in lineages), default=Kept())


def ever_copied(partition: Partition, low: int, high: int) -> str:
    """What became of the offsets from `low` to `high` in the tier, as words; empty where nothing tells of a copy."""
    finished = [s for s in partition.segments.values() if s.finished_ms is not None and s.base_offset is not None]
    if not finished:
        return ""
    at, had = low, 0
    for base, end in sorted((s.base_offset or 0, s.end_offset or 0) for s in finished):
        if end >= at and base <= high:
            had += min(end, high) - max(base, at) + 1
            at = end + 1
    never = high - low + 1 - had
    orphaned = f"no metadata of the remote tier tells of a finished copy of {never} of these offsets"
    return orphaned if never else "all had been in the remote tier"


def _kept(copied: list[Segment], lineage: Lineage, start: int) -> Kept:
    size, records, at = 0.0, 0, start
    for low, high, bytes_each in sorted(_pieces(copied, lineage)):
        if high > at:
            fresh = high - max(low, at)
            size, records, at = size + fresh * bytes_each, records + fresh, high
    return Kept(size_bytes=round(size), records=records, end=at if records else 0)


def _pieces(copied: list[Segment], lineage: Lineage) -> Iterator[tuple[int, int, float]]:
    """With the bytes of a record, which segments tell of the whole alone."""
    for segment in copied:
        for low, high in agreed(segment, lineage):
            base, end = segment.base_offset or 0, segment.end_offset or 0
            yield low, high, (segment.size_bytes or 0) / (end - base + 1)
