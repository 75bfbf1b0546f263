"""How often a producer transmitted records, from the statistics of librdkafka."""

from __future__ import annotations

import msgspec

from harness.model.place import Place


class _OfPartition(msgspec.Struct):
    """Statistics of one partition."""

    txmsgs: int  # records in produce requests


class _OfTopic(msgspec.Struct):
    """Statistics of one topic."""

    partitions: dict[str, _OfPartition]


class _Statistics(msgspec.Struct):
    """The statistics, as far as they are needed."""

    topics: dict[str, _OfTopic]


def transmitted(statistics: str) -> dict[Place, int]:
    """The records that were transmitted so far, by partition. A record that was retried counts each time."""
    return {
        (topic, int(partition)): of_partition.txmsgs
        for topic, of_topic in msgspec.json.decode(statistics, type=_Statistics).topics.items()
        for partition, of_partition in of_topic.partitions.items()
    }
