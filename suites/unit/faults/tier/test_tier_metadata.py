"""The partition of __remote_log_metadata with the metadata of a partition, as brokers of 3.9.1 and 4.3.1 choose it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.faults.steps.registry import check_steps
from harness.model.contract.internal_topics import metadata_partition
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Step
from harness.scenarios import load


@pytest.mark.parametrize(
    ("topic_id", "partition", "told_by"),
    [
        ("OCAxFIh0RrOIMLRULInWMQ", 0, 4),
        ("OCAxFIh0RrOIMLRULInWMQ", 1, 1),
        ("uMQbYSfnRZmtl0K2JGoBng", 0, 4),
        ("FYkBaX6ATpqfl4OLbk2Kqg", 0, 3),
        ("JCHlOF2xRgejYPh5UzHvwQ", 1, 3),
    ],
)
def test_the_partition_follows_from_a_hash_of_the_topic_id(topic_id: str, partition: int, told_by: int) -> None:
    assert metadata_partition(topic_id, partition, 5) == told_by
    assert metadata_partition(topic_id, partition, 1) == 0


def test_a_wrong_topic_id_is_reported() -> None:
    with pytest.raises(ValueError, match="'AAAA' is no topic id"):
        metadata_partition("AAAA", 0, 5)


def test_a_topic_outside_the_tier_has_no_metadata_partition() -> None:
    scenario = load("tiered_metadata_moved")
    kill = Step(do="kill", name="k", args={"node": "tier_metadata(paid/0)"})
    check_steps(replace(scenario, steps=(kill,)))
    plain = tuple(replace(topic, config={}) for topic in scenario.topics)
    with pytest.raises(BadInput, match=r"tier_metadata\(paid/0\): topic paid is not in the remote tier"):
        check_steps(replace(scenario, steps=(kill,), topics=plain))
