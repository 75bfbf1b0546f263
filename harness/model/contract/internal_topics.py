"""Topics of Kafka's own as a cluster of a shape makes them, and which partition of them keeps what of whom."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import Final

from kafka.partitioner.default import murmur2

from harness.model.scenario.scenario import ClusterShape, Topic

OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
SHARE_STATE: Final = "__share_group_state"
TIER_METADATA: Final = "__remote_log_metadata"
# Those that brokers alone write to, with acks=all whatever clients ask for: the last two are of share groups (KIP-932)
# and of the remote tier (KIP-405).
OWN: Final = (OFFSETS, TRANSACTIONS, SHARE_STATE, TIER_METADATA)
# The setting that says how many partitions each has, and what it is in clusters of the harness.
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
# How an excuse begins that goes by what an election of TIER_METADATA took.
ORPHANED_OF: Final = f"unclean election of {TIER_METADATA}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalContract:
    """Of a topic of Kafka's own, and so of what brokers keep there."""

    partitions: int
    replicas: int
    min_insync_replicas: int
    unclean_election: bool


def internal_topics(shape: ClusterShape) -> tuple[Topic, ...]:
    """Those that steps may name; a cluster makes each when somebody first needs it."""
    replicas = min(REPLICAS_MAX, shape.brokers)
    compacted = tuple(
        Topic(name=name, partitions=partitions_of(shape, name), replicas=replicas, config={"cleanup.policy": "compact"})
        for name in PARTITIONS
    )
    return (*compacted, _tier_metadata(shape)) if shape.tier else compacted


def _tier_metadata(shape: ClusterShape) -> Topic:
    """As TopicBasedRemoteLogMetadataManager makes it; of its segments none grows old within a scenario."""
    config = shape.config
    return Topic(
        name=TIER_METADATA,
        partitions=partitions_of(shape, TIER_METADATA),
        replicas=int(config.get(TIER_REPLICAS, min(REPLICAS_MAX, shape.brokers))),
        config={"min.insync.replicas": config.get(TIER_MIN_ISR, "2")},
    )


def offsets_partition(group: str, partitions: int) -> int:
    """The partition of __consumer_offsets that keeps a group's commits: Java's hash of its id, as its coordinator is
    found (GroupCoordinatorService.partitionFor)."""
    units = group.encode("utf-16-be")
    code = 0
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    signed = code - 2 * _SIGN if code >= _SIGN else code
    return (0 if signed == -_SIGN else abs(signed)) % partitions


def metadata_partition(topic_id: str, partition: int, partitions: int) -> int:
    """The partition of __remote_log_metadata that tells of a partition's segments. ValueError on what is no topic id.

    RemoteLogMetadataTopicPartitioner in Kafka's storage module: a hash of the topic's id, not of its name.
    """
    identity = base64.urlsafe_b64decode(f"{topic_id}==")
    if len(identity) != 2 * _LONG_BYTES:
        raise ValueError(f"{topic_id!r} is no topic id")
    most, least = struct.unpack(">QQ", identity)
    hashed = 1
    for part in (_java_hash(least), _java_hash(most), partition):  # Objects.hash
        hashed = (31 * hashed + part) & 0xFFFFFFFF
    told_by: int = murmur2(struct.pack(">I", hashed)) & 0x7FFFFFFF
    return told_by % partitions


def _java_hash(number: int) -> int:
    """Of a long, as its 64 bits."""
    return (number ^ (number >> 32)) & 0xFFFFFFFF


def partitions_of(shape: ClusterShape, name: str) -> int:
    """How many an internal topic has."""
    key, default = TIER_PARTITIONS if name == TIER_METADATA else PARTITIONS[name]
    return int(shape.config.get(key, default))
