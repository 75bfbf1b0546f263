"""Kafka's own topics: how a cluster of a given shape creates them, and which partition keeps the state of what."""

from __future__ import annotations

import base64
import struct
from typing import Final

from harness.model.scenario.scenario import ClusterShape, Topic

OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
SHARE_STATE: Final = "__share_group_state"
TIER_METADATA: Final = "__remote_log_metadata"
# Topics that only brokers write to, always with acks=all. The last two belong to share groups (KIP-932) and to the
# remote tier (KIP-405).
OWN: Final = (OFFSETS, TRANSACTIONS, SHARE_STATE, TIER_METADATA)
# The setting for the number of partitions, and its value in clusters of the harness.
PARTITIONS: Final = {
    OFFSETS: ("offsets.topic.num.partitions", 10),
    TRANSACTIONS: ("transaction.state.log.num.partitions", 5),
}
_TIER: Final = "rlmm.config.remote.log.metadata.topic"
TIER_PARTITIONS: Final = (f"{_TIER}.num.partitions", 5)
TIER_REPLICAS: Final = f"{_TIER}.replication.factor"
TIER_MIN_ISR: Final = f"{_TIER}.min.isr"  # since 4.3 (KIP-1235), 2 where it is not set
REPLICAS_MAX: Final = 3
_SIGN: Final = 1 << 31
_LONG_BYTES: Final = 8


def internal_topics(shape: ClusterShape) -> tuple[Topic, ...]:
    """The internal topics that steps may name. A cluster creates each of them when it is first needed."""
    replicas = min(REPLICAS_MAX, shape.brokers)
    compacted = tuple(
        Topic(name=name, partitions=partitions_of(shape, name), replicas=replicas, config={"cleanup.policy": "compact"})
        for name in PARTITIONS
    )
    return (*compacted, _tier_metadata(shape)) if shape.tier else compacted


def _tier_metadata(shape: ClusterShape) -> Topic:
    """As TopicBasedRemoteLogMetadataManager creates it. No segment of it expires within a scenario."""
    config = shape.config
    return Topic(
        name=TIER_METADATA,
        partitions=partitions_of(shape, TIER_METADATA),
        replicas=int(config.get(TIER_REPLICAS, min(REPLICAS_MAX, shape.brokers))),
        config={"min.insync.replicas": config.get(TIER_MIN_ISR, "2")},
    )


def state_partition(name: str, partitions: int) -> int:
    """The partition of __consumer_offsets with the commits of a group, or of __transaction_state with the transactions
    of a transactional id, by Java's hash (GroupCoordinatorService.partitionFor, TransactionStateManager.partitionFor).
    """
    units = name.encode("utf-16-be")
    code = 0
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    signed = code - 2 * _SIGN if code >= _SIGN else code
    return (0 if signed == -_SIGN else abs(signed)) % partitions


def metadata_partition(topic_id: str, partition: int, partitions: int) -> int:
    """The partition of __remote_log_metadata with the metadata of a partition's segments. ValueError on a bad topic id.

    Like RemoteLogMetadataTopicPartitioner in Kafka's storage module, which hashes the topic's id and not its name.
    """
    # Programs that live long need the names of the topics, and not the 17 MB of the whole client.
    from kafka.partitioner.default import murmur2

    identity = base64.urlsafe_b64decode(f"{topic_id}==")
    if len(identity) != 2 * _LONG_BYTES:
        raise ValueError(f"{topic_id!r} is no topic id")
    most, least = struct.unpack(">QQ", identity)
    hashed = 1
    for part in (_java_hash(least), _java_hash(most), partition):  # Objects.hash
        hashed = (31 * hashed + part) & 0xFFFFFFFF
    positive: int = murmur2(struct.pack(">I", hashed)) & 0x7FFFFFFF
    return positive % partitions


def _java_hash(number: int) -> int:
    """Long.hashCode of a 64-bit number."""
    return (number ^ (number >> 32)) & 0xFFFFFFFF


def partitions_of(shape: ClusterShape, name: str) -> int:
    """The number of partitions of an internal topic."""
    key, default = TIER_PARTITIONS if name == TIER_METADATA else PARTITIONS[name]
    return int(shape.config.get(key, default))
