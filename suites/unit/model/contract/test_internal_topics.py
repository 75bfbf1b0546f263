"""Kafka's own topics in steps: which partition keeps a group's offsets, and which steps may name such a partition."""

from __future__ import annotations

import pytest

from harness.faults.steps.step_context import StepContext
from harness.model.contract.internal_topics import internal_topics, state_partition
from harness.model.scenario.scenario import ClusterShape
from suites.unit.faults.steps.scripted import context_on
from suites.unit.faults.steps.test_step_validation import with_steps
from suites.unit.model.scenario.test_toml import read, refused

MANY = (1 << 31) - 1


@pytest.mark.parametrize(
    ("group", "partitions", "partition"),
    [
        ("hello", MANY, 99162322),
        ("polygenelubricants", 50, 0),  # its hash is the least number, which has no absolute value
        ("zzzzzz", MANY, 685785664),  # is negative
        ("ä", MANY, 0xE4),
        ("😀", MANY, 31 * 0xD83D + 0xDE00),  # two units of UTF-16
        ("hello", 50, 22),
    ],
)
def test_the_partition_of_a_group_follows_from_javas_hash(group: str, partitions: int, partition: int) -> None:
    assert state_partition(group, partitions) == partition


def test_broker_settings_decide_the_number_of_partitions() -> None:
    few = ClusterShape(brokers=2, config={"offsets.topic.num.partitions": "4"})
    assert [(t.name, t.partitions, t.replicas) for t in internal_topics(few)] == [
        ("__consumer_offsets", 4, 2),
        ("__transaction_state", 5, 2),
    ]


def test_with_a_tier_there_is_its_metadata_topic() -> None:
    config = {
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "2",
    }
    reported = [internal_topics(ClusterShape(tier="local", config=settings))[-1] for settings in ({}, config)]
    assert [(t.name, t.partitions, t.replicas) for t in reported] == [
        ("__remote_log_metadata", 5, 3),
        ("__remote_log_metadata", 1, 2),
    ]


def test_a_group_in_a_step_is_replaced_by_its_partition() -> None:
    place = f"__consumer_offsets/{state_partition('readers', 10)}"
    scenario = read(
        with_steps(
            '{ do = "cut_followers", of = "offsets(readers)", name = "cut" }',
            '{ do = "kill", node = "leader( offsets(readers))", name = "kill" }',
            '{ do = "wait_leader_changed", on = ["offsets(readers)", "plain/0"], since = "kill" }',
            '{ do = "alter_topic", topic = "__consumer_offsets", config = { "segment.ms" = 1 } }',
            '{ do = "elect_unclean", on = ["__consumer_offsets/*"] }',
        )
    )
    assert scenario.steps[0].args["of"] == place
    assert scenario.steps[1].args["node"] == f"leader( {place})"
    assert scenario.steps[2].args["on"] == [place, "plain/0"]


@pytest.mark.parametrize(
    ("step", "reported"),
    [
        ('do = "cut_followers", of = "offsets(reader)"', "offsets(reader): no group 'reader'; did you mean 'readers'?"),
        ('do = "kill", node = "leader(__consumer_ofsets/0)"', "did you mean '__consumer_offsets'?"),
        ('do = "kill", node = "leader(__consumer_offsets/10)"', "has 10 partitions, counted from 0"),
        ('do = "wait_isr_alone", on = ["__transaction_state/7"]', "has 5 partitions, counted from 0"),
        (
            'do = "wait_acks", on = ["offsets(readers)"]',
            "this step needs a producer, and none writes to __consumer_offsets",
        ),
        ('do = "produce", producer = "held", to = "__consumer_offsets/0", records = 1', "name a topic of the scenario"),
        ('do = "reconfigure", topic = "__consumer_offsets", config = {}', "name a topic of the scenario"),
        ('do = "delete_group", group = "readers"', 'add a step before this one: { do = "reader_away"'),
    ],
)
def test_an_unknown_place_and_a_place_without_load_are_refused(step: str, reported: str) -> None:
    assert reported in refused(with_steps(f"{{ {step} }}"))


def test_a_stage_names_places_of_topics_that_are_kafkas_own() -> None:
    context: StepContext = context_on(None)
    context.internal = internal_topics(ClusterShape(config={"offsets.topic.num.partitions": "2"}))
    assert context.places(["__consumer_offsets/*", "t/0"]) == [
        ("__consumer_offsets", 0),
        ("__consumer_offsets", 1),
        ("t", 0),
    ]
    assert context.places(()) == [("t", 0)]
