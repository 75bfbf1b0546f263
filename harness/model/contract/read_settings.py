"""The settings of a topic of a live cluster, from the texts in which brokers keep them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.model.contract.configuration import AS_RETENTION, TopicSettings
from harness.model.contract.flushing import FLUSH_LOOKS, unless_never
from harness.model.contract.internal_topics import OFFSETS, TIER_METADATA
from harness.model.contract.kafka_defaults import DELETE_RETENTION_MS_DEFAULT

# The settings that are read, of topics and of brokers.
OF_TOPIC: Final = (
    "cleanup.policy",
    "delete.retention.ms",
    "flush.messages",
    "flush.ms",
    "local.retention.bytes",
    "local.retention.ms",
    "message.timestamp.type",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "unclean.leader.election.enable",
)
OF_BROKER: Final = (FLUSH_LOOKS,)


def topic_settings(
    name: str, config: Mapping[str, str], replicas: int, broker: Mapping[str, str], *, elr: bool
) -> TopicSettings:
    """config, broker: effective settings of the topic and of brokers. ValueError if one is not of its type."""
    policy = config.get("cleanup.policy", "delete")
    return TopicSettings(
        replicas=replicas,
        min_isr=int(config.get("min.insync.replicas", "1")),
        unclean=config.get("unclean.leader.election.enable") == "true",
        elr=elr,
        flush_messages=_at_least(1, unless_never(config.get("flush.messages", ""))),  # 2.x allowed 0
        flush_ms=unless_never(config.get("flush.ms", "")),
        flush_scheduler_ms=unless_never(broker.get(FLUSH_LOOKS, "")),
        retention_ms=int(config.get("retention.ms", "-1")),
        retention_bytes=_at_least(0, int(config.get("retention.bytes", "-1"))),  # every negative number means no limit
        deletes="delete" in policy,
        compacted="compact" in policy,
        compaction_lag_ms=int(config.get("min.compaction.lag.ms", 0)),
        tiered=config.get("remote.storage.enable") == "true",
        local_retention_ms=int(config.get("local.retention.ms", AS_RETENTION)),
        local_retention_bytes=int(config.get("local.retention.bytes", AS_RETENTION)),
        append_time=config.get("message.timestamp.type") == "LogAppendTime",
        delete_retention_ms=int(config.get("delete.retention.ms", DELETE_RETENTION_MS_DEFAULT)),
        keeps_offsets=name == OFFSETS,
        keeps_tier=name == TIER_METADATA,
    )


def _at_least(least: int, value: int) -> int:
    return max(least, value) if value >= 0 else -1
