"""Fetches from one replica, leader or follower, as a consumer would; no replica selector of the cluster is needed.

A broker answers a fetch of version 11 or later from its own replica even if it does not lead the partition (KIP-392).
Clients ask a follower only where the leader has sent them to it. A request that goes to the follower at once is
answered just the same, up to the high watermark or the last stable offset that this follower knows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import IsolationLevel

from harness.kafka.admin.fetch import Part, fetch_by_id
from harness.kafka.admin.link import Link
from harness.kafka.admin.wire import error_name
from harness.kafka.storage.uuids import uuid_of
from harness.model.documents.record import Isolation
from harness.model.place import Place

MAX_BYTES: Final = 8 << 20
_WAIT_MS: Final = 100
_LEVELS: Final = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}


class Wanted(NamedTuple):
    """One partition to fetch from an offset."""

    place: Place
    topic_id: str
    offset: int


class Aborted(NamedTuple):
    """A transaction that was aborted: its records from this offset to its marker are not to be given to readers."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """A broker's answer about its replica of a partition. error: Kafka's name, or None. batches: the first may begin
    before the offset, and the last may be cut off. log_start: -1 = the broker does not say it."""

    error: str | None
    batches: bytes
    log_start: int = -1
    aborted: tuple[Aborted, ...] = ()


def fetch_replicas(
    link: Link, wanted: Sequence[Wanted], isolation: Isolation, timeout_s: float
) -> dict[Place, Fetched]:
    """The broker's answers. Unanswered when there is none in time."""
    names = {uuid_of(one.topic_id): one.place[0] for one in wanted}
    parts: dict[str, list[Part]] = defaultdict(list)
    for one in wanted:
        parts[one.topic_id].append(Part(one.place[1], one.offset))
    level = int(_LEVELS[isolation])
    answer = link.ask(
        fetch_by_id(parts, max_bytes=MAX_BYTES, wait_ms=_WAIT_MS, min_bytes=1, isolation=level), timeout_s
    )
    if error := error_name(answer.error_code):
        return {one.place: Fetched(error, b"") for one in wanted}
    return {
        (names[topic.topic_id], part.partition_index): _fetched(part)
        for topic in answer.responses
        if topic.topic_id in names
        for part in topic.partitions
    }


def _fetched(part: ApiMessage) -> Fetched:
    return Fetched(
        error=error_name(part.error_code),
        batches=bytes(part.records or b""),
        log_start=part.log_start_offset,
        aborted=tuple(Aborted(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()),
    )
