"""The metadata that each broker serves, from scripted answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from harness.kafka.admin.broker_views import broker_views
from harness.kafka.storage.uuids import kafka_uuid, uuid_of

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
OWN, OF_BROKER, OF_ALL, BUILT_IN, UNKNOWN_TOPIC = 1, 2, 3, 5, 3
TOPIC, BROKER, PAGES = 2, 4, 75


class Brokers:
    """Broker 1 answers, and broker 2 does not."""

    brokers = (1, 2)

    def __init__(self, *, describes: bool = True) -> None:
        self.describes = describes

    def gather(self, questions: dict[int, Any], timeout_s: float) -> dict[int, list[Any]]:
        assert {*questions} == {1, 2}
        return {1: [self._answer(question) for question in questions[1]]}

    def _answer(self, question: Any) -> Any:
        if question.kind is ApiVersionsRequest:
            feature = SimpleNamespace(name="transaction.version", max_version_level=2)
            keys = [SimpleNamespace(api_key=PAGES)] if self.describes else []
            return SimpleNamespace(finalized_features_epoch=42, finalized_features=[feature], api_keys=keys)
        if question.kind is MetadataRequest:
            names = [topic.name for topic in question.build(12).topics]
            return SimpleNamespace(topics=[_topic(name) for name in names])
        return SimpleNamespace(
            results=[_settings(of.resource_type, of.resource_name) for of in question.build(4).resources]
        )

    def ask(self, broker: int, question: Any, timeout_s: float) -> Any:
        """One partition in each page; the second one of the topic comes with the second page."""
        asked = question.build(0)
        first = asked.cursor is None
        topics = [_topic(topic.name, 0 if first else 1) for topic in asked.topics]
        for topic in topics:
            topic.partitions[0].eligible_leader_replicas = [1]
            topic.partitions[0].last_known_elr = []
        after = SimpleNamespace(topic_name="t", partition_index=1) if first else None
        return SimpleNamespace(topics=topics, next_cursor=after)


def _topic(name: str, index: int = 0) -> Any:
    partition = SimpleNamespace(
        partition_index=index, leader_id=2, leader_epoch=5, isr_nodes=[2, 3], replica_nodes=[1, 2, 3]
    )
    error = UNKNOWN_TOPIC if name == "gone" else 0
    return SimpleNamespace(name=name, error_code=error, topic_id=uuid_of(ID), partitions=[partition])


def _settings(sort: int, name: str) -> Any:
    sources = {OWN: "7", BUILT_IN: "8"} if sort == TOPIC else {OF_BROKER: "9", OF_ALL: "10", BUILT_IN: "11"}
    configs = [SimpleNamespace(name=f"of.{source}", value=v, config_source=source) for source, v in sources.items()]
    error = UNKNOWN_TOPIC if name == "gone" else 0
    return SimpleNamespace(resource_type=sort, resource_name=name, error_code=error, configs=configs)


def test_each_broker_that_answers_has_a_view() -> None:
    (view,) = broker_views(cast(Any, Brokers()), ["t", "gone"], 1.0)
    assert (view.broker, view.metadata_offset, view.settings) == (1, 42, {"t": {"of.1": "7"}})
    assert view.asked_ns <= view.at_ns
    (row,) = view.partitions
    assert (row.place, row.leader, row.leader_epoch) == (("t", kafka_uuid(uuid_of(ID)), 0), 2, 5)
    assert (row.isr, row.replicas) == ((2, 3), (1, 2, 3))


def test_a_view_has_all_pages_with_the_elr_and_the_dynamic_settings_and_the_features() -> None:
    (view,) = broker_views(cast(Any, Brokers()), ["t"], 1.0)
    assert [(row.partition, row.elr, row.last_known_elr) for row in view.described or ()] == [
        (0, (1,), ()),
        (1, (1,), ()),
    ]
    assert view.dynamic == {"": {"of.3": "10"}, "1": {"of.2": "9"}}
    assert view.features == {"transaction.version": 2}


def test_of_a_release_without_pages_none_is_asked_for() -> None:
    (view,) = broker_views(cast(Any, Brokers(describes=False)), ["t"], 1.0)
    assert view.described is None


def test_nothing_is_asked_about_no_topic() -> None:
    assert broker_views(cast(Any, None), [], 1.0) == []
