"""Nodes that run out of memory on a real cluster under load: they end, their absence is noticed, and they return."""

from __future__ import annotations

import pytest

from harness.clusters import Cluster
from harness.faults.nodes import out_of_memory
from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from suites.gate.playing import Play

pytestmark = pytest.mark.kafka

SHAPE = ClusterShape(controllers=3)
TOPICS = (Topic(name="busy", partitions=2, assignment=((1, 2, 3), (1, 3, 2))),)
PRODUCERS = (Producer(name="p", topics=("busy",), rate_per_s=600),)


@pytest.mark.parametrize("node", ["leader(busy/0)", "follower(busy/0)", "controller"])
def test_a_node_with_a_full_heap_ends_and_returns(cluster: Cluster, play: Play, node: str) -> None:
    full, *_ = play(("full", {"do": "out_of_memory", "node": node}), ("up", {"do": "heal", "fault": "full"}))
    assert "ended of OutOfMemoryError" in full["effect"]["because"]
    assert full["effect"]["seen"]["ended"].startswith("exit code 3")
    assert cluster.unexpected_exits() == []


def test_the_kernel_kills_a_node_that_exceeds_the_limit_of_its_container(cluster: Cluster, play: Play) -> None:
    if "memory.limit" not in cluster.capabilities:
        pytest.skip("this backend cannot limit the memory of a node")
    killed, *_ = play(
        ("killed", {"do": "oom_killed", "node": "leader(busy/0)"}), ("up", {"do": "heal", "fault": "killed"})
    )
    assert "was killed by the kernel" in killed["effect"]["because"]
    assert cluster.unexpected_exits() == []
    # Without the lower limit, its heap can be filled again.
    play(("full", {"do": "out_of_memory", "node": "leader(busy/0)"}), ("up_again", {"do": "heal", "fault": "full"}))


def test_a_full_heap_without_load_has_no_effect(play: Play) -> None:
    play.without_load()
    full = ("full", {"do": "out_of_memory", "node": "broker(2)"})
    assert "acks in the last second" in play.doubt(full, ("up", {"do": "heal", "fault": "full"}))


def test_a_heap_with_memory_for_all_requests_has_no_effect(
    cluster: Cluster, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.kafka.settings.heap_filler.CONNECTIONS", 1)
    monkeypatch.setattr(out_of_memory, "DEADLINE_S", 3.0)
    assert "still runs" in play.doubt(("full", {"do": "out_of_memory", "node": "leader(busy/0)"}))
    assert cluster.running(1)


def test_a_kill_by_the_kernel_without_load_has_no_effect(cluster: Cluster, play: Play) -> None:
    if "memory.limit" not in cluster.capabilities:
        pytest.skip("this backend cannot limit the memory of a node")
    play.without_load()
    killed = ("killed", {"do": "oom_killed", "node": "broker(2)"})
    assert "acks in the last second" in play.doubt(killed, ("up", {"do": "heal", "fault": "killed"}))
