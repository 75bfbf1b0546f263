"""The state of partitions as brokers report it, where no metadata log can be read. It lags behind the log.

DescribeTopicPartitions (KIP-966, from 3.8 on) gives it in pages, so that a large cluster is never in memory as a whole.
Brokers before that send all of it in one answer, and know no ELR.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.partition_pages import eligible, partition_page, partition_pages
from harness.kafka.admin.quorum_state import Quorum, quorum_of, quorum_question, quorum_refusal
from harness.kafka.admin.wire import ANSWER_S, Unanswered, error_name, metadata_call
from harness.kafka.storage.uuids import kafka_uuid

PAGE: Final = 1000  # partitions; brokers allow 2000 by default (max.request.partition.size.limit)
_METADATA_S: Final = 10.0  # an answer about all topics


class PartitionSeen(NamedTuple):
    """One partition in a broker's metadata. leader -1 = none. elr and last_known_elr: None = the broker has no ELR.

    error: Kafka's name, for example LEADER_NOT_AVAILABLE; the other fields count nevertheless.
    """

    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None
    replicas: tuple[int, ...]
    offline: tuple[int, ...]
    error: str | None


def partition_states(
    brokers: Brokers, broker: int, topics: Sequence[str] = (), timeout_s: float = ANSWER_S
) -> Iterator[PartitionSeen]:
    """Every partition of these topics, or of all that this client may describe, as one broker knows them.

    A broker that is cut off reports old states, so ask several in turn: the highest leader epoch of a topic id counts.
    timeout_s: for each page. Unanswered, at any row, when the broker does not answer.
    """
    link = brokers.link(broker)
    if not link.supports(partition_page(), timeout_s):
        yield from _rows(link.ask(metadata_call(topics or None), max(timeout_s, _METADATA_S)))
        return
    for answer in partition_pages(lambda page: link.ask(page, timeout_s), topics, PAGE):
        yield from _rows(answer)


def quorum_seen(brokers: Brokers, timeout_s: float = ANSWER_S) -> Quorum:
    """The controllers' quorum, by way of any broker. Unanswered when there is no leader, or no answer."""
    answer = brokers.ask_any(quorum_question(), timeout_s)
    if (refusal := quorum_refusal(answer)) is not None:
        raise Unanswered(f"the controllers' quorum: {refusal}")
    return quorum_of(answer)


def _rows(answer: ApiMessage) -> Iterator[PartitionSeen]:
    for topic in answer.topics:
        topic_id = kafka_uuid(topic.topic_id) if isinstance(topic.topic_id, uuid.UUID) else ""
        for p in topic.partitions:
            yield PartitionSeen(
                topic.name,
                topic_id,
                p.partition_index,
                p.leader_id,
                p.leader_epoch,
                tuple(p.isr_nodes),
                *eligible(p),
                tuple(p.replica_nodes),
                tuple(p.offline_replicas),
                error_name(p.error_code),
            )
