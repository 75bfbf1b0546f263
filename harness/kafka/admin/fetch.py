"""Fetches from a broker as raw bytes, without a client library, because those verify records and retry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.data_container import DataContainer

from harness.kafka.admin.wire import Call, Wire, call, error_name
from harness.kafka.storage.uuids import uuid_of

FETCH_S: Final = 5.0  # a read from the remote tier may take remote.fetch.max.wait.ms, half a second
_WAIT_MS: Final = 500
_NEWEST_FETCH: Final = 12  # later versions identify topics by their ids
_BY_ID: Final = 13  # the version that names topics by their ids: a broker never answers for another topic of the name
_CONSUMER: Final = -1


class Part(NamedTuple):
    """A partition to fetch from an offset. last_epoch: of the record before it, if the broker is to compare logs."""

    partition: int
    offset: int
    last_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Served:
    """error: the name of Kafka's error code, or None. records: batches; the first may begin before the offset.
    high_watermark: as the leader reports it; -1 with an error."""

    error: str | None
    records: bytes
    high_watermark: int = -1


def fetch(
    wire: Wire, broker: int, topic: str, partition: int, offset: int, max_bytes: int, min_bytes: int = 1
) -> Served:
    """The broker's answer to a consumer's fetch. Unanswered when there is no answer in time."""
    return served(wire.ask(broker, fetch_call(topic, partition, offset, max_bytes, min_bytes=min_bytes), FETCH_S))


def fetch_call(
    topic: str, partition: int, offset: int, max_bytes: int, wait_ms: int = _WAIT_MS, min_bytes: int = 1
) -> Call:
    """A consumer's fetch. wait_ms: how long the broker waits for so many bytes."""
    fetch_topic = FetchRequest.FetchTopic
    return call(
        FetchRequest,
        _NEWEST_FETCH,
        replica_id=_CONSUMER,
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[
            fetch_topic(
                topic=topic,
                partitions=[
                    fetch_topic.FetchPartition(
                        partition=partition,
                        current_leader_epoch=-1,
                        fetch_offset=offset,
                        last_fetched_epoch=-1,
                        log_start_offset=-1,
                        partition_max_bytes=max_bytes,
                    )
                ],
            )
        ],
        forgotten_topics_data=[],
        rack_id="",
    )


def fetch_by_id(
    topics: Mapping[str, Sequence[Part]], *, max_bytes: int, wait_ms: int = 0, min_bytes: int = 0, isolation: int = 0
) -> Call:
    """A consumer's fetch of partitions of topics by their ids, without a session."""
    topic = FetchRequest.FetchTopic

    def partition(part: Part) -> DataContainer:
        return topic.FetchPartition(
            partition=part.partition,
            current_leader_epoch=-1,
            fetch_offset=part.offset,
            last_fetched_epoch=part.last_epoch,
            log_start_offset=-1,
            partition_max_bytes=max_bytes,
        )

    def build(_: int) -> ApiMessage:
        return FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=0,
            session_epoch=-1,
            topics=[topic(topic_id=uuid_of(i), partitions=list(map(partition, parts))) for i, parts in topics.items()],
            forgotten_topics_data=[],
            rack_id="",
        )

    return Call(FetchRequest, build, _BY_ID, _BY_ID)


def served(answer: ApiMessage) -> Served:
    if error := error_name(answer.error_code):
        return Served(error, b"")
    part = answer.responses[0].partitions[0]
    return Served(error_name(part.error_code), bytes(part.records or b""), part.high_watermark)
