"""A cluster of two releases under load: nodes are upgraded, and downgraded until feature levels forbid it."""

from __future__ import annotations

import re

import pytest

from harness.clusters import Cluster
from harness.model.errors import HarnessFailure
from harness.model.scenario.scenario import ClusterShape, Producer, Step, Topic
from suites.gate.cluster_probes import RELEASE
from suites.gate.playing import Play
from suites.steps_json import doubts, run_steps

pytestmark = pytest.mark.kafka

OLD, NEW = "3.9.1", RELEASE

# Levels that were raised once are never lowered again, so the test that raises them is one of the last.
SHAPE = ClusterShape(controllers=3, starts_on=OLD)
TOPICS = (Topic(name="busy", partitions=3, assignment=((1, 2, 3), (2, 3, 1), (3, 1, 2))),)
PRODUCERS = (Producer(name="steady", topics=("busy",), rate_per_s=400),)


def test_a_running_node_keeps_its_release(cluster: Cluster) -> None:
    assert cluster.release_of(1).version == OLD
    with pytest.raises(HarnessFailure, match="b1 cannot be given another release while it runs"):
        cluster.use_release(1, "tested")


def test_a_broker_is_upgraded_and_downgraded(cluster: Cluster, play: Play) -> None:
    up, back, *_ = play(
        ("up", {"do": "roll", "node": "broker(1)"}),
        ("back", {"do": "roll", "node": "broker(1)", "to": "start"}),
    )
    assert f"its log says that it runs {NEW} after {OLD}" in up["effect"]["seen"]["1"]["because"]
    assert f"its log says that it runs {OLD} after {NEW}" in back["effect"]["seen"]["1"]["because"]
    assert cluster.release_of(1).version == OLD


def test_a_roll_to_the_same_release_has_no_effect(play: Play) -> None:
    text = play.doubt(("up", {"do": "roll", "node": "broker(1)", "to": "start"}))
    assert f"it already ran {OLD} before" in text


def test_a_roll_without_load_has_no_effect(play: Play) -> None:
    play.without_load()
    rows = run_steps(play.stage, [Step(do="roll", name="up", args={"node": "broker(1)"})])
    assert [name for name, _ in doubts(rows)] == ["no_effect"]
    assert play.stage.cluster.release_of(1).version == NEW


def test_levels_do_not_rise_before_the_last_node_is_upgraded(play: Play) -> None:
    (row,) = run_steps(play.stage, [Step(do="raise_features", name="raise", args={})])
    assert "the highest level that all nodes support" in row["effect"]["because"]


def test_raised_levels_forbid_a_downgrade(cluster: Cluster, play: Play) -> None:
    old = [broker for broker in cluster.brokers if cluster.release_of(broker).version == OLD]
    *_, raised, refused, _ = play(
        ("controllers", {"do": "roll", "node": "controllers"}),
        *((f"broker_{broker}", {"do": "roll", "node": f"broker({broker})"}) for broker in old),
        ("raise", {"do": "raise_features"}),
        ("refused", {"do": "downgrade_refused", "node": "broker(2)"}),
    )
    assert "metadata.version" in raised["resolved"]["levels"]
    assert "INVALID_UPDATE_VERSION" in refused["resolved"]["request"]
    # Whether it ends or hangs depends on the timing.
    assert re.fullmatch(rf"broker 2 (ended by itself|did not start .*) on {OLD}: .*", refused["resolved"]["broker"])
    assert {cluster.release_of(node).version for node in (*cluster.brokers, *cluster.controllers)} == {NEW}
    assert cluster.unexpected_exits() == []


def test_levels_that_were_not_raised_cannot_be_lowered(cluster: Cluster, play: Play) -> None:
    """On a cluster that started with its present levels."""
    (row,) = run_steps(play.stage, [Step(do="downgrade_refused", name="refused", args={"node": "broker(2)"})])
    assert "metadata.version was not raised" in row["effect"]["because"]
    assert [name for name, _ in doubts([row])] == ["no_effect"]
    assert cluster.running(2)
