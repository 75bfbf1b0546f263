"""Offsets of a broker's replicas, from scripted answers: what is left out, and what a release does not report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from harness.kafka.admin.positions import Position, Replica, SampledTopic, positions
from harness.kafka.admin.wire import Call
from harness.kafka.storage.uuids import kafka_uuid, uuid_of

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
FAR_ID = "AAAAAAAAAAAAAAAAAAAAAg"
TOPIC = SampledTopic("t", ID, 2, tiered=False)
FAR = SampledTopic("far", FAR_ID, 1, tiered=True)
OUT_OF_RANGE, NOT_A_REPLICA, UNKNOWN_ID = 1, 6, 100


class Broker:
    """Answers as a connection does. errors: of fetches, by topic and partition; no_end: replicas without a log end."""

    def __init__(self, newest: int = 11, **errors: int) -> None:
        self.newest = newest
        self.errors = errors
        self.no_end: set[str] = set()
        self.asked: list[str] = []
        self.offsets = {-1: 90, -4: 40, -5: 39}

    def ask(self, question: Call, give_up_at: float) -> Any:
        if question.kind is FetchRequest:
            assert question.oldest == 13, "earlier versions have no topic ids"
            return self._fetched(question.build(question.newest))
        return self._listed(question.build(min(question.newest, self.newest)))

    def _fetched(self, request: Any) -> Any:
        self.asked.append("fetch")
        request.API_VERSION = 13
        request.with_header(correlation_id=1, client_id="c")
        assert request.encode(header=True, framed=True)
        names = {ID: "t", FAR_ID: "far"}
        return SimpleNamespace(
            responses=[
                SimpleNamespace(
                    topic_id=topic.topic_id,
                    partitions=[self._marks(names[kafka_uuid(topic.topic_id)], p.partition) for p in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _marks(self, topic: str, partition: int) -> Any:
        error = self.errors.get(f"{topic}_{partition}", 0)
        log_start, high, stable = (-1, -1, -1) if error else (10, 80, 70)
        return SimpleNamespace(
            partition_index=partition,
            error_code=error,
            log_start_offset=log_start,
            high_watermark=high,
            last_stable_offset=stable,
        )

    def _listed(self, request: Any) -> Any:
        assert request.replica_id == -2, "else a follower does not answer"
        (special,) = {p.timestamp for topic in request.topics for p in topic.partitions}
        self.asked.append(str(special))
        return SimpleNamespace(
            topics=[
                SimpleNamespace(
                    name=topic.name,
                    partitions=[self._offset(topic.name, p.partition_index, special) for p in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _offset(self, topic: str, partition: int, special: int) -> Any:
        error = NOT_A_REPLICA if f"{topic}_{partition}" in self.no_end else 0
        epoch = 3 if special == -1 else -1
        return SimpleNamespace(
            partition_index=partition, error_code=error, offset=self.offsets[special], leader_epoch=epoch
        )


def replicas(broker: Any, *topics: SampledTopic) -> dict[tuple[str, int], Position]:
    found = positions(broker, topics, 0.0)
    assert {replica.topic_id for replica in found} <= {ID, FAR_ID}
    return {(replica.topic, replica.partition): position for replica, position in found.items()}


PLAIN = Position(log_start=10, high_watermark=80, last_stable_offset=70, leader_epoch=3, log_end=90)


def test_a_broker_reports_all_offsets_of_its_replicas_in_two_requests() -> None:
    broker = Broker()
    assert positions(broker, [TOPIC], 0.0) == {Replica("t", ID, 0): PLAIN, Replica("t", ID, 1): PLAIN}  # type: ignore[arg-type]
    assert broker.asked == ["fetch", "-1"]


@pytest.mark.parametrize("error", [NOT_A_REPLICA, UNKNOWN_ID])
def test_what_a_broker_does_not_have_is_left_out(error: int) -> None:
    assert replicas(Broker(t_1=error), TOPIC) == {("t", 0): PLAIN}
    gone = Broker(t_0=error, t_1=error)
    assert replicas(gone, TOPIC) == {}
    assert gone.asked == ["fetch"]


def test_a_replica_that_is_removed_between_the_requests_is_left_out() -> None:
    broker = Broker()
    broker.no_end.add("t_0")
    assert replicas(broker, TOPIC) == {("t", 1): PLAIN}


def test_an_empty_log_has_an_end_and_no_other_known_offset() -> None:
    broker = Broker(t_1=OUT_OF_RANGE)
    broker.offsets[-1] = 0
    empty = Position(log_start=None, high_watermark=None, last_stable_offset=None, leader_epoch=3, log_end=0)
    assert replicas(broker, TOPIC)["t", 1] == empty


@pytest.mark.parametrize(
    ("newest", "local_log_start", "highest"),
    [(11, 40, 39), (9, 40, 39), (8, 40, None), (7, None, None)],
)
def test_only_tiered_topics_are_asked_for_the_tier_as_far_as_the_release_knows_it(
    newest: int, local_log_start: int | None, highest: int | None
) -> None:
    found = replicas(Broker(newest), TOPIC, FAR)
    assert found["t", 0] == PLAIN
    far = found["far", 0]
    assert (far.log_end, far.local_log_start, far.highest_tiered) == (90, local_log_start, highest)


def test_an_empty_tier_is_not_an_unknown_one() -> None:
    broker = Broker()
    broker.offsets |= {-4: -1, -5: -1}
    assert replicas(broker, FAR)["far", 0].highest_tiered == -1
    assert replicas(broker, FAR)["far", 0].local_log_start is None


def test_nothing_is_asked_without_topics() -> None:
    broker = Broker()
    assert replicas(broker) == {}
    assert broker.asked == []


def test_the_topic_ids_are_those_of_the_request() -> None:
    class Kept(Broker):
        ids: tuple[Any, ...] = ()

        def _fetched(self, request: Any) -> Any:
            self.ids = tuple(topic.topic_id for topic in request.topics)
            return super()._fetched(request)

    broker = Kept()
    replicas(broker, TOPIC, FAR)
    assert broker.ids == (uuid_of(ID), uuid_of(FAR_ID))
