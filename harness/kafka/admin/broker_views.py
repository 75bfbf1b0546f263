"""The metadata that each broker serves to clients: partitions, settings and features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.operations import BROKER, TOPIC
from harness.kafka.admin.partition_pages import eligible, gives_pages, partition_pages
from harness.kafka.admin.wire import (
    Call,
    Unanswered,
    Wire,
    call,
    error_name,
    finalized_levels,
    metadata_call,
    metadata_offset,
    versions_call,
)
from harness.kafka.storage.uuids import kafka_uuid
from harness.model.clock import now_ns
from harness.model.documents.cluster import BrokerView, ServedPartition, Settings

# ConfigEntry.ConfigSource
_OF_A_TOPIC: Final = 1
_OF_A_BROKER: Final = 2
_OF_ALL_BROKERS: Final = 3

_ALL_BROKERS: Final = ""
_PAGES: Final = 10  # so many, unless a page would have fewer partitions than this:
_LEAST: Final = 2


def broker_views(wire: Wire, topics: Sequence[str], timeout_s: float) -> list[BrokerView]:
    """One for each broker that answers. The offset of its metadata is asked first, so that the rest is not older."""
    if not topics:
        return []
    asked_ns = now_ns()
    questions = {broker: (versions_call(), metadata_call(topics), _settings(topics, broker)) for broker in wire.brokers}
    views = []
    for broker, (versions, metadata, settings) in sorted(wire.gather(questions, timeout_s).items()):
        partitions = tuple(_partitions(metadata))
        pages = _described(wire, broker, topics, len(partitions), timeout_s) if gives_pages(versions) else None
        views.append(
            BrokerView(
                broker=broker,
                asked_ns=asked_ns,
                at_ns=now_ns(),
                metadata_offset=metadata_offset(versions),
                partitions=partitions,
                settings=_of(settings, TOPIC, _OF_A_TOPIC),
                described=pages,
                dynamic=_dynamic(settings, broker),
                features=finalized_levels(versions),
            )
        )
    return views


def metadata_offsets(wire: Wire) -> dict[int, int]:
    """By broker that answers, the offset up to which it has applied the metadata log."""
    return {broker: metadata_offset(answer) for broker, answer in wire.ask_all(versions_call()).items()}


def _described(
    wire: Wire, broker: int, topics: Sequence[str], partitions: int, timeout_s: float
) -> tuple[ServedPartition, ...] | None:
    """None if the broker does not answer."""
    ask = partial(wire.ask, broker, timeout_s=timeout_s)
    with suppress(Unanswered):
        pages = partition_pages(ask, topics, max(_LEAST, partitions // _PAGES))
        return tuple(row for page in pages for row in _partitions(page))
    return None


def _dynamic(settings: ApiMessage, broker: int) -> dict[str, Settings] | None:
    """None if the broker refuses to name them."""
    own = _of(settings, BROKER, _OF_A_BROKER).get(str(broker))
    of_all = _of(settings, BROKER, _OF_ALL_BROKERS).get(_ALL_BROKERS)
    return None if own is None or of_all is None else {_ALL_BROKERS: of_all, str(broker): own}


def _settings(topics: Sequence[str], broker: int) -> Call:
    kind = DescribeConfigsRequest.DescribeConfigsResource
    of = [*((TOPIC, name) for name in topics), (BROKER, _ALL_BROKERS), (BROKER, str(broker))]
    return call(
        DescribeConfigsRequest,
        resources=[kind(resource_type=sort, resource_name=name, configuration_keys=None) for sort, name in of],
        include_synonyms=False,
        include_documentation=False,
    )


def _of(answer: ApiMessage, sort: int, source: int) -> dict[str, Settings]:
    """By resource of this sort, its settings that come from this source."""
    return {
        result.resource_name: {c.name: c.value for c in result.configs if c.config_source == source}
        for result in answer.results
        if result.resource_type == sort and error_name(result.error_code) is None
    }


def _partitions(answer: ApiMessage) -> Iterator[ServedPartition]:
    for topic in answer.topics:
        if error_name(topic.error_code) is None:
            for p in topic.partitions:
                elr, last_known = eligible(p)
                yield ServedPartition(
                    topic=topic.name,
                    topic_id=kafka_uuid(topic.topic_id),
                    partition=p.partition_index,
                    leader=p.leader_id,
                    leader_epoch=p.leader_epoch,
                    isr=tuple(p.isr_nodes),
                    replicas=tuple(p.replica_nodes),
                    elr=elr,
                    last_known_elr=last_known,
                )
