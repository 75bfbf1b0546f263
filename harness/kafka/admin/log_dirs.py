"""Log directories of a broker: the replicas in each, and moves between them (KIP-113)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from kafka.protocol.data_container import DataContainer

from harness.kafka.admin.wire import ANSWER_S, Wire, call, error_name
from harness.model.errors import HarnessFailure, HarnessTimeout
from harness.model.place import Place

_MOVE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDirectory:
    """Where a broker keeps a replica. future: the directory of the copy that will replace it; None without one."""

    path: str
    future: str | None = None
    future_lag: int = 0  # records that the future copy lacks
    size_bytes: int = 0  # of all segments of the current copy


@dataclass(frozen=True, slots=True)
class LogDirectories:
    """The online log directories of a broker, sorted, and the replicas in them."""

    paths: tuple[str, ...]
    replicas: Mapping[Place, ReplicaDirectory]


def log_directories(wire: Wire, broker: int, timeout_s: float = ANSWER_S) -> LogDirectories | None:
    """The log directories as the broker reports them; None when it does not answer."""
    answers = wire.gather({broker: (call(DescribeLogDirsRequest, topics=None),)}, timeout_s)
    if broker not in answers:
        return None
    online = [d for d in answers[broker][0].results if error_name(d.error_code) is None]
    current: dict[Place, tuple[str, int]] = {}
    future: dict[Place, tuple[str, int]] = {}
    for directory in online:
        for topic in directory.topics:
            for p in topic.partitions:
                place = (topic.name, p.partition_index)
                if p.is_future_key:
                    future[place] = (directory.log_dir, p.offset_lag)
                else:
                    current[place] = (directory.log_dir, p.partition_size)
    replicas = {
        place: ReplicaDirectory(
            path=path,
            future=future.get(place, (None, 0))[0],
            future_lag=future.get(place, ("", 0))[1],
            size_bytes=size_bytes,
        )
        for place, (path, size_bytes) in current.items()
    }
    return LogDirectories(tuple(sorted(d.log_dir for d in online)), replicas)


def move_replicas(wire: Wire, broker: int, to: Mapping[Place, str]) -> None:
    """Starts to move replicas of a broker to other log directories of the same broker.

    Returns when the broker has accepted it. HarnessTimeout when it does not answer, HarnessFailure when it refuses.
    """
    kind = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    by_path: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (topic, partition), path in to.items():
        by_path[path][topic].append(partition)
    question = call(
        AlterReplicaLogDirsRequest,
        dirs=[kind(path=path, topics=_topics(kind, topics)) for path, topics in by_path.items()],
    )
    answers = wire.gather({broker: (question,)}, _MOVE_S)
    if broker not in answers:
        raise HarnessTimeout(f"broker {broker} did not answer the request to move replicas within {_MOVE_S:g} s")
    refused = {
        f"{reported.topic_name}-{p.partition_index}": error
        for reported in answers[broker][0].results
        for p in reported.partitions
        if (error := error_name(p.error_code))
    }
    if refused:
        raise HarnessFailure(f"broker {broker} refuses to move {refused}")


def _topics(kind: type[DataContainer], topics: Mapping[str, Sequence[int]]) -> list[DataContainer]:
    return [kind.AlterReplicaLogDirTopic(name=name, partitions=list(indexes)) for name, indexes in topics.items()]
