"""Rules for scenarios with a remote tier (KIP-405), and how many records they have to write to fill it."""

from __future__ import annotations

import math
from typing import Final

from harness.model.errors import BadInput
from harness.model.scenario.scenario import Producer, Scenario, Topic

REMOTE: Final = "remote.storage.enable"
COPY_DISABLED: Final = "remote.log.copy.disable"  # KIP-950
SEGMENT_BYTES: Final = "segment.bytes"
DELETE_OBJECTS: Final = "delete_objects"  # the kind of step that deletes objects of the tier, past the brokers
LOCAL_RETENTION: Final = ("local.retention.bytes", "local.retention.ms")
# Segments of each tiered partition in the tier: with fewer the run shows little about a chain of segments.
SEGMENTS_MIN: Final = 20
# For segments that brokers still have when the load ends, and those that are rolled before they are full.
_SPARE: Final = 3


def tiered_topics(scenario: Scenario) -> list[str]:
    """Topics with segments in the remote tier."""
    return [topic.name for topic in scenario.topics if is_tiered(topic)]


def is_tiered(topic: Topic) -> bool:
    return topic.config.get(REMOTE) == "true"


def check(scenario: Scenario, where: str) -> None:
    """BadInput on the first rule that does not hold."""
    for topic in scenario.topics:
        _topic(topic, scenario, f"{where}: topics.{topic.name}")
    if scenario.shape.tier and not tiered_topics(scenario):
        raise BadInput(
            f'{where}: shape: tier is set, and no topic uses it; set "{REMOTE}" = "true" in the config of a topic, or '
            "remove tier"
        )
    if scenario.shape.tier_faults and not scenario.shape.tier:
        raise BadInput(f'{where}: shape: tier_faults needs a tier; set tier = "local", or remove tier_faults')
    if scenario.shape.tier and scenario.shape.log_dirs > 1:
        raise BadInput(
            f"{where}: shape: log_dirs = {scenario.shape.log_dirs} with a tier; a broker with a tier has 1 log "
            "directory "
            "(KIP-405), so remove log_dirs"
        )


def records_min(scenario: Scenario) -> int:
    """The number of records, over all producers that share the budget, that fills the tier; 0 without a tier."""
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
        raise BadInput(f"{where}: config: {REMOTE} = {config[REMOTE]!r}; give true or false")
    if not is_tiered(topic):
        return
    if not scenario.shape.tier:
        raise BadInput(f'{where}: {REMOTE} needs a remote tier; set tier = "local" in [shape]')
    if "compact" in config.get("cleanup.policy", scenario.shape.config.get("log.cleanup.policy", "delete")):
        raise BadInput(f"{where}: a compacted topic cannot use the remote tier (KIP-405); remove {REMOTE}")
    if SEGMENT_BYTES not in config:
        raise BadInput(
            f'{where}: a tiered topic needs small segments, to have enough of them; set "{SEGMENT_BYTES}" = 1048576'
        )
    if not any(key in config for key in LOCAL_RETENTION):
        raise BadInput(
            f'{where}: brokers would keep every segment too, and never read the tier; set "{LOCAL_RETENTION[0]}" = 1'
        )
