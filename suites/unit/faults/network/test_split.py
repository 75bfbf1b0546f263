"""The shapes of a split, the links that it breaks, and when each side has lost something. All is scripted."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from harness.faults.network import split_effect
from harness.faults.network.links import Link
from harness.faults.network.shapes import Among, Machine, bridge, machines, minority, one_way, ring, torn
from harness.faults.network.split import Split
from harness.faults.steps import effect
from harness.faults.steps.step_context import StepContext
from harness.kafka.admin.client import Quorum
from harness.model.contract.internal_topics import TRANSACTIONS
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.link import Direction
from harness.model.scenario.scenario import Topic
from suites.unit.faults.steps.test_effect import P0, P1, World, state

FIVE = machines(range(1, 6), range(101, 106), "machines")
THREE = machines((1, 2, 3), (101, 102, 103), "machines")


def names(*of: Machine) -> list[str]:
    return ["+".join(sorted(machine)) for machine in of]


@pytest.mark.parametrize(
    ("among", "expected"),
    [
        ("machines", ["b1+c101", "b2+c102", "b3"]),
        ("brokers", ["b1", "b2", "b3"]),
        ("controllers", ["c101", "c102"]),
    ],
)
def test_a_machine_is_a_broker_with_the_controller_of_its_number(among: Among, expected: list[str]) -> None:
    assert names(*machines((1, 2, 3), (101, 102), among)) == expected


# --- shapes ---


@pytest.mark.parametrize("count", [3, 4, 5, 6, 7])
def test_in_a_ring_each_machine_hears_a_majority_and_no_two_hear_the_same(count: int) -> None:
    of = machines(range(1, count + 1), (), "brokers")
    drops = ring(of).drops
    heard = {machine: frozenset(of) - drops[machine] for machine in of}
    assert all(machine in heard[machine] and len(heard[machine]) == count // 2 + 1 for machine in of)
    assert len(set(heard.values())) == count


def test_in_a_ring_of_five_neighbours_hear_each_other() -> None:
    drops = ring(FIVE).drops
    assert {*names(*drops[FIVE[0]])} == {"b3+c103", "b4+c104"}
    assert {*names(*drops[FIVE[2]])} == {"b1+c101", "b5+c105"}


@pytest.mark.parametrize(("count", "expected"), [(3, True), (4, False), (5, False), (6, True)])
def test_some_rings_have_one_way_links(count: int, expected: bool) -> None:
    assert one_way(count) is expected


def test_a_minority_and_the_majority_hear_nothing_of_each_other() -> None:
    shape = minority(THREE, [THREE[1]])
    assert [names(*side) for side in shape.sides] == [["b2+c102"], ["b1+c101", "b3+c103"]]
    assert {*names(*shape.drops[THREE[1]])} == {"b1+c101", "b3+c103"}
    assert names(*shape.drops[THREE[0]]) == ["b2+c102"]


@pytest.mark.parametrize("few", [0, 2, 3])
def test_half_or_more_are_no_minority(few: int) -> None:
    of = machines((1, 2, 3, 4), (), "brokers")
    with pytest.raises(BadInput, match=f"{few} of 4 .* are no minority" if few else "0 of 4"):
        minority(of, of[:few])


def test_a_bridge_has_intact_links_to_both_halves() -> None:
    shape = bridge(FIVE, FIVE[2])
    assert [names(*side) for side in shape.sides] == [["b1+c101", "b2+c102"], ["b4+c104", "b5+c105"]]
    assert FIVE[2] not in shape.drops
    assert all(FIVE[2] not in others for others in shape.drops.values())


# --- the broken links ---

LINKS: list[Link] = [("b1", "b2"), ("b2", "b1"), ("b1", "c102"), ("b1", "c101"), ("b1", "b3"), ("b3", "b1")]


@pytest.mark.parametrize("direction", ["both", "requests", "answers"])
def test_links_between_two_sides_lose_the_chosen_direction(direction: Direction) -> None:
    lost = torn(LINKS, minority(THREE, [THREE[1]]), direction)
    assert lost == {("b1", "b2"): direction, ("b2", "b1"): direction, ("b1", "c102"): direction}


def test_a_one_way_link_loses_only_what_the_deaf_end_should_hear() -> None:
    three = machines((1, 2, 3), (), "brokers")
    shape = ring(three)
    assert names(*shape.drops[three[1]]) == ["b3"]
    assert names(*shape.drops[three[0]]) == ["b2"]
    lost = torn(LINKS, shape)
    # b1 hears nothing of b2: neither the requests of b2 nor its answers.
    assert lost["b2", "b1"] == "requests"
    assert lost["b1", "b2"] == "answers"


# --- refused when loaded ---


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ({"into": "ring", "node": "broker(1)"}, "leave it out"),
        ({"into": "minority"}, "name the node that is the minority"),
        ({"into": "bridge"}, "name the node that is the bridge"),
        ({"into": "ring", "mode": "slow"}, 'are missing for mode = "slow"'),
        ({"into": "ring", "latency_ms": 5}, 'need mode = "slow"'),
        ({"into": "ring", "down_s": 1.0}, "belong together"),
        ({"into": "ring", "mode": "refusing", "direction": "answers"}, "leave out direction"),
    ],
)
def test_arguments_that_exclude_each_other_are_refused(arguments: dict[str, Any], reported: str) -> None:
    with pytest.raises(BadInput, match=reported):
        Split(**arguments)


# --- the effect ---

APART: dict[Link, Direction] = {("b1", "b2"): "both", ("b2", "b1"): "both"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(effect, "ACKS_DEADLINE_S", 0.1)
    monkeypatch.setattr(effect, "METADATA_LOOK_S", 0.001)
    monkeypatch.setattr(split_effect, "STILL_S", 0.0)
    return World()


@pytest.fixture
def context(world: World) -> StepContext:
    return StepContext(
        cluster=cast(Any, type("Nodes", (), {"controllers": (101, 102, 103)})),
        admin=cast(Any, world),
        load=cast(Any, world),
        rng=Random(1),
        topics=(Topic(name="t", partitions=2),),
        say=lambda _: None,
    )


def probe_of(context: StepContext, *, control: bool = False) -> effect.Probe:
    """Brokers 1 and 2 are separated, and 3 is their bridge."""
    shape = bridge(THREE, THREE[2])
    lost = {("c101", "c102"): "both"} if control else APART
    return split_effect.split_effect(context, shape, cast(dict[Link, Direction], lost), 0.0, control=control)


def test_a_follower_that_left_the_isr_counts_for_both_sides(context: StepContext, world: World) -> None:
    probe = probe_of(context)
    assert not probe().held
    world.states = [state(0, 1, 5, isr=(1, 3)), state(1, 2, 5)]
    found = probe()
    assert found.held
    assert found.seen == {"b1+c101": {"t/0": "2 left the ISR of t/0"}, "b2+c102": {"t/0": "2 left the ISR of t/0"}}


def test_a_leader_that_was_replaced_counts(context: StepContext, world: World) -> None:
    probe = probe_of(context)
    world.states = [state(0, 3, 6), state(1, 2, 5)]
    assert "in place of 1" in probe().because


def test_a_follower_that_only_the_bridge_lost_does_not_count(context: StepContext, world: World) -> None:
    probe = probe_of(context)
    world.states = [state(0, 1, 5, isr=(1, 2)), state(1, 2, 5, isr=(2, 1))]
    found = probe()
    assert not found.held
    assert "b1+c101, b2+c102 lost nothing on t/0, t/1" in found.because


def test_a_log_that_does_not_grow_below_its_leader_s_counts_at_the_second_look(
    context: StepContext, world: World
) -> None:
    world.ends = {("t", 0, 1): 50, ("t", 0, 2): 40}
    probe = probe_of(context)
    world.ends = {("t", 0, 1): 60, ("t", 0, 2): 40}
    assert "the log of t/0 on 2 stays at 40" in probe().because


def test_a_log_that_grows_has_lost_nothing(context: StepContext, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_effect, "STILL_S", 60.0)
    world.ends = {("t", 0, 1): 50, ("t", 0, 2): 40}
    probe = probe_of(context)
    probe()
    world.ends = {("t", 0, 1): 60, ("t", 0, 2): 59}
    assert not probe().held


def test_a_split_without_load_proves_nothing(context: StepContext, world: World) -> None:
    world.acks_ago_s = {P0: 5.0, P1: 5.0}
    probe = probe_of(context)
    world.states = [state(0, 1, 5, isr=(1, 3)), state(1, 2, 5)]
    assert "no partition with acks in the last second has replicas on several sides" in probe().because


def test_the_log_of_a_coordinator_counts_because_its_clients_wait_for_it(context: StepContext, world: World) -> None:
    coordinated = replace(state(0, 1, 3), topic=TRANSACTIONS)
    context.internal, world.states = (Topic(name=TRANSACTIONS, partitions=1),), [*world.states, coordinated]
    probe = probe_of(context)
    assert not probe().held
    world.states = [*world.states[:2], replace(coordinated, isr=(1, 3))]
    assert probe().seen["b1+c101"] == {f"{TRANSACTIONS}/0": f"2 left the ISR of {TRANSACTIONS}/0"}


def reported(monkeypatch: pytest.MonkeyPatch, world: World, *answers: Quorum | None) -> None:
    """The quorum that the controllers report, look by look; None = no controller leads."""
    left = list(answers)

    def quorum(deadline_s: float = 20.0) -> Quorum:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if answer is None:
            raise HarnessTimeout(f"none leads for {deadline_s:g} s")
        return answer

    monkeypatch.setattr(world, "quorum", quorum)


def led(leader: int, epoch: int, behind: int = 0) -> Quorum:
    voters = {101: 500, 102: 500 - behind, 103: 500}
    return Quorum(leader=leader, leader_epoch=epoch, high_watermark=500, voters=voters, observers={})


@pytest.mark.parametrize(
    ("then", "held", "because"),
    [
        (led(103, 5), True, "103 leads in epoch 5"),
        (None, True, "there is none"),
        (led(101, 4, behind=9), True, "[102] lagged"),
        (led(101, 4), False, "[102] kept up"),
    ],
)
def test_controllers_that_lost_their_leader_or_its_log_prove_the_effect(
    context: StepContext, world: World, monkeypatch: pytest.MonkeyPatch, then: Quorum | None, held: bool, because: str
) -> None:
    reported(monkeypatch, world, led(101, 4), then)
    found = probe_of(context, control=True)()
    assert found.held is held
    assert because in found.because


def test_controllers_that_reach_their_leader_prove_nothing(
    context: StepContext, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported(monkeypatch, world, led(103, 4))
    assert "every controller still reaches the active one, 103" in probe_of(context, control=True)().because
