"""Failpoints in real brokers: at points of their own code they are killed, delayed, or get an error of their disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.clusters import Cluster
from harness.clusters.choosing import able
from harness.faults.failpoints import failpoint
from harness.faults.failpoints.agent_client import installed
from harness.faults.failpoints.code_point import Site
from harness.faults.failpoints.points import POINTS
from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from suites.gate.playing import Play, running

pytestmark = pytest.mark.kafka

SHAPE = ClusterShape(agent=True)
TOPICS = (
    Topic(name="busy", partitions=2, assignment=((1, 2, 3), (2, 3, 1)), config={"segment.bytes": "1048576"}),
    Topic(name="idle", partitions=1, assignment=((3, 1, 2),)),
)
PRODUCERS = (
    Producer(name="steady", topics=("busy",), rate_per_s=600),
    Producer(name="slow", topics=("idle",), rate_per_s=10),
)


@pytest.fixture(scope="module")
def cluster(backend: str) -> Iterator[Cluster]:
    if "agent" not in able(backend):
        pytest.skip("this backend loads no agent")
    with running(backend, SHAPE) as started:
        yield started


def step(point: str, action: str, node: str = "leader(busy/0)", **more: object) -> dict[str, Any]:
    return {"do": "failpoint", "node": node, "point": point, "action": action, **more}


def no_rule_is_left(play: Play) -> bool:
    cluster = play.stage.cluster
    return all("no rules installed" in installed(cluster.agent_address(node)) for node in (1, 2, 3, 101))


@pytest.mark.parametrize(
    ("point", "more"), [("roll", {"of": "busy/0"}), ("high_watermark_checkpoint", {}), ("appended", {"skip": 20})]
)
def test_a_leader_is_killed_at_a_point(play: Play, point: str, more: dict[str, Any]) -> None:
    killed, *_ = play(("killed", step(point, "kill", **more)), ("over", {"do": "heal", "fault": "killed"}))
    (victim,) = killed["resolved"]["nodes"]
    assert killed["effect"]["seen"]["acted"] == {str(victim): 1}
    (fact,) = killed["facts"]
    assert (fact["kind"], fact["how"], fact["nodes"]) == ("stopped", "killed", [victim])
    assert fact["to_ns"] - fact["from_ns"] < 2 * 10**9
    assert play.stage.cluster.exits() == []
    assert no_rule_is_left(play)


def test_the_answer_to_alter_partition_is_delayed_while_an_isr_shrinks(play: Play) -> None:
    late, *_ = play(
        ("late", step("alter_partition_answered", "delay", node="brokers", delay_ms=1500, count=3)),
        ("frozen", {"do": "pause", "node": "follower(busy/0)"}),
        ("noticed", {"do": "wait_effect", "fault": "late"}),
        ("thawed", {"do": "heal", "fault": "frozen"}),
        ("over", {"do": "heal", "fault": "late"}),
    )
    assert sum(late["effect"]["seen"]["acted"].values()) >= 1
    assert [fact["kind"] for fact in late["facts"]] == ["frozen"]
    assert no_rule_is_left(play)


@pytest.mark.parametrize("point", ["roll", "segment_append", "flush", "high_watermark_checkpoint", "producer_snapshot"])
def test_an_error_of_the_disk_at_a_point_ends_the_broker(play: Play, point: str) -> None:
    failed, *_ = play(("failed", step(point, "io_error")), ("over", {"do": "heal", "fault": "failed"}))
    assert "took its log directory offline and ended" in failed["effect"]["because"]
    assert {fact["kind"] for fact in failed["facts"]} == {"disk_failed", "stopped"}
    assert play.stage.cluster.unexpected_exits() == []
    assert no_rule_is_left(play)


def test_a_point_that_is_never_passed_has_no_effect(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoint, "DEADLINE_S", 2.0)
    never = ("never", step("truncate_fully", "kill"))
    assert "did not pass 'truncate_fully'" in play.doubt(never)
    assert no_rule_is_left(play)


def test_passages_for_another_partition_do_not_count(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoint, "DEADLINE_S", 2.0)
    near = ("near", step("roll", "kill", node="leader(idle/0)", of="idle/0"))
    assert "did not pass 'roll' for idle/0" in play.doubt(near)


def test_a_release_without_the_method_has_no_effect_and_says_so(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = replace(POINTS["append"], sites=(Site("kafka.cluster.Partition", "appendToNothing"),))
    monkeypatch.setattr(failpoint, "POINTS", {**POINTS, "append": gone})
    text = play.doubt(("unknown", step("append", "kill")))
    assert "does not have the point 'append': it has no method kafka.cluster.Partition.appendToNothing" in text


def test_the_active_controller_is_delayed_when_it_appends(play: Play) -> None:
    delayed, *_ = play(("delayed", step("raft_append", "delay", node="controller", delay_ms=700, count=2)))
    assert delayed["effect"]["seen"]["acted"]["101"] >= 1
