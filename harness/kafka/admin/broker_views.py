"""The metadata of topics that each broker serves to clients: partitions, and settings of the topics themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataRequest

from harness.kafka.admin.operations import TOPIC
from harness.kafka.admin.wire import Call, Wire, call, error_name, metadata_offset, versions_call
from harness.kafka.storage.uuids import kafka_uuid
from harness.model.clock import now_ns
from harness.model.documents.cluster import BrokerView, ServedPartition

_OF_A_TOPIC: Final = 1  # ConfigEntry.ConfigSource: set on the topic itself


def broker_views(wire: Wire, topics: Sequence[str], timeout_s: float) -> list[BrokerView]:
    """One for each broker that answers. The offset of its metadata is asked first, so that the rest is not older."""
    if not topics:
        return []
    asked_ns = now_ns()
    answers = wire.gather(
        dict.fromkeys(wire.brokers, (versions_call(), _metadata(topics), _settings(topics))), timeout_s
    )
    at_ns = now_ns()
    return [
        BrokerView(
            broker=broker,
            asked_ns=asked_ns,
            at_ns=at_ns,
            metadata_offset=metadata_offset(versions),
            partitions=tuple(_partitions(metadata)),
            settings={
                result.resource_name: {c.name: c.value for c in result.configs if c.config_source == _OF_A_TOPIC}
                for result in settings.results
                if error_name(result.error_code) is None
            },
        )
        for broker, (versions, metadata, settings) in sorted(answers.items())
    ]


def _metadata(names: Sequence[str]) -> Call:
    topic = MetadataRequest.MetadataRequestTopic
    return Call(
        MetadataRequest,
        lambda _: MetadataRequest(topics=[topic(name=n) for n in names], allow_auto_topic_creation=False),
    )


def _settings(topics: Sequence[str]) -> Call:
    kind = DescribeConfigsRequest.DescribeConfigsResource
    return call(
        DescribeConfigsRequest,
        resources=[kind(resource_type=TOPIC, resource_name=name, configuration_keys=None) for name in topics],
        include_synonyms=False,
        include_documentation=False,
    )


def _partitions(answer: ApiMessage) -> Iterator[ServedPartition]:
    for topic in answer.topics:
        if error_name(topic.error_code) is None:
            for p in topic.partitions:
                yield ServedPartition(
                    topic=topic.name,
                    topic_id=kafka_uuid(topic.topic_id),
                    partition=p.partition_index,
                    leader=p.leader_id,
                    leader_epoch=p.leader_epoch,
                    isr=tuple(p.isr_nodes),
                    replicas=tuple(p.replica_nodes),
                )
