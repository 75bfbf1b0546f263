"""Groups without members, and the partitions that store their offsets, on a real cluster."""

from __future__ import annotations

import pytest

from harness.kafka.admin.client import AdminView
from harness.model.contract.internal_topics import OFFSETS, internal_topics, state_partition
from harness.model.scenario.scenario import ClusterShape, Producer, Reader, Topic
from suites.gate.playing import Play

pytestmark = pytest.mark.kafka

SHAPE = ClusterShape()
TOPICS = (Topic(name="read", partitions=2, assignment=((1, 2, 3), (2, 3, 1))),)
PRODUCERS = (Producer(name="steady", topics=("read",), rate_per_s=500),)
GROUPS = ("readers", "zzzzzz")  # the hash of one is negative
READERS = tuple(Reader(name=f"in_{group}", topics=("read",), group=group) for group in GROUPS)


def test_the_partition_of_a_group_follows_from_the_hash_of_its_name(play: Play, admin: AdminView) -> None:
    (offsets, _) = internal_topics(SHAPE)
    leaders = {s.partition: s.leader for s in admin.partitions([OFFSETS])}
    assert len(leaders) == offsets.partitions
    for group in GROUPS:
        assert leaders[state_partition(group, offsets.partitions)] == admin.coordinator("group", group)
    moved, _, kill, *_ = play(
        ("moved", {"do": "move_leaders", "on": ["offsets(zzzzzz)"]}),
        ("commits", {"do": "wait_commits", "group": "zzzzzz"}),
        ("kill", {"do": "kill", "node": "leader(offsets(zzzzzz))"}),
        ("changed", {"do": "wait_leader_changed", "on": ["offsets(zzzzzz)"], "since": "kill"}),
        ("on", {"do": "wait_commits", "group": "zzzzzz", "commits": 3}),
        ("heal", {"do": "heal", "fault": "kill"}),
    )
    ((before, after),) = [row["leader"] for row in moved["resolved"].values()]
    assert before != after
    assert kill["resolved"]["nodes"] == [after]


def test_a_group_is_deleted_while_it_has_no_members(play: Play, admin: AdminView) -> None:
    _, away, _, deleted, *_ = play(
        ("begun", {"do": "wait_commits", "group": "readers"}),
        ("away", {"do": "reader_away", "group": "readers"}),
        ("left", {"do": "wait_effect", "fault": "away"}),
        ("deleted", {"do": "delete_group", "group": "readers"}),
        ("nothing", {"do": "hold", "seconds": 1}),
        ("back", {"do": "heal", "fault": "away"}),
        ("again", {"do": "wait_commits", "group": "readers"}),
    )
    assert away["effect"]["seen"]["state"] == "Empty"
    assert [e["outcome"] for e in deleted["events"] if e["kind"] == "group_deleted"] == ["acked"]
    assert admin.group_state("readers") == "Stable"


def test_a_member_that_pauses_stays_in_its_group_and_commits_nothing(play: Play, admin: AdminView) -> None:
    _, paused, *_ = play(
        ("begun", {"do": "wait_commits", "group": "readers"}),
        ("paused", {"do": "reader_paused", "group": "readers"}),
        ("longer", {"do": "hold", "seconds": 8}),  # than its session
        ("resumed", {"do": "heal", "fault": "paused"}),
        ("again", {"do": "wait_commits", "group": "readers"}),
    )
    assert paused["effect"]["held"]
    assert paused["effect"]["seen"]["state"] == "Stable"
    assert admin.group_state("readers") == "Stable"


def test_a_group_with_members_refuses_what_others_ask(play: Play) -> None:
    _, asked, *_ = play(
        ("begun", {"do": "wait_commits", "group": "readers"}),
        ("asked", {"do": "ask_from_outside", "group": "readers", "deletes": True}),
    )
    answers = {e["api"]: (e["error"], bool(e["members"])) for e in asked["events"]}
    assert answers == {"OffsetCommit": ("UNKNOWN_MEMBER_ID", True), "OffsetDelete": ("GROUP_SUBSCRIBED_TO_TOPIC", True)}
