"""Looks and the other sources at real brokers: the same as what other requests say, and no answer of another epoch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from harness.audit.feeds.commits import CommitSeen, GroupNotRead, committed_offsets
from harness.audit.feeds.looks import Look, Looks, Target, look_once
from harness.audit.feeds.settings import SettingSource, broker_settings, topic_settings
from harness.audit.feeds.states import PartitionSeen, partition_states, quorum_seen
from harness.audit.feeds.transactions import long_transactions
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.wire import Unanswered
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.following import addresses
from suites.gate.cluster_probes import observer, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

MANY, PARTITIONS = "many", 1000
PLAIN, RECORDS, DELETED = "plain", 200, 50
OFFSETS = "__consumer_offsets"
LOOKS_A_SECOND, LOOK_FOR_S = 4, 10.0
OWN_CPU_MAX = 0.15  # of one core, on a slow machine; measured 0.03
ASK_S = 15.0  # on a busy machine

states = partial(partition_states, timeout_s=ASK_S)
once = partial(look_once, timeout_s=ASK_S)
commits = partial(committed_offsets, timeout_s=ASK_S)
open_transactions = partial(long_transactions, timeout_s=ASK_S)
settings_of_topics = partial(topic_settings, timeout_s=ASK_S)
settings_of_broker = partial(broker_settings, timeout_s=ASK_S)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    with start(tmp_path_factory.mktemp("runs"), ClusterShape(), backend=backend) as started:
        with observer(started) as admin:
            admin.create_topics(
                [
                    Topic(name=PLAIN, assignment=((1, 2, 3),), config={"retention.ms": "86400001"}),
                    Topic(name=MANY, partitions=PARTITIONS),
                ]
            )
        yield started


@pytest.fixture(scope="module")
def brokers(cluster: JvmCluster) -> Iterator[Brokers]:
    found = Brokers(addresses(cluster, cluster.brokers[:1]))
    assert tuple(found.refresh(ASK_S).brokers) == cluster.brokers
    yield found
    found.close()


def client(cluster: JvmCluster, **settings: object) -> dict[str, object]:
    return {"bootstrap.servers": cluster.bootstrap_direct(), "log_level": 0, **settings}


def targets(rows: list[PartitionSeen], broker: int) -> list[Target]:
    return [
        Target(row.topic, row.partition, row.leader_epoch, row.leader == broker)
        for row in rows
        if broker in row.replicas
    ]


def leader_of_plain(brokers: Brokers) -> int:
    (row,) = states(brokers, brokers.ids[0], [PLAIN])
    return row.leader


def of_plain(brokers: Brokers, broker: int, *, tiered: bool = False) -> Look:
    """A look that was answered: right after its creation a broker may not yet have the topic."""

    def looked() -> Look:
        (target,) = targets(list(states(brokers, broker, [PLAIN])), broker)
        (look,) = once(brokers, broker, [target._replace(tiered=tiered)])
        return look

    return wait_for(looked, until=lambda look: look.error is None, deadline_s=20, what=f"a look of broker {broker}")


def test_groups_are_not_asked_for_before_kafka_has_their_topic(cluster: JvmCluster, brokers: Brokers) -> None:
    """The question for a coordinator would create it, and the auditor changes nothing."""
    assert list(commits(brokers, ["group"])) == []
    assert [row for row in states(brokers, 1) if row.topic == OFFSETS] == []


def test_states_come_in_pages_and_are_those_of_the_admin_view(
    cluster: JvmCluster, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with observer(cluster) as admin:
        expected = {(s.topic, s.partition): s for s in admin.partitions([MANY, PLAIN])}
    monkeypatch.setattr("harness.audit.feeds.states.PAGE", 170)
    for names in ((), (MANY, PLAIN)):
        rows = [row for row in states(brokers, 2, names) if not row.topic.startswith("__")]
        assert len(rows) == len({(row.topic, row.partition) for row in rows}) == PARTITIONS + 1
        for row in rows:
            state = expected[row.topic, row.partition]
            assert (row.topic_id, row.leader, row.leader_epoch) == (state.topic_id, state.leader, state.leader_epoch)
            assert (set(row.isr), row.replicas, row.error) == (set(state.isr), state.replicas, None)


def test_a_look_is_what_was_written(cluster: JvmCluster, brokers: Brokers) -> None:
    producer = Producer(client(cluster, acks="all"))
    for number in range(RECORDS):
        producer.produce(PLAIN, f"value {number}".encode(), partition=0)
    assert producer.flush(30) == 0
    with observer(cluster) as admin:
        admin.delete_records({(PLAIN, 0): DELETED})
    leader = leader_of_plain(brokers)
    followers = set(cluster.brokers) - {leader}
    look = of_plain(brokers, leader)
    assert look == Look(PLAIN, 0, leader, look.leader_epoch, DELETED, None, None, RECORDS, RECORDS, RECORDS, None)
    assert look.leader_epoch is not None
    for follower in followers:
        seen = wait_for(
            partial(of_plain, brokers, follower),
            until=lambda seen: seen.log_end == RECORDS,
            deadline_s=20,
            what=f"the log end of follower {follower}",
        )
        assert seen == Look(PLAIN, 0, follower, look.leader_epoch, None, None, None, None, None, RECORDS, None)


def test_a_broker_without_a_tier_reports_no_tier_offset(brokers: Brokers) -> None:
    leader = leader_of_plain(brokers)
    plain, look = of_plain(brokers, leader), of_plain(brokers, leader, tiered=True)
    print(look)
    assert plain.high_watermark is not None
    assert (look.high_watermark, look.log_end) == (plain.high_watermark, plain.log_end)
    assert look.tiered in (None, -1)


def test_an_answer_of_another_epoch_is_an_error_and_not_an_offset(brokers: Brokers) -> None:
    (row,) = states(brokers, 1, [PLAIN])
    for broker in (1, 2):
        wrong = Target(PLAIN, 0, row.leader_epoch + 1, broker == row.leader)
        later, unknown = once(brokers, broker, [wrong, Target("unknown", 0, 0, True)])
        assert (later.error, unknown.error) == ("UNKNOWN_LEADER_EPOCH", "UNKNOWN_TOPIC_OR_PARTITION")
        for look in (later, unknown):
            assert (look.high_watermark, look.log_end, look.log_start, look.stable) == (None,) * 4


def test_settings_with_their_sources(brokers: Brokers) -> None:
    keys = ["retention.ms", "segment.bytes"]
    seen, missing = settings_of_topics(brokers, [PLAIN, "unknown"], keys)
    assert {key: (one.value, one.source) for key, one in seen.settings.items()} == {
        "retention.ms": ("86400001", SettingSource.TOPIC),
        "segment.bytes": (str(1 << 30), SettingSource.DEFAULT),
    }
    assert missing.settings == {}
    assert missing.error is not None
    assert missing.error.startswith("UNKNOWN_TOPIC_OR_PARTITION")
    of_broker = settings_of_broker(brokers, 2, ["node.id", "log.retention.check.interval.ms"])
    assert {key: one.value for key, one in of_broker.settings.items()} == {
        "node.id": "2",
        "log.retention.check.interval.ms": "500",
    }


def test_commits_of_groups(cluster: JvmCluster, brokers: Brokers) -> None:
    consumer = Consumer(client(cluster, **{"group.id": "group", "enable.auto.commit": False}))

    def refused() -> int | None:
        try:
            consumer.commit(offsets=[TopicPartition(PLAIN, 0, 77)], asynchronous=False)
        except KafkaException as error:
            return int(error.args[0].code())
        return None

    # The first commit of a cluster creates the topic of its coordinators, which take a moment to begin.
    wait_for(refused, until=lambda code: code is None, deadline_s=30, what="a commit; error code")
    consumer.close()
    found = wait_for(
        lambda: list(commits(brokers, ["group", "nobody"])),
        until=lambda rows: not any(isinstance(row, GroupNotRead) for row in rows),
        deadline_s=30,
        what="coordinators of both groups",
    )
    assert found == [CommitSeen("group", PLAIN, 0, 77, None)]


def test_a_long_transaction_is_found_and_holds_back_the_stable_offset(cluster: JvmCluster, brokers: Brokers) -> None:
    leader = leader_of_plain(brokers)
    before = of_plain(brokers, leader).log_end
    assert before is not None
    producer = Producer(client(cluster, **{"transactional.id": "hangs"}))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(PLAIN, b"open", partition=0)
    assert producer.flush(30) == 0

    def open_for(ms: int) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
        found = [t for broker in brokers.ids for t in open_transactions(brokers, broker, ms)]
        return [(t.transactional_id, t.partitions) for t in found]

    wait_for(lambda: open_for(500), until=lambda found: found == [("hangs", ((PLAIN, 0),))], deadline_s=20, what="it")
    assert open_for(3_600_000) == []
    look = of_plain(brokers, leader)
    assert (look.stable, look.high_watermark, look.log_end) == (before, before + 1, before + 1)
    producer.abort_transaction(30)
    wait_for(lambda: open_for(0), until=lambda found: found == [], deadline_s=20, what="no open transaction")


def test_many_looks_cost_little(brokers: Brokers) -> None:
    """Of this process. Costs of brokers beside a load are measured in the bench."""
    rows = list(states(brokers, 1, [MANY]))
    looks = [Looks(broker, targets(rows, broker)) for broker in brokers.ids]
    count, began_s, cpu_s = 0, time.monotonic(), time.process_time()
    while (now := time.monotonic()) < began_s + LOOK_FOR_S:
        for of_broker in looks:
            for look in of_broker.look(brokers, ASK_S):
                assert (look.error, look.log_end) == (None, 0)
                count += 1
        time.sleep(max(0.0, now + 1 / LOOKS_A_SECOND - time.monotonic()))
    used = (time.process_time() - cpu_s) / (time.monotonic() - began_s)
    print(f"{count / LOOK_FOR_S:.0f} replicas a second, {100 * used:.1f} % of a core")
    assert count >= 3 * PARTITIONS
    assert used < OWN_CPU_MAX


def test_a_dead_broker_is_unanswered_and_the_others_still_answer(cluster: JvmCluster, brokers: Brokers) -> None:
    rows = list(states(brokers, 1, [PLAIN]))
    cluster.kill(3)
    with pytest.raises(Unanswered, match=":"):
        list(once(brokers, 3, targets(rows, 3)))
    assert brokers.link(3).silent_since_s is not None
    (left,) = wait_for(
        lambda: list(states(brokers, 1, [PLAIN])),
        until=lambda seen: 3 in seen[0].offline,
        deadline_s=60,
        what="broker 3 offline",
    )
    assert set(left.isr) <= {1, 2}
    assert left.replicas == (1, 2, 3)
    assert quorum_seen(brokers, ASK_S).leader in cluster.controllers
    assert 3 not in brokers.refresh(ASK_S).brokers
    cluster.start(3)
    cluster.wait_started(3, 90)
    brokers.refresh(ASK_S)
    assert of_plain(brokers, 3).log_end is not None
    assert brokers.link(3).silent_since_s is None


def test_an_election_makes_looks_of_the_old_epoch_errors(cluster: JvmCluster, brokers: Brokers) -> None:
    """The offsets that a prepared request brings are of the epoch that it names, or none."""
    (before,) = states(brokers, 2, [PLAIN])
    assert before.leader == 1
    looks = Looks(2, [Target(PLAIN, 0, before.leader_epoch, leads=True)])
    (look,) = looks.look(brokers, ASK_S)
    assert (look.error, look.high_watermark) == ("NOT_LEADER_OR_FOLLOWER", None)
    cluster.kill(1)
    (after,) = wait_for(
        lambda: list(states(brokers, 2, [PLAIN])),
        until=lambda seen: seen[0].leader in (2, 3),
        deadline_s=60,
        what="another leader",
    )

    def seen_in(epoch: int) -> Look:
        (seen,) = once(brokers, after.leader, [Target(PLAIN, 0, epoch, leads=True)])
        return seen

    old = wait_for(
        lambda: seen_in(before.leader_epoch),
        until=lambda look: look.error == "FENCED_LEADER_EPOCH",
        deadline_s=20,
        what="a broker that leads, and not only its metadata",
    )
    assert (old.high_watermark, old.log_end) == (None, None)
    seen = wait_for(
        lambda: seen_in(after.leader_epoch),
        until=lambda look: look.error is None,
        deadline_s=20,
        what="the new leader's offsets",
    )
    assert seen.leader_epoch == after.leader_epoch
    assert seen.high_watermark is not None
