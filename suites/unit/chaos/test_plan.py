"""Generated plans: each is legal, and the same in every process.

CHAOS_PLANS is the number of plans; the full proof makes 100,000, which take a quarter of an hour.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Final

import pytest

from harness.chaos import profile
from harness.chaos.arguments import undrawable
from harness.chaos.bearing import AWAY, COPY_LOST, taken_by
from harness.chaos.plan import Plan, is_planted, plan_of, usable
from harness.faults.failpoints.code_point import Load
from harness.faults.failpoints.points import POINTS
from harness.faults.steps.registry import KINDS, build_step, check_steps, is_disturbance
from harness.faults.steps.step import Action, Fault, Kind
from harness.faults.steps.step_validation import StepValidation
from harness.model.contract.contract import contract_of
from harness.model.facts import FactKind
from harness.model.scenario import toml
from harness.model.scenario.toml_text import text_of

PLANS: Final = int(os.environ.get("CHAOS_PLANS", "400"))
SEED: Final = 20_261_128
# So many of 100 plans are made twice.
TWICE_PERCENT: Final = 5
PROFILES: Final = profile.names()


@cache
def made(name: str) -> tuple[Plan, ...]:
    chosen = profile.load(name)
    return tuple(plan_of(SEED, chosen, episode) for episode in range(1, PLANS // len(PROFILES) + 1))


@pytest.fixture(params=PROFILES)
def plans(request: pytest.FixtureRequest) -> tuple[Plan, ...]:
    return made(request.param)


def test_every_plan_is_accepted_as_a_file(plans: tuple[Plan, ...]) -> None:
    for plan in plans:
        scenario = plan.scenario
        assert toml.parse(text_of(scenario), scenario.name, check_steps) == scenario
        assert set(contract_of(scenario).topics) == {topic.name for topic in scenario.topics}


def test_something_happens_in_each_round_of_every_plan(plans: tuple[Plan, ...]) -> None:
    assert all(plan.happenings and all(plan.happenings) for plan in plans)


def test_no_plan_breaks_more_than_the_cluster_can_bear(plans: tuple[Plan, ...]) -> None:
    """A second reading of the plans, independent of the model that made them."""
    for plan in plans:
        shape, earlier = plan.scenario.shape, dict[str, Kind]()
        active: dict[str, tuple[int, int, bool]] = {}
        for step in plan.scenario.steps:
            kind, around = build_step(step), StepValidation(plan.scenario, earlier)
            facts = {fact.kind for fact in kind.declared()}
            if step.do == "heal":
                del active[str(step.args["fault"])]
            elif isinstance(kind, Fault):
                taken = taken_by(kind, around)
                alone = bool(facts & (COPY_LOST | {FactKind.QUORUM_LOST})) or taken.brokers >= shape.brokers
                assert not (alone and any(b or c for b, c, _ in active.values())), text_of(plan.scenario)
                assert not any(other for _, _, other in active.values()), text_of(plan.scenario)
                active[step.name] = (taken.brokers, taken.controllers, alone)
                brokers, controllers = (sum(one[i] for one in active.values()) for i in (0, 1))
                assert brokers < shape.brokers or len(active) == 1, text_of(plan.scenario)
                assert controllers <= (shape.controllers - 1) // 2 or FactKind.QUORUM_LOST in facts
            elif isinstance(kind, Action) and is_disturbance(kind):
                assert not any(b or c for b, c, _ in active.values()), text_of(plan.scenario)
            elif step.do == "wait_healthy":
                assert not active
            earlier[step.name] = kind
        assert not active


def test_most_plans_permit_no_loss_and_those_that_do_name_the_topic(plans: tuple[Plan, ...]) -> None:
    permitting = [plan for plan in plans if plan.permitted]
    assert len(permitting) < len(plans) / 4
    for plan in permitting:
        assert all(one.topic in plan.scenario.property for one in plan.permitted)


def test_plans_that_delete_records_permit_it_and_no_others(plans: tuple[Plan, ...]) -> None:
    deleting = [plan.scenario for plan in plans if "delete_records" in {step.do for step in plan.scenario.steps}]
    assert deleting
    assert [plan.scenario for plan in plans if plan.scenario.allowed_anomalies.delete_records] == deleting


def test_a_topic_with_acks_1_may_lose_records_and_a_strict_one_may_not() -> None:
    weak = [
        plan
        for name in PROFILES
        for plan in made(name)
        if any(producer.acks == "1" for producer in plan.scenario.producers) and plan.permitted
    ]
    assert weak
    for plan in made("default"):
        acks = {producer.acks for producer in plan.scenario.producers}
        unclean = any("unclean.leader.election.enable" in topic.config for topic in plan.scenario.topics)
        deleted = any(step.do == "recreate_topic" for step in plan.scenario.steps)
        single = any(topic.replicas == 1 for topic in plan.scenario.topics)
        if acks == {"all"} and not unclean and not deleted and not single:
            assert not plan.permitted, plan.permitted


def test_a_plan_is_the_same_in_another_process() -> None:
    chosen = {name: range(1, len(made(name)) + 1, 100 // TWICE_PERCENT) for name in PROFILES}
    here = "".join(text_of(made(name)[episode - 1].scenario) for name, those in chosen.items() for episode in those)
    program = (
        "from harness.chaos import profile\n"
        "from harness.chaos.plan import plan_of\n"
        "from harness.model.scenario.toml_text import text_of\n"
        f"for name, those in {chosen!r}.items():\n"
        "    for episode in those:\n"
        f"        print(text_of(plan_of({SEED}, profile.load(name), episode).scenario), end='')\n"
    )
    for hash_seed in ("1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == here


def test_without_a_kind_only_the_steps_that_it_had_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = profile.load("default")
    before = made("default")
    kill = next(kind for kind in KINDS if kind.do == "kill")
    monkeypatch.setattr(kill, "by_hand", "for this test")
    for plan in before[:60]:
        now = plan_of(SEED, chosen, plan.episode)
        assert now.scenario.topics == plan.scenario.topics
        if not any("kill" in each for each in plan.happenings):
            assert now.happenings == plan.happenings
            assert now.scenario.steps == plan.scenario.steps


def test_variations_of_an_episode_have_the_same_cluster() -> None:
    chosen = profile.load("default")
    first, second = (plan_of(SEED, chosen, 5, variation) for variation in (0, 1))
    assert first.scenario.shape == second.scenario.shape
    assert first.scenario.steps != second.scenario.steps


def test_episodes_of_a_block_share_the_shape_of_their_cluster() -> None:
    chosen = replace(profile.load("default"), block=10)
    shapes = [plan_of(SEED, chosen, episode).scenario.shape for episode in range(1, 31)]
    assert all(len({str(shape) for shape in shapes[at : at + 10]}) == 1 for at in (0, 10, 20))
    assert len({str(shape) for shape in shapes}) > 1


def test_every_fault_is_generated_or_says_why_not() -> None:
    for kind in KINDS:
        if is_disturbance(kind) and not kind.by_hand:
            assert not undrawable(kind), f"{kind.do}: declare `drawn` for {undrawable(kind)}, or `by_hand`"


def test_the_profiles_use_most_kinds() -> None:
    met = Counter(do for name in PROFILES for plan in made(name) for each in plan.happenings for do in each)
    known = {kind.do for name in PROFILES for kind in usable(profile.load(name))}
    assert len(met) > len(known) / 2
    assert set(met) <= known


def test_facts_that_take_nodes_away_are_those_of_disturbances() -> None:
    for kind in KINDS:
        if not is_disturbance(kind):
            assert not {fact.kind for fact in kind.facts} & AWAY, kind.do


def test_a_planted_episode_deletes_records_that_no_fact_explains_and_permits_no_loss() -> None:
    chosen = profile.load("default")
    for episode in range(1, 41):
        plan = plan_of(SEED, chosen, episode, planted=True)
        assert is_planted(plan.scenario)
        assert not is_planted(plan_of(SEED, chosen, episode).scenario)
        *_, last = plan.scenario.steps
        assert (last.do, plan.permitted) == ("plant_loss", ())
        assert build_step(last).declared() == ()
        assert plan.scenario.title.startswith("A planted loss must be found.")


def test_no_plan_plants_a_loss_by_chance(plans: tuple[Plan, ...]) -> None:
    assert not any(is_planted(plan.scenario) for plan in plans)


def test_a_majority_must_serve_while_processes_of_a_minority_stay_down(plans: tuple[Plan, ...]) -> None:
    for plan in plans:
        shape, earlier, active = plan.scenario.shape, dict[str, Kind](), dict[str, tuple[int, Kind]]()
        for step in plan.scenario.steps:
            kind, around = build_step(step), StepValidation(plan.scenario, earlier)
            if step.do == "heal":
                del active[str(step.args["fault"])]
            elif isinstance(kind, Fault):
                active[step.name] = (taken_by(kind, around).brokers, kind)
            elif step.name.endswith("_majority"):
                ((away, broken),) = active.values()
                assert away <= (shape.brokers - 1) // 2
                assert {fact.kind for fact in broken.declared()} <= {FactKind.STOPPED, FactKind.FROZEN}
                for topic in around.topics_of(tuple(step.args["on"])):  # type: ignore[arg-type]
                    assert topic.replicas - away >= int(topic.config.get("min.insync.replicas", "2"))
            earlier[step.name] = kind


def test_some_episodes_of_the_default_profile_end_with_a_broken_minority() -> None:
    waits = [step for plan in made("default") for step in plan.scenario.steps if step.name.endswith("_majority")]
    assert len(waits) >= len(made("default")) // 20


def test_generated_failpoints_fail_disks_and_reach_the_work_of_every_named_node() -> None:
    chosen = profile.load("failpoints")
    plans = [plan_of(SEED, chosen, episode) for episode in range(1, 201)]
    steps = [step for plan in plans for step in plan.scenario.steps if step.do == "failpoint"]
    acts = Counter(str(step.args.get("action", "kill")) for step in steps)
    assert acts["io_error"] > len(steps) / 20
    met = {POINTS[str(step.args["point"])].load for step in steps}
    assert met == set(Load)


def test_a_generated_failpoint_is_at_a_point_that_its_node_passes(plans: tuple[Plan, ...]) -> None:
    for plan in plans:
        for step in plan.scenario.steps:
            if step.do == "failpoint" and POINTS[str(step.args["point"])].load is Load.TRANSACTIONS:
                assert str(step.args["node"]).startswith("txn_coordinator(")
            elif step.do == "failpoint":
                assert POINTS[str(step.args["point"])].generated


def test_a_cluster_on_an_earlier_release_is_upgraded_with_faults_between_and_after() -> None:
    raised = 0
    for episode in range(1, 41):
        plan = plan_of(SEED, profile.load("upgrade"), episode)
        steps = [step.name for step in plan.scenario.steps if step.do not in ("hold", "wait_effect")]
        assert plan.scenario.fresh
        assert steps[0] == "controllers_up"
        assert steps.index("r1_acks") < steps.index("brokers_up") < steps.index("r2_acks")
        assert len(plan.happenings) == 2
        raised += steps[steps.index("brokers_up") + 1] == "raised"
    assert 10 < raised < 30


def test_a_cluster_with_one_release_is_not_upgraded() -> None:
    assert not any(step.do in ("roll", "raise_features") for plan in made("default") for step in plan.scenario.steps)


def test_a_fault_that_takes_the_controllers_is_healed_before_the_others(plans: tuple[Plan, ...]) -> None:
    for plan in plans:
        earlier, alone = dict[str, Kind](), dict[str, bool]()
        for step in plan.scenario.steps:
            kind = build_step(step)
            if step.do == "heal":
                first = alone.pop(str(step.args["fault"]))
                assert first or not any(alone.values()), plan.scenario.title
            elif isinstance(kind, Fault):
                alone[step.name] = taken_by(kind, StepValidation(plan.scenario, earlier)).alone
            earlier[step.name] = kind


def test_what_needs_clients_of_its_node_is_drawn_only_where_a_client_writes() -> None:
    """Another broker may lead nothing."""
    seen = set()
    for number in range(1, 400):
        scenario = plan_of(11, profile.load("default"), number).scenario
        for step in scenario.steps:
            of_clients = step.do == "isolate" and step.args["away_from"] == ["clients"]
            if not of_clients and step.do not in ("hold_frames", "lose_answers"):
                continue
            topic = str(step.args["node"]).removeprefix("leader(").partition("/")[0]
            assert topic in scenario.fed, f"{number}: {step}"
            seen.add(step.do)
    assert seen == {"hold_frames", "lose_answers", "isolate"}


def test_a_fault_that_shows_its_effect_only_when_it_is_healed_lasts(plans: tuple[Plan, ...]) -> None:
    for plan in plans:
        steps = plan.scenario.steps
        for number, step in enumerate(steps):
            kind = build_step(step)
            if isinstance(kind, Fault) and kind.proven_late:
                (healed,) = [n for n, s in enumerate(steps) if s.do == "heal" and s.args["fault"] == step.name]
                between = [s.do for s in steps[number:healed]]
                assert {"hold", "wait_acks"} & set(between), plan.scenario.title
