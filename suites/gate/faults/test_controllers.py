"""Faults of controllers with dynamic voters, on a real cluster under load: snapshots, voters, empty disks."""

from __future__ import annotations

import pytest

from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView
from harness.model.scenario.scenario import ClusterShape, Producer, Step, Topic
from suites.gate.playing import Play
from suites.steps_json import doubts, run_steps

pytestmark = pytest.mark.kafka

VOTERS = {101, 102, 103}

SHAPE = ClusterShape(controllers=3, voters="dynamic")
TOPICS = (Topic(name="busy", partitions=2, assignment=((1, 2, 3), (2, 3, 1))),)
PRODUCERS = (Producer(name="steady", topics=("busy",), rate_per_s=400),)


@pytest.mark.parametrize("node", ["controllers", "controller"])
def test_controllers_load_a_snapshot(play: Play, node: str) -> None:
    loaded, *_ = play(
        ("snapshot", {"do": "metadata_snapshot", "node": node}),
        ("back", {"do": "heal", "fault": "snapshot"}),
    )
    assert "and the metadata is as before" in loaded["effect"]["because"]
    assert loaded["resolved"]["snapshots"].keys() == loaded["effect"]["seen"]["loaded"].keys()


def test_without_a_wait_there_is_no_new_snapshot(play: Play) -> None:
    (row,) = run_steps(play.stage, [Step(do="metadata_snapshot", name="snapshot", args={"deadline_s": 0.001})])
    assert "waited 0.001 s for snapshots of the metadata" in row["error"]
    assert all(play.stage.cluster.running(controller) for controller in VOTERS)


@pytest.mark.parametrize("node", ["controller", "controller_follower"])
def test_a_voter_is_removed_and_added_again(play: Play, admin: AdminView, node: str) -> None:
    gone, *_ = play(
        ("gone", {"do": "remove_voter", "node": node}),
        ("meanwhile", {"do": "wait_acks", "records": 50}),
        ("back", {"do": "heal", "fault": "gone"}),
    )
    (removed,) = gone["resolved"]["nodes"]
    assert f"read that the voters are {sorted(VOTERS - {removed})}" in gone["effect"]["because"]
    assert ("in place of" in gone["effect"]["because"]) == (node == "controller")
    assert set(admin.quorum().voters) == VOTERS


def test_a_disk_that_is_wiped_is_another_voter(cluster: Cluster, play: Play, admin: AdminView) -> None:
    before = admin.quorum().directories
    wipe, *_ = play(
        ("wipe", {"do": "controller_wiped", "node": "controller_follower"}),
        ("back", {"do": "heal", "fault": "wipe"}),
    )
    (node,) = wipe["resolved"]["nodes"]
    assert "started with an empty log and caught up" in wipe["effect"]["because"]
    now = admin.quorum().directories
    assert now == {**before, node: cluster.directory_id(node)}
    assert now[node] != before[node]


@pytest.mark.parametrize("do", ["remove_voter", "metadata_snapshot"])
def test_faults_of_controllers_without_load_have_no_effect(play: Play, admin: AdminView, do: str) -> None:
    play.without_load()
    rows = run_steps(play.stage, [Step(do=do, name="it", args={"node": "controller"})])
    ((name, text),) = doubts(rows)
    assert name == "no_effect"
    assert "acks in the last second" in text
    assert set(admin.quorum().voters) == VOTERS
