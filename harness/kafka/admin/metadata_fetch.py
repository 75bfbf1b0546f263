"""Fetches of the metadata log and of its snapshots from a controller (KIP-595, KIP-630), as a reader without an id.

Only the active controller answers with records. The leader epoch in the request must be exact; other answers name the
leader and its epoch. Records come before they are committed, with the high watermark beside them. The replica id -1
leaves no trace in the quorum. A broker's listener answers UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.data_container import DataContainer

from harness.kafka.admin.link import Address
from harness.kafka.admin.wire import Call, call, error_name
from harness.kafka.messages import FetchSnapshotRequest

_TOPIC: Final = "__cluster_metadata"
_TOPIC_ID: Final = uuid.UUID(int=1)
_OLDEST: Final = 13  # with topic ids
_NEWEST: Final = 17  # the next one adds the high watermark of a replica, which this reader is not
_REPLICA_ID_UNTIL: Final = 14  # later versions have another field, with -1 by default


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader that an answer names. node -1: there is none. address None: the answer has none."""

    node: int
    epoch: int
    address: Address | None


@dataclass(frozen=True, slots=True)
class SnapshotId:
    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """A controller's answer to a fetch. `error` is Kafka's name; the other fields count only without one.

    snapshot: the offset is not in the log, and a snapshot has the records before it. diverges_at: the records from
    there on, below the requested offset, are others than those of the requester. log_start: the first offset that the
    log has.
    """

    error: str | None
    leader: Leader
    high_watermark: int
    log_start: int
    records: bytes
    snapshot: SnapshotId | None
    diverges_at: int | None


@dataclass(frozen=True, slots=True)
class SnapshotPiece:
    """A piece of a snapshot, and the size of the whole file."""

    error: str | None
    leader: Leader
    size_bytes: int
    data: bytes


def fetch_call(leader_epoch: int, offset: int, last_epoch: int, wait_ms: int, max_bytes: int) -> Call:
    """Asks for the records from an offset on. last_epoch: of the record before it; 0 at offset 0.

    Kafka refuses epochs below 0 here, and a last epoch above the leader's.
    """
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=-1,
        partition_max_bytes=max_bytes,
    )

    def build(version: int) -> ApiMessage:
        old = {"replica_id": -1} if version <= _REPLICA_ID_UNTIL else {}
        return FetchRequest(
            **old,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[topic(topic_id=_TOPIC_ID, partitions=[partition])],
            forgotten_topics_data=[],
            rack_id="",
        )

    return Call(FetchRequest, build, _NEWEST, _OLDEST)


def snapshot_call(leader_epoch: int, snapshot: SnapshotId, position: int, max_bytes: int) -> Call:
    topic = FetchSnapshotRequest.TopicSnapshot
    part = topic.PartitionSnapshot
    identity = part.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    partition = part(partition=0, current_leader_epoch=leader_epoch, snapshot_id=identity, position=position)
    return call(
        FetchSnapshotRequest,
        replica_id=-1,
        max_bytes=max_bytes,
        topics=[topic(name=_TOPIC, partitions=[partition])],
    )


def fetched(answer: ApiMessage) -> Fetched:
    if not answer.responses or not answer.responses[0].partitions:
        return Fetched(_error(answer), _NOBODY, -1, -1, b"", None, None)
    part = answer.responses[0].partitions[0]
    known = part.snapshot_id.end_offset >= 0 if part.snapshot_id else False
    diverges = part.diverging_epoch is not None and part.diverging_epoch.epoch >= 0
    return Fetched(
        error=error_name(answer.error_code) or error_name(part.error_code),
        leader=_leader(part, answer),
        high_watermark=part.high_watermark,
        log_start=part.log_start_offset,
        records=part.records or b"",
        snapshot=SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch) if known else None,
        diverges_at=part.diverging_epoch.end_offset if diverges else None,
    )


def piece_of(answer: ApiMessage) -> SnapshotPiece:
    if not answer.topics or not answer.topics[0].partitions:
        return SnapshotPiece(_error(answer), _NOBODY, 0, b"")
    part = answer.topics[0].partitions[0]
    error = error_name(answer.error_code) or error_name(part.error_code)
    return SnapshotPiece(error, _leader(part, answer), part.size, part.bytes or b"")


_NOBODY: Final = Leader(-1, -1, None)


def _error(answer: ApiMessage) -> str:
    return error_name(answer.error_code) or "an answer without the partition"


def _leader(part: DataContainer, answer: ApiMessage) -> Leader:
    named = part.current_leader
    if named is None:
        return _NOBODY
    addresses: Mapping[int, Address] = {node.node_id: (node.host, node.port) for node in answer.node_endpoints or ()}
    return Leader(named.leader_id, named.leader_epoch, addresses.get(named.leader_id))
