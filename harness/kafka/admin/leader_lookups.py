"""Answers of leaders about partitions, beside their offsets: starts of epochs, offsets by time, sizes of logs.

For long processes: each function is one request to one broker, and a partition without an answer is absent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.wire import ANSWER_S, Call, call
from harness.model.place import Place

_CONSUMER: Final = -1
_NEWEST_LIST: Final = 9
_OLDEST_LIST: Final = 4  # the first with leader epochs


class EpochEnd(NamedTuple):
    """The newest epoch below the one asked for, and where the next one begins in the leader's log."""

    epoch: int
    next_start: int


def epochs_before(
    brokers: Brokers, leader: int, epochs: Mapping[Place, int], timeout_s: float = ANSWER_S
) -> dict[Place, EpochEnd]:
    """For each partition the newest epoch below its present one, the value (KIP-101). Absent if there is none."""
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = kind.OffsetForLeaderPartition
    topics = [
        kind(
            topic=name,
            partitions=[
                part(partition=p, current_leader_epoch=epochs[name, p], leader_epoch=epochs[name, p] - 1)
                for p in partitions
            ],
        )
        for name, partitions in _by_topic(place for place in epochs if epochs[place] > 0).items()
    ]
    if not topics:
        return {}
    answer = brokers.ask(leader, call(OffsetForLeaderEpochRequest, replica_id=_CONSUMER, topics=topics), timeout_s)
    return {
        (topic.topic, p.partition): EpochEnd(p.leader_epoch, p.end_offset)
        for topic in answer.topics
        for p in topic.partitions
        if p.error_code == 0 and p.leader_epoch >= 0 and p.end_offset >= 0
    }


def first_since(
    brokers: Brokers, leader: int, times_ms: Mapping[Place, tuple[int, int]], timeout_s: float = ANSWER_S
) -> dict[Place, int]:
    """The first offset with a timestamp at or after a time. times_ms: (leader epoch, time). Absent if there is none."""
    kind = ListOffsetsRequest.ListOffsetsTopic
    part = kind.ListOffsetsPartition

    def build(_: int) -> ApiMessage:
        topics = [
            kind(
                name=name,
                partitions=[
                    part(partition_index=p, current_leader_epoch=times_ms[name, p][0], timestamp=times_ms[name, p][1])
                    for p in partitions
                ],
            )
            for name, partitions in _by_topic(times_ms).items()
        ]
        return ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=0, topics=topics)

    answer = brokers.ask(leader, Call(ListOffsetsRequest, build, _NEWEST_LIST, _OLDEST_LIST), timeout_s)
    return {
        (topic.name, p.partition_index): p.offset
        for topic in answer.topics
        for p in topic.partitions
        if p.error_code == 0 and p.offset >= 0
    }


def log_sizes(brokers: Brokers, broker: int, places: Iterable[Place], timeout_s: float = ANSWER_S) -> dict[Place, int]:
    """The bytes of the replicas of a broker, without copies that are being moved. Needs DESCRIBE on the cluster."""
    kind = DescribeLogDirsRequest.DescribableLogDirTopic
    topics = [kind(topic=name, partitions=partitions) for name, partitions in _by_topic(places).items()]
    answer = brokers.ask(broker, call(DescribeLogDirsRequest, topics=topics), timeout_s)
    return {
        (topic.name, p.partition_index): p.partition_size
        for directory in answer.results
        if directory.error_code == 0
        for topic in directory.topics
        for p in topic.partitions
        if not p.is_future_key
    }


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        grouped[topic].append(partition)
    return grouped
