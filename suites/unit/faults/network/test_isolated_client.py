"""Isolated clients: their listener, the scenarios that may use it, and the proof that only they are cut off."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest

from harness.clusters.containers.subnets import Subnets
from harness.clusters.processes.addresses import Addresses
from harness.faults.steps import effect
from harness.faults.steps.effect import isolated_stalled
from harness.faults.steps.step_context import StepContext
from harness.kafka.settings.node_settings import Advertised, Node, node_properties
from harness.model.scenario.scenario import ClusterShape, Topic
from suites.unit.faults.steps.test_effect import P0, P1, World
from suites.unit.model.scenario.test_toml import read, refused

ISOLATED = ClusterShape(isolated_client=True)
TEXT = """
title = "t"
property = "g"
steps = [{ do = "cut", src = "isolated_client", dst = "brokers", name = "it" }]
[shape]
isolated_client = true
[topics]
plain = {}
own = {}
[producers]
plain = { topics = ["plain"] }
alone = { topics = ["own", "plain"], isolated_client = true }
[readers]
alone = { topics = ["plain"], isolated_client = true }
"""


@pytest.mark.parametrize("plan", [Addresses.of(3, ISOLATED), Subnets.of(3, ISOLATED)], ids=["processes", "containers"])
def test_the_listener_of_isolated_clients_has_its_own_proxies_and_addresses(plan: Any) -> None:
    links = {link.name: link for link in plan.links()}
    for broker in (1, 2, 3):
        mine, others = links[f"isolated_client-b{broker}"], links[f"client-b{broker}"]
        assert mine.listen != others.listen
        assert mine.upstream.rpartition(":")[0] == others.upstream.rpartition(":")[0]
        assert mine.upstream != others.upstream
    assert len({link.listen for link in links.values()}) == len(links)


def test_only_shapes_with_isolated_clients_have_the_listener() -> None:
    plan = Addresses.of(3, ClusterShape())
    assert not [link for link in plan.links() if link.src == "isolated_client"]
    assert plan.bootstrap_isolated() == ""
    assert Addresses.of(3, ISOLATED).bootstrap_isolated() == "127.19.5.1:21096,127.19.5.2:21096,127.19.5.3:21096"
    assert len(Subnets.of(3, ISOLATED).ports) == len(Subnets.of(3, ClusterShape()).ports) + 3


def test_a_broker_advertises_the_listener_in_addition(some_release: Any) -> None:
    both = Advertised(("127.1.2.1", 1), ("127.1.1.1", 2))
    node = Node(node=1, address="127.1.1.1", advertised=both, controllers=(101,), brokers=3, data=cast(Any, "/d"))
    assert "ISOLATED" not in node_properties(some_release, node)["listeners"]
    alone = Advertised(("127.1.2.1", 1), ("127.1.1.1", 2), ("127.1.5.1", 3))
    node = Node(node=1, address="127.1.1.1", advertised=alone, controllers=(101,), brokers=3, data=cast(Any, "/d"))
    found = node_properties(some_release, node)
    assert found["listeners"].endswith(",ISOLATED://127.1.1.1:21096")
    assert found["advertised.listeners"].endswith(",ISOLATED://127.1.5.1:3")


@pytest.fixture
def some_release() -> Any:
    return cast(Any, type("R", (), {"numbers": (4, 3, 1), "uses_log4j2": True})())


# --- refused when loaded ---


def test_an_isolated_client_is_read_from_the_scenario() -> None:
    assert read(TEXT).producers[1].isolated_client
    assert read(TEXT).readers[0].isolated_client


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        (
            "isolated_client = true\n[topics]",
            "[topics]",
            "producers.alone: isolated_client needs links of its own",
        ),
        ('["own", "plain"]', '["plain"]', "no isolated client has a topic for itself"),
        (", isolated_client = true }\n[readers]", " }\n[readers]", "no isolated client has a topic for itself"),
        (
            'plain = { topics = ["plain"] }',
            'plain = { topics = ["own"], isolated_client = true }',
            "every producer is an isolated client",
        ),
        ('dst = "brokers"', 'dst = "controller"', "clients connect to none"),
    ],
)
def test_a_cut_that_could_not_prove_an_effect_is_refused(old: str, new: str, reported: str) -> None:
    assert old in TEXT
    assert reported in refused(TEXT.replace(old, new))


# --- the effect ---


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> StepContext:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    world = World()
    monkeypatch.setattr(world, "isolated_places", lambda: {P0}, raising=False)
    topics = (Topic(name="t", partitions=2),)
    load = cast(Any, world)
    return StepContext(cluster=cast(Any, None), admin=load, load=load, rng=Random(1), topics=topics, say=lambda _: None)


@pytest.mark.parametrize(
    ("mine_s", "others_s", "held", "because"),
    [
        (2.0, 0.1, True, "acks stopped on t/0, and continued for the other clients on t/1"),
        (0.1, 0.1, False, "acks continued on t/0"),
        (2.0, 2.0, False, "acks stopped for all clients"),
        (0.7, 0.7, False, "acks stopped for all clients"),
        (0.9, 0.6, False, "acks stopped for all clients"),
    ],
)
def test_acks_must_stop_only_for_the_isolated_client(
    context: StepContext, mine_s: float, others_s: float, held: bool, because: str
) -> None:
    cast(Any, context.load).acks_ago_s = {P0: mine_s, P1: others_s}
    found = isolated_stalled(context, [P0])()
    assert found.held is held
    assert because in found.because


def test_an_isolated_client_without_acks_proves_nothing(context: StepContext) -> None:
    assert "no partition had acks in the last second" in isolated_stalled(context, [])().because
