"""Damaged metadata of nodes, on a real cluster under load."""

from __future__ import annotations

import pytest

from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from suites.gate.playing import Play

pytestmark = pytest.mark.kafka

SHAPE = ClusterShape(controllers=3)
TOPICS = (Topic(name="busy", partitions=2, assignment=((1, 2, 3), (1, 3, 2))),)
PRODUCERS = (Producer(name="steady", topics=("busy",)),)


@pytest.mark.parametrize(
    ("what", "node", "how", "because"),
    [
        ("meta_properties", "broker(2)", "killed", "it did not start"),
        ("meta_properties", "controller", "cleanly", "it did not start"),
        ("cluster_id", "broker(2)", "killed", "no controller accepted it"),
        ("cluster_id", "controller_follower", "cleanly", "no controller accepted it"),
        ("snapshot", "broker(2)", "cleanly", "it did not start"),
        ("log_flip", "broker(2)", "cleanly", "it truncated its log"),
        ("log_flip", "controller_follower", "killed", "it truncated its log"),
        ("log_tear", "leader(busy/0)", "killed", "it truncated its log"),
        ("partition_metadata", "broker(2)", "cleanly", "its replica was renamed as stray"),
    ],
)
def test_damaged_metadata_is_noticed_and_repaired(play: Play, what: str, node: str, how: str, because: str) -> None:
    of = {"of": "busy/0"} if what == "partition_metadata" else {}
    arguments = {"do": "damage_metadata", "what": what, "node": node, "how": how, **of}
    damage, *_ = play(("damage", arguments), ("up", {"do": "heal", "fault": "damage"}))
    assert because in damage["effect"]["because"]
    assert "it has recovered" in damage["effect"]["because"]
    assert play.stage.cluster.unexpected_exits() == []


def test_damage_without_load_has_no_effect(play: Play) -> None:
    play.without_load()
    arguments = {"do": "damage_metadata", "what": "log_flip", "node": "controller_follower"}
    text = play.doubt(("damage", arguments), ("up", {"do": "heal", "fault": "damage"}))
    assert "acks in the last second" in text
