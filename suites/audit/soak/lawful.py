"""Events that lose no record, each with the alarms that it gives a reason for."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.client import AdminView
from harness.model.errors import HarnessFailure
from harness.model.scenario.scenario import Topic
from harness.model.waiting import wait_for
from suites.audit.soak.load import KEPT, MOVED, NAMES, OWNED, PLAIN, RESET, WEEK
from suites.gate.cluster_probes import quiet

INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
WHOLE_S: Final = 240.0
START_S: Final = 120.0
_DELETED_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What events act on."""

    cluster: JvmCluster
    admin: AdminView
    rng: random.Random
    created: list[str] = field(default_factory=list)

    @property
    def broker(self) -> int:
        return self.rng.choice(self.cluster.brokers)

    def whole(self) -> None:
        """Waits until every replica is in sync."""
        wait_for(
            lambda: [s for s in self.admin.partitions((*NAMES, *INTERNAL)) if set(s.isr) != set(s.replicas)],
            until=lambda lacking: not lacking,
            deadline_s=WHOLE_S,
            what="every replica to be in sync",
            interval_s=1.0,
        )

    @contextmanager
    def down(self, *nodes: int) -> Iterator[None]:
        """Nodes that ended are started again."""
        brokers = [node for node in nodes if node in self.cluster.brokers]
        try:
            self.admin.leave_alone(brokers)
            yield
        finally:
            self.admin.ask_again(brokers)
            self.cluster.start(*nodes)
            for node in nodes:
                self.cluster.wait_started(node, START_S)


Action = Callable[[Scene], None]


@dataclass(frozen=True, slots=True)
class Lawful:
    """alarms: rule -> the topic that its alarm is about, "" for none; each alarm may come. must: it has to."""

    act: Action
    alarms: Mapping[str, str] = field(default_factory=dict)
    must: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.act.__name__


def broker_killed(of: Scene) -> None:
    broker = of.broker
    of.cluster.kill(broker)
    with of.down(broker):
        time.sleep(of.rng.uniform(1, 25))
    of.whole()


def two_brokers_killed(of: Scene) -> None:
    """Partitions with a single replica left refuse writes; no record that was acknowledged is lost."""
    pair = of.rng.sample(of.cluster.brokers, 2)
    of.cluster.kill(*pair)
    with of.down(*pair):
        time.sleep(of.rng.uniform(1, 8))
    of.whole()


def rolling_restart(of: Scene) -> None:
    for broker in of.cluster.brokers:
        of.cluster.terminate(broker, 60)
        with of.down(broker):
            pass
        of.whole()


def broker_paused(of: Scene) -> None:
    broker = of.broker
    of.cluster.pause(broker)
    of.admin.leave_alone([broker])
    try:
        time.sleep(of.rng.uniform(2, 20))
    finally:
        of.cluster.resume(broker)
        of.admin.ask_again([broker])
    of.whole()


def controller_killed(of: Scene) -> None:
    active = of.admin.active_controller()
    of.cluster.kill(active)
    with of.down(active):
        time.sleep(of.rng.uniform(2, 20))
    of.whole()


def controllers_restarted(of: Scene) -> None:
    for controller in of.cluster.controllers:
        of.cluster.terminate(controller, 60)
        with of.down(controller):
            pass
        of.admin.active_controller(60)
    of.whole()


def replicas_moved(of: Scene) -> None:
    replicas = {(MOVED, n): of.rng.sample(of.cluster.brokers, of.rng.choice((2, 3))) for n in range(3)}
    of.admin.reassign(replicas)
    wait_for(
        of.admin.reassignments,
        until=lambda moving: not moving,
        deadline_s=WHOLE_S,
        what="the end of the reassignment",
        interval_s=1.0,
    )
    of.admin.elect_leaders("preferred", [(MOVED, n) for n in range(3)])
    of.whole()
    of.admin.reassign({(MOVED, n): [1 + (n + k) % 3 for k in range(3)] for n in range(3)})
    of.whole()


def preferred_leaders(of: Scene) -> None:
    of.admin.elect_leaders("preferred", [(s.topic, s.partition) for s in of.admin.partitions((*NAMES, *INTERNAL))])


