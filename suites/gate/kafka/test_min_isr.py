"""min.insync.replicas: never more than the replicas of a topic (KAFKA-15583), and it holds back readers (KIP-966)."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message, Producer

from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

SHAPE = ClusterShape()
PLACE = ("every", 0)


def error_of(cluster: Cluster, topic: str, acks: str) -> str:
    """Sends one record once. Returns the name of its error, "" on success."""
    answers: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        answers.append(error.name() if error else "")

    settings = {"bootstrap.servers": cluster.bootstrap_direct(), "acks": acks, "retries": 0}
    producer = Producer(settings | {"delivery.timeout.ms": 15_000, "log_level": 0})
    producer.produce(topic, b"x", on_delivery=delivered)
    producer.flush(20)
    (answer,) = answers
    return answer


def readable(admin: AdminView) -> tuple[int, int]:
    """The high watermark, up to which readers may read, and the log end of the leader."""
    ends = {place[2]: offsets[1] for place, offsets in admin.replica_offsets([PLACE[0]]).items()}
    return admin.high_watermark([PLACE[0]])[PLACE], ends[1]


def test_one_replica_is_enough_if_there_is_only_one(cluster: Cluster, admin: AdminView) -> None:
    admin.create_topics([Topic(name="over", partitions=1, replicas=1, config={"min.insync.replicas": "2"})])
    assert error_of(cluster, "over", "all") == ""


def test_below_min_insync_replicas_acks_one_records_stay_unreadable(cluster: Cluster, admin: AdminView) -> None:
    """A value above the number of replicas counts as that number, so here 3 replicas have to be in sync."""
    admin.create_topics([Topic(name=PLACE[0], assignment=((1, 2, 3),), config={"min.insync.replicas": "4"})])
    assert error_of(cluster, PLACE[0], "all") == ""
    wait_for(
        lambda: readable(admin),
        until=lambda seen: seen == (1, 1),
        deadline_s=15,
        what="a readable record",
    )
    cluster.kill(3)
    try:
        wait_for(
            lambda: [state.isr for state in admin.partitions([PLACE[0]])],
            until=lambda isrs: [len(isr) for isr in isrs] == [2],
            deadline_s=30,
            what="the ISR to be without broker 3",
        )
        assert error_of(cluster, PLACE[0], "all") == "NOT_ENOUGH_REPLICAS"
        assert error_of(cluster, PLACE[0], "1") == ""
        wait_for(
            lambda: admin.replica_offsets([PLACE[0]]).get((*PLACE, 2)),
            until=lambda offsets: offsets is not None and offsets[1] == 2,
            deadline_s=15,
            what="broker 2 to have the second record",
        )
        assert readable(admin) == (1, 2)
    finally:
        cluster.start(3)
        cluster.wait_started(3, 60)
    wait_for(
        lambda: readable(admin),
        until=lambda seen: seen == (2, 2),
        deadline_s=30,
        what="two readable records",
    )
