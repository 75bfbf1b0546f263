"""The metadata that each broker serves, from scripted answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from harness.kafka.admin.broker_views import broker_views
from harness.kafka.storage.uuids import kafka_uuid, uuid_of

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
OWN, OF_BROKER, UNKNOWN_TOPIC = 1, 5, 3


class Brokers:
    """Broker 1 answers, and broker 2 does not."""

    brokers = (1, 2)

    def gather(self, questions: dict[int, Any], timeout_s: float) -> dict[int, list[Any]]:
        assert {*questions} == {1, 2}
        return {1: [self._answer(question) for question in questions[1]]}

    def _answer(self, question: Any) -> Any:
        if question.kind is ApiVersionsRequest:
            return SimpleNamespace(finalized_features_epoch=42)
        if question.kind is MetadataRequest:
            names = [topic.name for topic in question.build(12).topics]
            return SimpleNamespace(topics=[_topic(name) for name in names])
        return SimpleNamespace(results=[_settings(of.resource_name) for of in question.build(4).resources])


def _topic(name: str) -> Any:
    partition = SimpleNamespace(
        partition_index=0, leader_id=2, leader_epoch=5, isr_nodes=[2, 3], replica_nodes=[1, 2, 3]
    )
    error = UNKNOWN_TOPIC if name == "gone" else 0
    return SimpleNamespace(name=name, error_code=error, topic_id=uuid_of(ID), partitions=[partition])


def _settings(name: str) -> Any:
    configs = [
        SimpleNamespace(name="retention.ms", value="7", config_source=OWN),
        SimpleNamespace(name="flush.ms", value="8", config_source=OF_BROKER),
    ]
    return SimpleNamespace(resource_name=name, error_code=UNKNOWN_TOPIC if name == "gone" else 0, configs=configs)


def test_each_broker_that_answers_has_a_view() -> None:
    (view,) = broker_views(cast(Any, Brokers()), ["t", "gone"], 1.0)
    assert (view.broker, view.metadata_offset, view.settings) == (1, 42, {"t": {"retention.ms": "7"}})
    assert view.asked_ns <= view.at_ns
    (row,) = view.partitions
    assert (row.place, row.leader, row.leader_epoch) == (("t", kafka_uuid(uuid_of(ID)), 0), 2, 5)
    assert (row.isr, row.replicas) == ((2, 3), (1, 2, 3))


def test_nothing_is_asked_about_no_topic() -> None:
    assert broker_views(cast(Any, None), [], 1.0) == []
