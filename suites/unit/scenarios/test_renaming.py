"""Every name of a scenario gets the prefix, every broker its id, and nothing else changes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from harness import scenarios
from harness.faults.steps.registry import check_steps
from harness.model.contract.internal_topics import OFFSETS, partitions_of, state_partition
from harness.model.errors import BadInput
from harness.model.scenario import toml
from harness.model.scenario.scenario import ClusterShape, Scenario
from harness.scenarios.renaming import Names, renamed

PREFIX = "own_"
# Words about a reassignment or a full tier only make sense to their own steps; all others keep their meaning.
STEPS = [
    {"do": "kill", "node": "leader(plain/0)", "name": "k"},
    {"do": "wait_leader_changed", "on": ["plain/0", "plain/1"], "since": "k"},
    {"do": "heal", "fault": "k"},
    {"do": "kill", "node": "broker(2)", "name": "two"},
    {"do": "heal", "fault": "two"},
    {"do": "cut", "src": "brokers(1, 3)", "dst": "followers(plain/0)", "name": "c"},
    {"do": "heal", "fault": "c"},
    {"do": "kill", "node": "group_coordinator(readers)", "name": "gc"},
    {"do": "heal", "fault": "gc"},
    {"do": "kill", "node": "txn_coordinator(payments)", "name": "tc"},
    {"do": "heal", "fault": "tc"},
    {"do": "kill", "node": "controller", "name": "con"},
    {"do": "heal", "fault": "con"},
]


def scenario(**changes: object) -> Scenario:
    plain: dict[str, object] = {
        "title": "t",
        "property": "p",
        "tags": ["own"],
        "shape": {"controllers": 3},
        "steps": STEPS,
        "topics": {"plain": {"partitions": 2, "assignment": [[1, 2, 3], [2, 3, 1]]}, "paid": {}},
        "producers": {
            "plain": {"topics": ["plain"]},
            "payments": {"topics": ["paid"], "transactions": {"records": 3}},
        },
        "readers": {"alone": {"topics": ["plain"]}, "grouped": {"topics": ["plain", "paid"], "group": "readers"}},
        "allowed_anomalies": {"exact_losses": [{"topic": "plain", "partition": 0, "count": 1}]},
        "floors": {"partitions": ["plain/0", "paid/*"]},
        **changes,
    }
    return toml.from_plain(plain, "mine", check_steps)


def names(ids: tuple[int, ...] = (1, 2, 3), shape: ClusterShape | None = None) -> Names:
    return Names(PREFIX, ids, shape or ClusterShape())


def test_all_names_get_the_prefix() -> None:
    found = renamed(scenario(), names())
    assert [topic.name for topic in found.topics] == ["own_plain", "own_paid"]
    assert [producer.topics for producer in found.producers] == [("own_plain",), ("own_paid",)]
    assert [(r.topics, r.group) for r in found.readers] == [
        (("own_plain",), None),
        (("own_plain", "own_paid"), "own_readers"),
    ]
    assert found.groups == ("own_readers",)
    assert [loss.topic for loss in found.allowed_anomalies.exact_losses] == ["own_plain"]
    assert found.floors.partitions == ("own_plain/0", "own_paid/*")
    ids = {producer.name: producer.transactional_id for producer in found.producers}
    assert ids["payments"] == "own_payments"
    alone = next(reader for reader in found.readers if reader.name == "alone")
    assert alone.config["group.id"] == "own_reader-alone"


def test_steps_name_the_same_things_as_before() -> None:
    found = {step.name: step.args for step in renamed(scenario(), names((4, 7, 9))).steps}
    assert found["k"]["node"] == "leader(own_plain/0)"
    assert found["wait_leader_changed"]["on"] == ["own_plain/0", "own_plain/1"]
    assert found["wait_leader_changed"]["since"] == "k"
    assert found["two"]["node"] == "broker(7)"
    assert found["c"]["src"] == "brokers(4, 9)"
    assert found["c"]["dst"] == "followers(own_plain/0)"
    assert found["gc"]["node"] == "group_coordinator(own_readers)"
    assert found["tc"]["node"] == "txn_coordinator(payments)"  # of a producer of the scenario
    assert found["con"]["node"] == "controller"


def test_assignments_name_the_brokers_by_their_ids() -> None:
    found = renamed(scenario(), names((4, 7, 9)))
    assert found.topics[0].assignment == ((4, 7, 9), (7, 9, 4))


def test_a_partition_of_the_offsets_topic_is_that_of_the_renamed_group() -> None:
    place = "offsets(readers)"
    steps = [{"do": "wait_leader_changed", "on": ["plain/0"], "since": "k"}]
    before = scenario(steps=[STEPS[0], *steps, {"do": "kill", "node": f"leader({place})", "name": "o"}])
    shape = replace(before.shape, config={**before.shape.config, "offsets.topic.num.partitions": "50"})
    (found,) = (step.args["node"] for step in renamed(before, names(shape=shape)).steps if step.name == "o")
    assert found == f"leader({OFFSETS}/{state_partition('own_readers', 50)})"
    old = next(step.args["node"] for step in before.steps if step.name == "o")
    assert old == f"leader({OFFSETS}/{state_partition('readers', partitions_of(before.shape, OFFSETS))})"


def test_a_partition_of_the_offsets_topic_that_no_group_has_is_refused() -> None:
    of_readers = state_partition("readers", partitions_of(scenario().shape, OFFSETS))
    other = 0 if of_readers else 1
    steps = [{"do": "kill", "node": f"leader({OFFSETS}/{other})", "name": "o"}]
    with pytest.raises(BadInput, match=r"is the partition of 0 groups of the scenario; write offsets\(GROUP\)"):
        renamed(scenario(steps=steps), names())


@pytest.mark.parametrize("one", scenarios.every().values(), ids=lambda one: one.name)
def test_no_built_in_scenario_keeps_a_name_of_a_topic_or_a_group(one: Scenario) -> None:
    """By its text: a word that is a topic or a group of the scenario has the prefix wherever it is one."""
    try:
        found = renamed(one, Names("own_", tuple(range(1, one.shape.brokers + 1)), one.shape))
    except BadInput as refused:
        assert "write offsets(GROUP)" in str(refused)  # noqa: PT017 - not every scenario is refused
        return
    check_again = toml.from_plain(toml.to_plain(replace(found, negative_control=None)), one.name, check_steps)
    assert check_again.topics == found.topics
    places = re.compile("|".join(rf"(?<![\w.-]){re.escape(t.name)}/[\d*]" for t in one.topics) or "(?!)")
    assert not places.findall(json.dumps([dict(step.args) for step in found.steps]))
    assert {t.name for t in found.topics} == {f"own_{t.name}" for t in one.topics}
    assert all(group.startswith("own_") for group in (*found.groups, *found.share_groups))
