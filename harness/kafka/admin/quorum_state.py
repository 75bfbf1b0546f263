"""What the controllers' quorum reports of itself (DescribeQuorum, KIP-595): the request, and its answer.

Brokers forward the request to the active controller. A controller that does not lead refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.wire import Call, call, error_name
from harness.kafka.storage.uuids import kafka_uuid


@dataclass(frozen=True, slots=True)
class Quorum:
    """The metadata quorum. Log ends by node id; observers are the brokers (and controllers that do not vote)."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: dict[int, int]
    observers: dict[int, int]
    directories: dict[int, str] = field(
        default_factory=dict
    )  # KIP-853 identifies voters by them; static voters have none


def quorum_question() -> Call:
    topic = DescribeQuorumRequest.TopicData
    asked = topic(topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)])
    return call(DescribeQuorumRequest, topics=[asked])


def quorum_refusal(answer: ApiMessage) -> str | None:
    """Why an answer describes no quorum; None if it does."""
    if error := error_name(answer.error_code):
        return error
    part = answer.topics[0].partitions[0]
    return error_name(part.error_code) or (None if part.leader_id >= 0 else "no leader")


def quorum_of(answer: ApiMessage) -> Quorum:
    part = answer.topics[0].partitions[0]
    return Quorum(
        part.leader_id,
        part.leader_epoch,
        part.high_watermark,
        {voter.replica_id: voter.log_end_offset for voter in part.current_voters},
        {observer.replica_id: observer.log_end_offset for observer in part.observers},
        {v.replica_id: kafka_uuid(v.replica_directory_id) for v in part.current_voters if v.replica_directory_id},
    )
