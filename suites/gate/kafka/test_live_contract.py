"""`durability contract` on a running cluster names each badly configured topic, its possible losses and the remedy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView
from harness.model.contract.internal_topics import TRANSACTIONS
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

SHAPE = ClusterShape()
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
TOPICS = (
    Topic(name="good", partitions=2),
    Topic(name="lone", partitions=1, replicas=1, config={"min.insync.replicas": "1"}),
    Topic(name="strict", partitions=1, config={"min.insync.replicas": "3"}),
    Topic(name="unclean", partitions=1, config=UNCLEAN),
)


def contract(cluster: Cluster, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from harness.commands.main import main; main()", "contract"]
    return subprocess.run(
        [*command, "--bootstrap", cluster.bootstrap_direct(), *more],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def topics(admin: AdminView) -> Iterator[list[str]]:
    names = [topic.name for topic in TOPICS]
    admin.create_topics(TOPICS)
    yield names
    admin.delete_topics(names)


def test_topics_are_reported_with_their_losses_and_the_worst_first(cluster: Cluster, topics: list[str]) -> None:
    done = contract(cluster, "--json", *[word for name in topics for word in ("--topic", name)])
    assert (done.returncode, done.stderr) == (0, "")
    reported = {row["topic"]: row for row in json.loads(done.stdout)}
    assert [row["topic"] for row in json.loads(done.stdout)] == ["lone", "unclean", "strict", "good"]
    assert reported["good"]["avoidable"] == []
    assert reported["strict"]["avoidable"] == ["replica_down"]
    assert reported["unclean"]["avoidable"] == ["last_in_sync_dies", "returns_short", "disk_of_last_in_sync"]
    assert {"power_of_one", "disk_of_one", "leader_dies"} <= set(reported["lone"]["avoidable"])
    assert reported["unclean"]["settings"]["unclean"]
    assert (reported["lone"]["settings"]["replicas"], reported["good"]["settings"]["min_isr"]) == (1, 2)
    assert reported["good"]["settings"]["elr"]


def test_without_names_all_topics_are_reported_including_internal_ones(
    cluster: Cluster, admin: AdminView, topics: list[str]
) -> None:
    for kind in ("group", "transaction"):
        admin.coordinator(kind, "any")  # the request creates the coordinator's topic
    admin.alter_topic_config(TRANSACTIONS, {"min.insync.replicas": "1"})
    try:
        done = contract(cluster)
    finally:
        admin.alter_topic_config(TRANSACTIONS, {"min.insync.replicas": "2"})
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    unclean = lines.index("unclean: 3 replicas, min.insync.replicas=1, unclean elections, ELR on")
    assert lines[unclean + 1] == "  lost when the last in-sync replica dies, and others are up"
    assert lines[unclean + 4] == "    how to fix: unclean.leader.election.enable=false, min.insync.replicas=2"
    state = lines.index(f"{TRANSACTIONS}: 3 replicas, min.insync.replicas=1, clean elections only, ELR on, compacted")
    assert lines[state + 2 : state + 6] == [
        "  lost when the last in-sync replica returns without the records that it had not flushed",
        "    acknowledged records above its flushed log end; among them acknowledged decisions to commit whose markers "
        "were not all written yet: on a partition without its marker the transaction aborts or hangs",
        "    because: no other replica may have had them when it acknowledged them (KIP-966, last replica standing; "
        "KIP-98; Kafka documentation, transaction.state.log.min.isr)",
        f"    how to fix: min.insync.replicas=2 on {TRANSACTIONS} "
        "(transaction.state.log.min.isr is read only when the topic is created)",
    ]
    assert unclean < state < lines.index("strict: 3 replicas, min.insync.replicas=3, clean elections only, ELR on")
    assert "lone: 1 replica, min.insync.replicas=1, clean elections only, ELR on" in lines
    assert "as safe as three replicas with two in sync required: __consumer_offsets, good" in lines


def test_a_partition_that_refuses_writes_now_is_reported(cluster: Cluster, admin: AdminView, topics: list[str]) -> None:
    cluster.kill(3)
    try:
        wait_for(
            lambda: [state.isr for state in admin.partitions(["strict"])],
            until=lambda isrs: [len(isr) for isr in isrs] == [2],
            deadline_s=30,
            what="the ISR to be without broker 3",
        )
        done = contract(cluster, "--topic", "strict")
    finally:
        cluster.start(3)
        cluster.wait_started(3, 60)
    assert "  now: partitions 0 have fewer replicas in sync than required" in done.stdout.splitlines()


def test_a_partition_without_a_leader_is_reported(cluster: Cluster, admin: AdminView, topics: list[str]) -> None:
    (lone,) = admin.partitions(["lone"])
    cluster.kill(lone.leader)
    try:
        wait_for(
            lambda: [state.leader for state in admin.partitions(["lone"])],
            until=lambda leaders: leaders == [-1],
            deadline_s=30,
            what="the only replica to lose its leadership",
        )
        done = contract(cluster, "--topic", "lone", "--topic", "good")
    finally:
        cluster.start(lone.leader)
        cluster.wait_started(lone.leader, 60)
    lines = done.stdout.splitlines()
    assert lines[lines.index("lone: 1 replica, min.insync.replicas=1, clean elections only, ELR on") + 1] == (
        "  now: partitions 0 have no leader"
    )


def test_the_transaction_topic_of_the_cluster_is_reported(
    cluster: Cluster, admin: AdminView, topics: list[str]
) -> None:
    done = contract(cluster, "--topic", "good", "--transactional")
    level = admin.features()["transaction.version"]
    assert f"the cluster has finalized transaction.version {level} (KIP-890)" in done.stdout.splitlines()


def test_a_topic_with_an_empty_cleanup_policy_is_reported(
    cluster: Cluster, admin: AdminView, topics: list[str]
) -> None:
    if cluster.release.numbers < (4, 2):
        pytest.skip(reason="before 4.2 cleanup.policy cannot be empty")
    admin.alter_topic_config("good", {"cleanup.policy": ""})
    (good,) = json.loads(contract(cluster, "--topic", "good", "--json").stdout)
    assert (good["settings"]["deletes"], good["settings"]["compacted"]) == (False, False)


def test_a_question_that_cannot_be_answered_is_refused_in_one_sentence(cluster: Cluster, topics: list[str]) -> None:
    done = contract(cluster, "--topic", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("has no topic nowhere; leave out --topic to see all of them\n")
    assert len(done.stderr.splitlines()) == 1
