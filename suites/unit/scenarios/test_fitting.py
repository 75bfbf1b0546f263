"""Which scenarios an existing cluster can play: each reason has a scenario that it refuses, and one that not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness import scenarios
from harness.faults.steps.registry import check_steps
from harness.model.contract.contract import MIN_INSYNC, UNCLEAN
from harness.model.contract.internal_topics import OFFSETS, SHARE_STATE, TRANSACTIONS
from harness.model.live_cluster import InternalTopic, LiveCluster
from harness.model.scenario import toml
from harness.model.scenario.scenario import Scenario
from harness.scenarios.fitting import Abilities, disturbs, fitted, misfit
from suites.unit.live_clusters import live, with_settings

NODES = frozenset({"kill", "restart", "terminate", "pause"})
ALL = NODES | {"links", "links.cut", "links.slow"}
KILL = {"do": "kill", "node": "leader(plain/0)", "name": "k"}
TRANSACTIONAL = {"payments": {"topics": ["plain"], "transactions": {"records": 3}}}
GROUPED = {"grouped": {"topics": ["plain"], "group": "readers"}}


def scenario(*steps: Mapping[str, object], **changes: object) -> Scenario:
    plain: dict[str, object] = {
        "title": "t",
        "property": "p",
        "tags": ["own"],
        "steps": list(steps),
        "topics": {"plain": {"partitions": 2}},
        "producers": {"plain": {"topics": ["plain"]}},
        "readers": {"alone": {"topics": ["plain"]}},
        **changes,
    }
    return toml.from_plain(plain, "mine", check_steps)


def reason(one: Scenario, cluster: LiveCluster | None = None, able: frozenset[str] = ALL) -> str | None:
    said = misfit(one, cluster or live(), Abilities(able, able))
    assert said is None or (said.startswith(f"scenario {one.name}: ") and "\n" not in said)
    return said


def with_offsets(cluster: LiveCluster, name: str = OFFSETS, replicas: int = 3, partitions: int = 10) -> LiveCluster:
    topic = InternalTopic(partitions=partitions, replicas=replicas, settings={MIN_INSYNC: "2", UNCLEAN: "false"})
    return replace(cluster, internal={name: topic})


def test_a_load_alone_needs_no_hook() -> None:
    assert reason(scenario(), able=frozenset()) is None
    assert reason(scenario(producers=TRANSACTIONAL, readers=GROUPED), live(combined=True), frozenset()) is None
    assert not disturbs(scenario())


def test_a_fault_needs_its_hook() -> None:
    assert reason(scenario(KILL), able=NODES) is None
    assert disturbs(scenario(KILL))
    said = reason(scenario(KILL), able=frozenset({"pause"}))
    assert said is not None
    assert said.startswith("scenario mine: step k: no hook can do `kill` (it needs kill")
    assert said.endswith("describe it in --hooks")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fresh": True}, "it needs a cluster of its own"),
        ({"shape": {"secure": True}}, "listeners with the certificates and passwords of the harness"),
        ({"admin": {"ops": {"does": ["topics"]}}}, "its admins change settings, users and ACLs of the whole cluster"),
        ({"shape": {"brokers": 4}}, "it needs 4 brokers, and the cluster has 3"),
        ({"shape": {"log_dirs": 2}}, "it needs 2 log directories on each broker, and a broker has 1"),
        ({"shape": {"config": {"log.cleaner.backoff.ms": "1"}}}, "needs log.cleaner.backoff.ms=1 on every broker"),
        ({"shape": {"features": {"transaction.version": 1}}}, "transaction.version at level 1, and the cluster has"),
    ],
)
def test_a_cluster_that_is_another_one_is_refused(changes: dict[str, object], said: str) -> None:
    assert said in str(reason(scenario(**changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": {"brokers": 3}},
        {"shape": {"config": {"log.cleaner.backoff.ms": "15000"}}},
        {"shape": {"features": {"transaction.version": 2}}},
    ],
)
def test_a_cluster_that_is_as_wanted_is_taken(changes: dict[str, object]) -> None:
    assert reason(scenario(**changes)) is None


def test_one_broker_with_another_setting_is_enough() -> None:
    one = scenario(shape={"config": {"log.cleaner.backoff.ms": "15000"}})
    other = with_settings(live(), 2, log_cleaner_backoff_ms="1")
    assert "and broker 2 has 1" in str(reason(one, other))


@pytest.mark.parametrize(
    ("name", "changes"),
    [(OFFSETS, {"readers": GROUPED}), (TRANSACTIONS, {"producers": TRANSACTIONAL})],
)
def test_topics_of_kafka_that_a_scenario_uses_need_their_replicas(name: str, changes: dict[str, object]) -> None:
    few = with_offsets(live(), name, replicas=1)
    assert f"it needs 3 replicas of {name}, and the cluster has 1" in str(reason(scenario(**changes), few))
    assert reason(scenario(**changes), with_offsets(live(), name)) is None
    assert reason(scenario(), few) is None  # which does not use it


def test_before_a_topic_of_kafka_exists_the_setting_counts_that_will_make_it() -> None:
    few = with_settings(live(), offsets_topic_replication_factor="1")
    assert f"it needs 3 replicas of {OFFSETS}, and the cluster has 1" in str(reason(scenario(readers=GROUPED), few))


def test_clients_of_the_release_need_to_know_the_release() -> None:
    java = scenario(readers={"alone": {"topics": ["plain"], "client": "java"}})
    assert reason(java) is None
    assert "say by --kafka" in str(reason(java, live(version=None)))
    assert "say by --kafka" in str(reason(scenario(since="4.0.0"), live(version=None)))
    assert reason(scenario(), live(version=None)) is None


def test_a_step_about_controllers_needs_some_that_are_no_brokers() -> None:
    one = scenario({"do": "kill", "node": "controller", "name": "con"}, shape={"controllers": 3})
    three = replace(live(), voters=(7, 8, 9))
    assert reason(one, three) is None
    assert "needs 3 controllers, and there are 1" in str(reason(one))
    assert "those of this cluster are its brokers" in str(reason(one, live(combined=True)))
    said = misfit(one, three, Abilities(ALL, frozenset({"pause"})))
    assert said is not None
    assert "no hook can do `kill`" in said
    assert "of a controller" in said


def test_a_majority_of_controllers_stays_up() -> None:
    heal = {"do": "heal", "fault": "k"}
    other = {"do": "kill", "node": "broker(2)", "name": "two"}
    both, turns = scenario(KILL, other), scenario(KILL, heal, other)
    assert "step two stops 2 brokers at once, which are controllers, too" in str(reason(both, live(combined=True)))
    assert reason(turns, live(combined=True)) is None
    assert reason(both) is None  # whose controller is another process


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            {"do": "reconfigure", "node": "leader(plain/0)", "config": {"log.cleaner.threads": "2"}},
            "which others use, too",
        ),
        ({"do": "crash_loop", "node": "leader(plain/0)"}, "which no cluster has that the harness did not start"),
        ({"do": "cut", "src": "client", "dst": "leader(plain/0)"}, "breaks links of clients"),
    ],
)
def test_steps_that_would_touch_others_or_need_files_are_refused(step: dict[str, object], said: str) -> None:
    assert said in str(reason(scenario(step)))


def test_links_between_brokers_need_a_hook_for_what_breaks_them() -> None:
    cut = scenario({"do": "cut", "src": "followers(plain/0)", "dst": "leader(plain/0)", "name": "c"})
    assert reason(cut, able=NODES | {"links", "links.cut"}) is None
    assert "it needs links.cut" in str(reason(cut, able=NODES | {"links", "links.slow"}))


def test_a_step_that_changes_a_topic_of_kafka_is_refused_and_one_that_waits_for_it_is_not() -> None:
    wait = scenario(KILL, {"do": "wait_leader_changed", "on": ["plain/0"], "since": "k"}, readers=GROUPED)
    assert reason(wait) is None
    elect = scenario({"do": "elect_preferred", "on": [f"{OFFSETS}/0"]}, readers=GROUPED)
    assert f"changes {OFFSETS}/0, which belongs to Kafka and serves others, too" in str(reason(elect))
    assert reason(scenario({"do": "elect_preferred", "on": ["plain/0"]})) is None


WAIT = {"do": "wait_out_of_sync", "on": ["plain/0"], "node": "follower(plain/0)", "deadline_s": 60}


@pytest.mark.parametrize(("interval_ms", "deadline_s"), [("30000", 60), ("42000", 60), ("43000", 61), ("400000", 571)])
def test_a_wait_is_long_enough_for_the_slowest_broker(interval_ms: str, deadline_s: int) -> None:
    slow = with_settings(live(), 3, replica_lag_time_max_ms=interval_ms)
    assert reason(scenario(WAIT), slow) is None
    (step,) = fitted(scenario(WAIT), slow, "own_").steps
    assert step.args["deadline_s"] == deadline_s


def test_a_wait_for_what_brokers_hardly_ever_do_is_refused() -> None:
    slow = with_settings(live(), 3, replica_lag_time_max_ms="430000")
    said = "step wait_out_of_sync would wait too long for brokers with replica.lag.time.max.ms=430000, which broker 3"
    assert said in str(reason(scenario(WAIT), slow))
    assert reason(scenario(WAIT | {"deadline_s": 700}), slow) is None  # as its author wants it


def test_without_hooks_a_cluster_with_kafkas_defaults_can_play_the_calm_scenario() -> None:
    assert reason(scenarios.load("calm"), able=frozenset()) is None


# --- names and settings -----------------------------------------------------------------------------------------------


def test_a_fitted_scenario_has_the_clusters_shape_and_names_of_its_own() -> None:
    found = fitted(scenario(readers=GROUPED), with_offsets(live(ids=(4, 7, 9))), "own_")
    assert [topic.name for topic in found.topics] == ["own_plain"]
    assert found.shape.brokers == 3
    assert found.shape.config["offsets.topic.num.partitions"] == "10"
    assert found.shape.config[MIN_INSYNC] == "2"  # of the topic of Kafka's own


def test_topics_get_the_settings_on_which_promises_depend_whatever_the_cluster_has() -> None:
    (topic,) = fitted(scenario(), with_settings(live(), unclean_leader_election_enable="true"), "own_").topics
    assert topic.config[UNCLEAN] == "false"
    assert topic.config[MIN_INSYNC] == "2"
    own = scenario(topics={"plain": {"config": {MIN_INSYNC: "1", "cleanup.policy": "compact"}}})
    (topic,) = fitted(own, live(), "own_").topics
    assert (topic.config[MIN_INSYNC], topic.config["cleanup.policy"]) == ("1", "compact")


def test_every_scenario_that_fits_can_be_built_again() -> None:
    cluster = with_settings(live(), auto_create_topics_enable="false", log_retention_check_interval_ms="1000")
    able = Abilities(ALL, ALL)
    fitting = [one for one in scenarios.every().values() if misfit(one, cluster, able) is None]
    assert len(fitting) > 10
    for one in fitting:
        found = fitted(one, cluster, "own_")
        again = toml.from_plain(toml.to_plain(replace(found, negative_control=None)), one.name, check_steps)
        assert again.topics == found.topics


def test_share_groups_need_the_topic_that_keeps_their_state() -> None:
    one = next(
        s for s in scenarios.every().values() if s.share_groups and misfit(s, live(), Abilities(ALL, ALL)) is None
    )
    few = with_offsets(live(), SHARE_STATE, replicas=1)
    assert SHARE_STATE in str(reason(one, few))
