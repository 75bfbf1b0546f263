"""What must hold of scenarios with a remote tier (KIP-405), and how much they have to write to be about it."""

from __future__ import annotations

import math
from typing import Final

from harness.model.errors import BadInput
from harness.model.scenario.scenario import Producer, Scenario, Topic

REMOTE: Final = "remote.storage.enable"
SEGMENT_BYTES: Final = "segment.bytes"
DELETE_OBJECTS: Final = "delete_objects"  # the kind of step that deletes objects of the tier, past the brokers
# How an excuse begins that goes by what such a step did.
BY_HAND: Final = "objects of the tier deleted by hand"
LOCAL_RETENTION: Final = ("local.retention.bytes", "local.retention.ms")
# In the tier, of each partition that goes there: fewer say little about a chain of segments.
SEGMENTS_MIN: Final = 20
# Segments that are still at the brokers when the load ends, and such as are rolled before they are full.
_SPARE: Final = 3


def tiered_topics(scenario: Scenario) -> list[str]:
    """Topics whose segments go to the remote tier."""
    return [topic.name for topic in scenario.topics if is_tiered(topic)]


def is_tiered(topic: Topic) -> bool:
    return topic.config.get(REMOTE) == "true"


def check(scenario: Scenario, where: str) -> None:
    """BadInput on the first rule that does not hold."""
    for topic in scenario.topics:
        _topic(topic, scenario, f"{where}: topics.{topic.name}")
    if scenario.shape.tier and not tiered_topics(scenario):
        raise BadInput(
            f'{where}: shape: tier without a topic in it; set "{REMOTE}" = "true" in the config of one, or leave tier '
            "away"
        )
    if scenario.shape.tier_faults and not scenario.shape.tier:
        raise BadInput(f'{where}: shape: tier_faults without a tier; say tier = "local", or leave it away')
    if scenario.shape.tier and scenario.shape.log_dirs > 1:
        raise BadInput(
            f"{where}: shape: tier with log_dirs = {scenario.shape.log_dirs}: KIP-405 has one; leave it away"
        )


def records_min(scenario: Scenario) -> int:
    """So many records, of all producers that share the scenario's budget, fill its tier; 0 without one."""
    sharing = [p for p in scenario.producers if p.when == "always" and p.rate_per_s is None]
    needed = (_records_of(producer, scenario) for producer in sharing)
    return len(sharing) * max(needed, default=0)


def _records_of(producer: Producer, scenario: Scenario) -> int:
    topics = [topic for topic in scenario.topics if topic.name in producer.topics]
    size_bytes = max((int(t.config[SEGMENT_BYTES]) for t in topics if is_tiered(t)), default=0)
    each = math.ceil((SEGMENTS_MIN + _SPARE) * size_bytes / max(1, producer.mean_bytes))
    return each * sum(topic.partitions for topic in topics)


def _topic(topic: Topic, scenario: Scenario, where: str) -> None:
    config = topic.config
    if config.get(REMOTE, "false") not in ("true", "false"):
        raise BadInput(f"{where}: config: {REMOTE} = {config[REMOTE]!r}; it is true or false")
    if not is_tiered(topic):
        return
    if not scenario.shape.tier:
        raise BadInput(f'{where}: {REMOTE} without a remote tier; say tier = "local" in [shape]')
    if "compact" in config.get("cleanup.policy", scenario.shape.config.get("log.cleanup.policy", "delete")):
        raise BadInput(f"{where}: a compacted topic has no remote tier (KIP-405); leave {REMOTE} away")
    if SEGMENT_BYTES not in config:
        raise BadInput(f'{where}: a topic in the tier needs its segments small; set "{SEGMENT_BYTES}" = 1048576')
    if not any(key in config for key in LOCAL_RETENTION):
        raise BadInput(f'{where}: everything would stay at the brokers, too; set "{LOCAL_RETENTION[0]}" = 1')
