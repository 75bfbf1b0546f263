"""Expressions that resolve to nodes, and isolation that resolves to links, without a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from harness.faults.network.links import between, isolation
from harness.faults.operations.reassign import shifted
from harness.faults.steps.targets import parse_nodes, place_of, resolve
from harness.kafka.admin.client import PartitionState
from harness.model.errors import BadInput, HarnessTimeout


@dataclass
class Known:
    """Facts about a cluster of three brokers: 2 leads partition 0 of t."""

    leader: int = 2
    steps: dict[str, tuple[int, ...]] = field(default_factory=lambda: {"down": (3, 1), "cut": (101,)})

    def brokers(self) -> tuple[int, ...]:
        return (1, 2, 3)

    def controllers(self) -> tuple[int, ...]:
        return (101, 102, 103)

    def partition(self, place: tuple[str, int]) -> PartitionState:
        assert place == ("t", 0)
        return PartitionState(
            topic="t", topic_id="i", partition=0, leader=self.leader, leader_epoch=4, isr=(2, 3), replicas=(1, 2, 3)
        )

    def adding(self, place: tuple[str, int]) -> tuple[int, ...]:
        return (3, 1) if place == ("t", 0) else ()

    def active_controller(self) -> int:
        return 102

    def group_coordinator(self, group: str) -> int:
        return {"g": 1}[group]

    def txn_coordinator(self, producer: str) -> int:
        return {"p": 3}[producer]

    def share_coordinator(self, group: str, place: tuple[str, int]) -> int:
        return {("jobs", ("t", 0)): 2}[group, place]

    def tier_metadata(self, place: tuple[str, int]) -> int:
        return {("t", 0): 2}[place]

    def nodes_of(self, step: str) -> tuple[int, ...]:
        return self.steps[step]


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("broker(2)", (2,)),
        ("brokers(3, 1)", (1, 3)),
        ("brokers", (1, 2, 3)),
        ("controller", (102,)),
        ("controllers", (101, 102, 103)),
        ("controller_follower", (101,)),
        ("controller_beside(cut)", (103,)),
        ("controller_majority", (102, 101)),
        ("leader(t/0)", (2,)),
        ("follower(t/0)", (1,)),
        ("followers(t/0)", (1, 3)),
        ("preferred(t/0)", (1,)),
        ("adding(t/0)", (3,)),
        ("group_coordinator(g)", (1,)),
        ("txn_coordinator(p)", (3,)),
        ("share_coordinator(jobs:t/0)", (2,)),
        ("tier_metadata(t/0)", (2,)),
        ("same(down)", (3, 1)),
        (" leader( t/0 ) ", (2,)),
    ],
)
def test_each_expression_names_its_nodes(text: str, nodes: tuple[int, ...]) -> None:
    assert resolve(parse_nodes(text), Known()) == nodes


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("leader", "leader needs a partition in brackets"),
        ("leader()", "leader needs a partition in brackets"),
        ("share_coordinator(jobs)", "'' is no partition"),
        ("leader(t)", 'write "topic/0"'),
        ("controllers(1)", "takes nothing in brackets"),
        ("brokers(1, two)", "brokers needs numbers"),
        ("broker(one)", "needs a number"),
        ("broker(²)", "needs a number"),
        ("leader(t/²)", 'write "topic/0"'),
        ("folower(t/0)", "did you mean 'follower'"),
        ("leader(t/0", "names no node"),
        ("", "names no node"),
    ],
)
def test_expressions_that_name_no_node_are_refused(text: str, reported: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_nodes(text)
    assert reported in str(error.value)


def test_an_expression_must_name_a_node() -> None:
    with pytest.raises(HarnessTimeout, match="names no node now"):
        resolve(parse_nodes("leader(t/0)"), Known(leader=-1))
    with pytest.raises(BadInput, match="the brokers are 1, 2, 3; name one of them"):
        resolve(parse_nodes("broker(7)"), Known())


def test_places() -> None:
    assert place_of("a/b/3") == ("a/b", 3)
    with pytest.raises(BadInput):
        place_of("a/*")


def test_isolation_is_mutual_and_leaves_other_links_alone() -> None:
    cut = set(isolation(2, ["brokers"], [1, 2, 3], [101]))
    assert cut == {("b2", "b1"), ("b2", "b3"), ("b1", "b2"), ("b3", "b2")}
    assert all((dst, src) in cut for src, dst in cut)


def test_isolation_by_sides() -> None:
    assert isolation(2, ["controllers"], [1, 2, 3], [101, 102]) == [("b2", "c101"), ("b2", "c102")]
    assert isolation(2, ["clients"], [1, 2, 3], [101]) == [("client", "b2")]
    assert len(isolation(2, ["brokers", "controllers", "clients"], [1, 2, 3], [101])) == 6
    with pytest.raises(BadInput, match="did you mean 'brokers'"):
        isolation(2, ["broker"], [1, 2, 3], [101])


def test_an_isolated_controller_hears_no_other_controller() -> None:
    cut = isolation(101, ["controllers"], [1, 2, 3], [101, 102])
    assert set(cut) == {("c101", "c102"), ("c102", "c101")}


def test_no_party_has_a_link_to_itself() -> None:
    assert between(["b1", "b2"], ["b1", "b2"]) == [("b1", "b2"), ("b2", "b1")]


def test_replicas_shift_around_the_cluster() -> None:
    assert shifted([1, 2], 1, (1, 2, 3)) == [2, 3]
    assert shifted([3, 1], 1, (1, 2, 3)) == [1, 2]
    assert shifted([1, 2], 2, (1, 2, 3)) == [3, 1]
    assert shifted([1, 2], 3, (1, 2, 3)) == [1, 2]
