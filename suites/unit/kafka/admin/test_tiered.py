"""Offsets of the remote tier from brokers that know the request and from those that do not, and fetches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from harness.kafka.admin.client import PartitionState
from harness.kafka.admin.fetch import Served, fetch
from harness.kafka.admin.offsets import TieredReplica, replica_offsets, tiered_replicas
from harness.kafka.admin.wire import Call, Unanswered

STATE = PartitionState(topic="t", topic_id="i", partition=0, leader=1, leader_epoch=1, isr=(1, 2), replicas=(1, 2))
# The answers by the special timestamp of the request: latest, earliest, earliest local, latest tiered.
OFFSETS = {-1: 90, -2: 10, -4: 40, -5: 39}


class Wire:
    """Each broker supports ListOffsets up to a version.

    As in Kafka, an unknown special timestamp is taken for a time.
    """

    def __init__(self, **newest: int) -> None:
        self.newest = {int(broker[1:]): version for broker, version in newest.items()}
        self.brokers = tuple(self.newest)

    def gather(self, questions: Mapping[int, Iterable[Call]], timeout_s: float) -> dict[int, list[Any]]:
        answers = {}
        for broker, asked in questions.items():
            try:
                answers[broker] = [self._answer(broker, question) for question in asked]
            except Unanswered:
                continue
        return answers

    def _answer(self, broker: int, question: Call) -> Any:
        version = min(self.newest[broker], question.newest)
        ((topic,),) = [question.build(version).topics]
        (part,) = topic.partitions
        since = {-4: 8, -5: 9}.get(part.timestamp, 0)
        assert version >= since, "taken for a timestamp"
        reported = SimpleNamespace(partition_index=0, error_code=0, offset=OFFSETS[part.timestamp])
        return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[reported])])


def test_each_replica_reports_its_own_log_and_the_tier() -> None:
    wire: Any = Wire(b1=9, b2=11)
    whole = TieredReplica(log_start=10, local_log_start=40, log_end=90, highest_tiered=39)
    assert tiered_replicas(wire, [STATE]) == {("t", 0, 1): whole, ("t", 0, 2): whole}
    assert replica_offsets(wire, [STATE]) == {("t", 0, 1): (10, 90), ("t", 0, 2): (10, 90)}


def test_a_broker_without_the_request_version_is_not_asked() -> None:
    wire: Any = Wire(b1=8, b2=7)
    assert tiered_replicas(wire, [STATE]) == {("t", 0, 1): TieredReplica(10, 40, 90, None)}


class Asked:
    """A broker that answers one fetch."""

    def __init__(self, **answer: Any) -> None:
        self.answer = answer

    def ask(self, broker: int, question: Call, timeout_s: float) -> Any:
        (topic,) = question.build(question.newest).topics
        assert (topic.topic, topic.partitions[0].fetch_offset, broker) == ("t", 5, 1)
        code, high = self.answer.get("part", 0), self.answer.get("high", -1)
        part = SimpleNamespace(error_code=code, records=self.answer.get("records"), high_watermark=high)
        response = SimpleNamespace(partitions=[part])
        return SimpleNamespace(error_code=self.answer.get("code", 0), responses=[response])


@pytest.mark.parametrize(
    ("answer", "served"),
    [
        ({"records": b"abc"}, Served(None, b"abc")),
        ({"high": 5}, Served(None, b"", 5)),
        ({"part": 1}, Served("OFFSET_OUT_OF_RANGE", b"")),
        ({"code": 6}, Served("NOT_LEADER_OR_FOLLOWER", b"")),
    ],
)
def test_the_answer_to_a_fetch_is_returned(answer: dict[str, Any], served: Served) -> None:
    wire: Any = Asked(**answer)
    assert fetch(wire, 1, "t", 0, 5, 100) == served
