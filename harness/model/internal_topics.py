"""Topics of Kafka's own as a cluster of a shape makes them, and which partition of them keeps what of whom."""

from __future__ import annotations

from typing import Final

from harness.model.scenario import ClusterShape, Topic

OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
# Those that brokers alone write to, with acks=all whatever clients ask for: the last two are of share groups (KIP-932)
# and of the remote tier (KIP-405).
OWN: Final = (OFFSETS, TRANSACTIONS, "__share_group_state", "__remote_log_metadata")
# The setting that says how many partitions each has, and what it is in clusters of the harness.
PARTITIONS: Final = {
    OFFSETS: ("offsets.topic.num.partitions", 10),
    TRANSACTIONS: ("transaction.state.log.num.partitions", 5),
}
REPLICAS_MAX: Final = 3
_SIGN: Final = 1 << 31


def internal_topics(shape: ClusterShape) -> tuple[Topic, ...]:
    """Those that steps may name; a cluster makes each when somebody first needs it."""
    replicas = min(REPLICAS_MAX, shape.brokers)
    return tuple(
        Topic(name=name, partitions=partitions_of(shape, name), replicas=replicas, config={"cleanup.policy": "compact"})
        for name in PARTITIONS
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


def partitions_of(shape: ClusterShape, name: str) -> int:
    """How many an internal topic has."""
    key, default = PARTITIONS[name]
    return int(shape.config.get(key, default))
