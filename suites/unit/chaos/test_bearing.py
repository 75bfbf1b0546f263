"""The model of what a cluster can bear: what steps take from it, and which losses they permit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.chaos.bearing import Bearing, Taken, taken_by
from harness.faults.steps.registry import build_step
from harness.faults.steps.step import Kind
from harness.faults.steps.step_validation import StepValidation
from harness.model.scenario.scenario import (
    ClusterShape,
    Config,
    Producer,
    Reader,
    Scenario,
    Step,
    Topic,
    Transactions,
)


def scenario(*, acks: str = "all", replicas: int = 3, config: Config | None = None, controllers: int = 3) -> Scenario:
    return Scenario(
        name="s",
        title="",
        property="",
        shape=ClusterShape(controllers=controllers, log_dirs=2),
        topics=(Topic(name="t", replicas=replicas, config=config or {}),),
        producers=(Producer(name="p", topics=("t",), acks=acks, idempotent=acks == "all"),),
    )


def step(do: str, **args: object) -> Kind:
    return build_step(Step(do=do, name=do, args=args))


KILL = step("kill", node="leader(t/0)")
KILL_TWO = step("kill", node="brokers(1, 2)")
CUT = step("cut", src="followers(t/0)", dst="leader(t/0)")
SPLIT = step("split", into="ring")
LOST_DISK = step("damage", node="broker(1)", what="wiped")


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (KILL, Taken(brokers=1)),
        (KILL_TWO, Taken(brokers=2)),
        (step("kill", node="brokers"), Taken(brokers=3, alone=True)),
        (step("kill", node="controller"), Taken(controllers=1)),
        (step("quorum_lost"), Taken(controllers=3, alone=True)),
        (CUT, Taken(brokers=1)),
        (step("cut", src="leader(t/0)", dst="controllers"), Taken(brokers=1)),
        (step("cut", src="client", dst="leader(t/0)"), Taken(brokers=1)),
        (SPLIT, Taken(alone=True)),
        (LOST_DISK, Taken(brokers=1, copies=True)),
        (step("reassign_away", on=["t/0"]), Taken(alone=True)),
        (step("move_log_dirs", node="broker(1)"), Taken()),
        (step("reader_away", group="g"), Taken()),
        (step("move_leaders", on=["t/0"]), Taken()),
    ],
    ids=lambda value: value.do if isinstance(value, Kind) else "",
)
def test_what_a_step_takes_follows_from_its_facts_and_its_nodes(kind: Kind, wanted: Taken) -> None:
    assert taken_by(kind, StepValidation(scenario(), {})) == wanted


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (KILL, step("pause", node="broker(2)"), None),
        (KILL, KILL_TWO, "no broker would be left"),
        (KILL, LOST_DISK, "it needs a cluster that is whole"),
        (LOST_DISK, KILL, "another fault must be alone"),
        (SPLIT, KILL, "another fault must be alone"),
        (KILL, step("move_leaders", on=["t/0"]), "it needs a cluster that is whole"),
        (KILL, step("alter_topic", topic="t", config={"segment.bytes": "1048576"}), None),
        (step("reader_away", group="g"), step("move_leaders", on=["t/0"]), None),
        (step("kill", node="controller"), step("remove_voter"), None),
        (step("kill", node="controller"), step("pause", node="controller"), "no majority of the controllers"),
        (KILL, step("kill", node="controller"), None),
    ],
)
def test_the_cluster_bears_a_second_fault_or_refuses_it(first: Kind, second: Kind, why: str | None) -> None:
    of = scenario()
    bearing = Bearing(of, strict=True)
    bearing.add("first", first, StepValidation(of, {}))
    refusal = bearing.refusal(second, StepValidation(of, {"first": first}))
    assert refusal is None if why is None else refusal is not None and refusal.startswith(why)


def test_what_is_healed_is_borne_again() -> None:
    of = scenario()
    bearing = Bearing(of, strict=True)
    bearing.add("first", KILL, StepValidation(of, {}))
    bearing.heal("first")
    assert bearing.refusal(KILL_TWO, StepValidation(of, {"first": KILL})) is None


@pytest.mark.parametrize(
    ("of", "steps", "events"),
    [
        (scenario(), [KILL, KILL_TWO], set()),
        (scenario(acks="1"), [KILL], {"leader_dies"}),
        (scenario(acks="1"), [step("reader_away", group="g")], set()),
        (scenario(acks="1"), [step("move_leaders", on=["t/0"])], {"leader_moves"}),
        (scenario(config={"unclean.leader.election.enable": "true"}), [KILL], set()),
        (scenario(config={"unclean.leader.election.enable": "true"}), [CUT, KILL], {"last_in_sync_dies"}),
        (scenario(replicas=1, config={"min.insync.replicas": "1"}), [KILL], set()),
        (scenario(replicas=1, config={"min.insync.replicas": "1"}), [LOST_DISK], {"disk_of_one"}),
        (scenario(), [step("recreate_topic", topic="t")], {"topic_deleted"}),
    ],
)
def test_the_losses_that_steps_permit_are_those_of_the_contract(
    of: Scenario, steps: list[Kind], events: set[str]
) -> None:
    bearing = Bearing(of, strict=False)
    for number, kind in enumerate(steps):
        bearing.add(str(number), kind, StepValidation(of, {}))
    assert {one.event for one in bearing.permitted if one.topic == "t"} >= events
    assert bool(bearing.permitted) == bool(events)


def test_a_strict_plan_has_no_step_that_permits_a_loss() -> None:
    of = scenario(acks="1")
    refusal = Bearing(of, strict=True).refusal(KILL, StepValidation(of, {}))
    assert refusal is not None
    assert refusal.startswith("t may lose records: with acks=1")


def test_a_step_that_follows_others_comes_after_one_of_them() -> None:
    of = scenario()
    elect, bearing = step("elect_preferred"), Bearing(of, strict=True)
    assert bearing.refusal(elect, StepValidation(of, {})) == "no earlier step leaves what it needs"
    assert bearing.refusal(elect, StepValidation(of, {"killed": KILL})) is None
    assert bearing.refusal(elect, StepValidation(of, {"away": step("reader_away", group="g")})) is not None


def test_one_controller_may_not_be_cut_off() -> None:
    of = replace(scenario(), shape=ClusterShape(controllers=1))
    cut = step("cut", src="controllers", dst="controller")
    assert (
        Bearing(of, strict=True).refusal(cut, StepValidation(of, {})) == "no majority of the controllers would be left"
    )


AWAY = step("reader_away", group="g")
FOLLOWERS = step("cut_followers", of="t/0")
HELD = step("hold_frames", node="leader(t/0)", apis=["Produce"])
TOGGLED = step("reconfigure", topic="t", config={"compression.type": "gzip"})


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (AWAY, step("restart_reader", reader="member"), "another fault has the members of g"),
        (AWAY, step("reader_dies", group="g"), "another fault has the members of g"),
        (step("reader_paused", group="g"), step("reader_dies", group="g"), "another fault has the members of g"),
        (step("reader_dies", group="g"), step("reader_paused", group="g"), None),
        (AWAY, step("reader_paused", group="other"), None),
        (AWAY, step("restart_reader", reader="stranger"), None),
        (HELD, step("cut", src="client", dst="leader(t/0)"), "another fault has the links of clients"),
        (step("isolate", node="leader(t/1)", away_from=["clients"]), HELD, "another fault has the links of clients"),
        (HELD, step("reader_dies", group="g"), "members of a group may not reach their brokers"),
        (step("reader_dies", group="g"), HELD, "members of a group may not reach their brokers"),
        (HELD, step("slow", src="followers(t/0)", dst="leader(t/0)", latency_ms=50), None),
    ],
)
def test_no_step_waits_for_a_client_that_another_fault_has(first: Kind, second: Kind, why: str | None) -> None:
    members = (Reader(name="member", topics=("t",), group="g"), Reader(name="stranger", topics=("t",), group="other"))
    of = replace(scenario(), readers=members)
    bearing = Bearing(of, strict=True)
    bearing.add("first", first, StepValidation(of, {}))
    assert bearing.refusal(second, StepValidation(of, {"first": first})) == why
    bearing.heal("first")
    assert bearing.refusal(second, StepValidation(of, {"first": first})) is None


@pytest.mark.parametrize(
    ("of", "first", "second", "why"),
    [
        (scenario(), FOLLOWERS, TOGGLED, "t acknowledges nothing"),
        (scenario(), KILL, TOGGLED, None),
        (scenario(config={"min.insync.replicas": "1"}), FOLLOWERS, TOGGLED, None),
        (scenario(acks="1"), FOLLOWERS, TOGGLED, None),
        (scenario(replicas=2), KILL, step("pause", node="broker(2)"), "no topic acknowledges anything"),
        (scenario(replicas=2), KILL, step("kill", node="controller"), None),
        (scenario(), FOLLOWERS, step("reader_dies", group="g"), "no group could commit"),
    ],
)
def test_no_step_waits_for_acks_that_another_fault_prevents(
    of: Scenario, first: Kind, second: Kind, why: str | None
) -> None:
    bearing = Bearing(of, strict=False)
    bearing.add("first", first, StepValidation(of, {}))
    assert bearing.refusal(second, StepValidation(of, {"first": first})) == why


def test_transactions_need_the_topics_of_their_coordinators() -> None:
    plain = scenario(config={"min.insync.replicas": "1"})
    paid = replace(plain, producers=(Producer(name="p", topics=("t",), transactions=Transactions()),))
    refusals = []
    for of in (plain, paid):
        bearing = Bearing(of, strict=False)
        bearing.add("first", FOLLOWERS, StepValidation(of, {}))
        refusals.append(bearing.refusal(TOGGLED, StepValidation(of, {"first": FOLLOWERS})))
    assert refusals == [None, "t acknowledges nothing"]