def records_deleted_by_their_owner(of: Scene) -> None:
    high = of.admin.high_watermark([OWNED])
    of.admin.delete_records({place: end - of.rng.randrange(10) for place, end in high.items() if end > 10})


def retention_lowered_for_a_while(of: Scene) -> None:
    before = starts(of, KEPT)
    of.admin.alter_topic_config(KEPT, {"retention.ms": "30000"})
    try:
        wait_for(
            lambda: starts(of, KEPT),
            until=lambda now: all(now[place] > start for place, start in before.items() if place in now),
            deadline_s=_DELETED_S,
            what="retention to delete records",
            interval_s=1.0,
        )
    finally:
        of.admin.alter_topic_config(KEPT, {"retention.ms": WEEK})


def starts(of: Scene, topic: str) -> dict[int, int]:
    """Partition -> the log start offset on its first replica."""
    found = of.admin.replica_offsets([topic])
    return {partition: start for (_, partition, _), (start, _) in sorted(found.items(), reverse=True)}


def retention_raised(of: Scene) -> None:
    before = of.admin.topic_configs([PLAIN])[PLAIN]["retention.ms"]
    of.admin.alter_topic_config(PLAIN, {"retention.ms": str(int(before) + 60_000)})


def topic_created_and_deleted(of: Scene) -> None:
    name = f"passing-{len(of.created)}"
    of.created.append(name)
    of.admin.create_topics([Topic(name=name, partitions=of.rng.randrange(1, 9))])
    written(of, name)
    time.sleep(5)
    of.admin.delete_topics([name])


def topic_recreated(of: Scene) -> None:
    of.admin.create_topics([Topic(name="again", partitions=2)])
    written(of, "again")
    time.sleep(3)
    of.admin.recreate_topic(Topic(name="again", partitions=2))
    written(of, "again")
    time.sleep(3)
    of.admin.delete_topics(["again"])


def written(of: Scene, topic: str) -> None:
    producer = Producer(quiet({"bootstrap.servers": of.cluster.bootstrap_direct(), "enable.idempotence": True}))
    for _ in range(100):
        producer.produce(topic, b"passing")
    if left := producer.flush(60):
        raise HarnessFailure(f"{left} records to {topic} were not acknowledged")


def offsets_reset_by_an_operator(of: Scene) -> None:
    settings = {"group.id": RESET, "bootstrap.servers": of.cluster.bootstrap_direct(), "enable.auto.commit": False}
    high = of.admin.high_watermark([PLAIN])[PLAIN, 0]
    consumer = Consumer(quiet(settings))
    for offset in (high, high // 2):
        consumer.commit(offsets=[TopicPartition(PLAIN, 0, offset)], asynchronous=False)
        time.sleep(12)  # the auditor asks for committed offsets every 5 s
    consumer.close()


# What an auditor says about itself while it cannot see: it is true, and no alarm about records.
_BLIND: Final = {"blind": ""}
LAWFUL: Final = (
    Lawful(broker_killed, _BLIND),
    Lawful(two_brokers_killed, _BLIND),
    Lawful(rolling_restart, _BLIND),
    Lawful(broker_paused, _BLIND),
    Lawful(controller_killed, _BLIND),
    Lawful(controllers_restarted, _BLIND),
    Lawful(replicas_moved),
    Lawful(preferred_leaders),
    Lawful(records_deleted_by_their_owner, {"log_start_moved": OWNED}),
    Lawful(retention_lowered_for_a_while, {"setting_weakened": KEPT}, frozenset({"setting_weakened"})),
    Lawful(retention_raised),
    Lawful(topic_created_and_deleted, {"topic_deleted": "passing-*"}, frozenset({"topic_deleted"})),
    Lawful(
        topic_recreated,
        {"topic_deleted": "again", "topic_recreated": "again"},
        frozenset({"topic_deleted", "topic_recreated"}),
    ),
    Lawful(offsets_reset_by_an_operator, {"commit_back": PLAIN}, frozenset({"commit_back"})),
)
