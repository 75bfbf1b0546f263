"""How often a producer transmitted records, from the statistics of librdkafka."""

from __future__ import annotations

import json
from typing import TypedDict

from harness.model.place import Place


class _OfPartition(TypedDict):
    """Statistics of one partition, as far as they are needed."""

    txmsgs: int  # records in produce requests


class _OfTopic(TypedDict):
    """Statistics of one topic, as far as they are needed."""

    partitions: dict[str, _OfPartition]


def transmitted(statistics: str) -> dict[Place, int]:
    """The records that were transmitted so far, by partition. A record that was retried counts each time."""
    topics: dict[str, _OfTopic] = json.loads(statistics)["topics"]
    return {
        (topic, int(partition)): of_partition["txmsgs"]
        for topic, of_topic in topics.items()
        for partition, of_partition in of_topic["partitions"].items()
    }
