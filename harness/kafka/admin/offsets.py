"""Offsets of each replica: log start, log end, high watermark, last stable offset, end of a leader epoch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import DeleteRecordsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import IsolationLevel, ListOffsetsRequest, OffsetForLeaderEpochRequest, OffsetSpec
from kafka.protocol.data_container import DataContainer

from harness.kafka.admin.topics import PartitionState
from harness.kafka.admin.wire import ANSWER_S, Call, Unanswered, Wire, call, error_name
from harness.model.place import Place
from harness.model.waiting import wait_for

# A follower answers this replica id too, with the log end in place of a watermark
# (ListOffsetsRequest.DEBUGGING_REPLICA_ID in Kafka).
_DEBUGGING_REPLICA: Final = -2
_CONSUMER: Final = -1
_NEWEST_LIST_OFFSETS: Final = 7  # enough for logs without a remote tier
# The first version that knows each question about the tier; earlier brokers take it for a timestamp (KIP-1005).
_TIER_SINCE: Final = {OffsetSpec.EARLIEST_LOCAL: 8, OffsetSpec.LATEST_TIERED: 9}


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The largest leader epoch at or below the requested one, and its end offset in the leader's log.

    Both are None when the leader knows no such epoch, and when it answers with an `error` (Kafka's name).
    """

    leader_epoch: int | None
    end_offset: int | None
    error: str | None = None


def replica_offsets(
    wire: Wire, states: Sequence[PartitionState], timeout_s: float = ANSWER_S
) -> dict[tuple[str, int, int], tuple[int, int]]:
    """(topic, partition, broker) -> (log start, log end) of each replica, from its own broker."""
    answers = wire.gather(
        {
            broker: [replica_listing(places, spec) for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)]
            for broker, places in _by_replica(wire, states).items()
        },
        timeout_s,
    )
    found = {}
    for broker, (starts, ends) in answers.items():
        start, end = offsets_in(starts), offsets_in(ends)
        found.update({(*place, broker): (start[place], end[place]) for place in start.keys() & end.keys()})
    return found


@dataclass(frozen=True, slots=True)
class TieredReplica:
    """Offsets of a replica's log and of its remote tier. `log_start` includes the records in the tier.

    highest_tiered: -1 = the tier is still empty; None = the release does not report it (before 3.9).
    """

    log_start: int
    local_log_start: int
    log_end: int
    highest_tiered: int | None


def tiered_replicas(
    wire: Wire, states: Sequence[PartitionState], timeout_s: float = ANSWER_S
) -> dict[tuple[str, int, int], TieredReplica]:
    """(topic, partition, broker) -> the offsets of each replica, from its own broker. A silent broker is absent."""
    asked = _by_replica(wire, states)
    logs = (OffsetSpec.EARLIEST, OffsetSpec.EARLIEST_LOCAL, OffsetSpec.LATEST)
    answers = wire.gather(
        {broker: [replica_listing(places, spec) for spec in logs] for broker, places in asked.items()},
        timeout_s,
    )
    tiered = wire.gather(
        {broker: [replica_listing(places, OffsetSpec.LATEST_TIERED)] for broker, places in asked.items()},
        timeout_s,
    )
    found = {}
    for broker, reported in answers.items():
        starts, locals_, ends = (offsets_in(answer) for answer in reported)
        highest = offsets_in(tiered[broker][0]) if broker in tiered else {}
        for place in starts.keys() & locals_.keys() & ends.keys():
            offsets = (starts[place], locals_[place], ends[place], highest.get(place))
            found[*place, broker] = TieredReplica(*offsets)
    return found


def watermarks(
    wire: Wire, states: Sequence[PartitionState], timeout_s: float = ANSWER_S
) -> dict[Place, tuple[int, int]]:
    """Partition -> (high watermark, last stable offset) of its leader.

    The stable offset is requested first, so that it is never ahead of the watermark because of the time between.
    A partition is absent if it has no leader, if the leader does not answer, or if the leader's watermark has not yet
    reached its own epoch.
    """
    levels = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    answers = wire.gather(
        {
            broker: [_list(places, OffsetSpec.LATEST, _CONSUMER, level) for level in levels]
            for broker, places in _by_leader(wire, states).items()
        },
        timeout_s,
    )
    found = {}
    for committed, uncommitted in answers.values():
        stable, high = offsets_in(committed), offsets_in(uncommitted)
        found.update({place: (high[place], stable[place]) for place in stable.keys() & high.keys()})
    return found


@dataclass(frozen=True, slots=True)
class TimedOffset:
    """A leader's answer to a timestamp: the first record at or after it. offset None: there is none. timestamp_ms
    None: the answer has none, as for the start of the log."""

    offset: int | None
    timestamp_ms: int | None
    leader_epoch: int | None
    error: str | None = None


def offsets_by_time(
    wire: Wire, states: Sequence[PartitionState], times_ms: Mapping[Place, int], timeout_s: float = ANSWER_S
) -> dict[Place, TimedOffset]:
    """Each leader's answer to a consumer about a timestamp (KIP-79), including the remote tier (KIP-405).

    A partition is absent if it has no leader, or if its leader does not answer.
    """
    wanted = [state for state in states if (state.topic, state.partition) in times_ms]
    asked = _by_leader(wire, wanted).items()
    answers = wire.gather({broker: (_timed_call(places, times_ms),) for broker, places in asked}, timeout_s)
    return {
        (topic.name, p.partition_index): _timed(p)
        for (answer,) in answers.values()
        for topic in answer.topics
        for p in topic.partitions
    }


def _timed(p: DataContainer) -> TimedOffset:
    known = p.offset >= 0
    epoch = p.leader_epoch if known and p.leader_epoch >= 0 else None
    return TimedOffset(
        offset=p.offset if known else None,
        timestamp_ms=p.timestamp if known and p.timestamp >= 0 else None,
        leader_epoch=epoch,
        error=error_name(p.error_code),
    )


def offsets_by_epoch(
    wire: Wire, states: Sequence[PartitionState], epochs: Mapping[Place, int], timeout_s: float = ANSWER_S
) -> dict[Place, EpochEnd]:
    """The end of a leader epoch according to each leader, to which a follower would truncate (KIP-101, KIP-279)."""
    wanted = [state for state in states if (state.topic, state.partition) in epochs]
    answers = wire.gather(
        {broker: (_epoch_call(places, epochs),) for broker, places in _by_leader(wire, wanted).items()}, timeout_s
    )
    return {
        (topic.topic, p.partition): _epoch_end(p)
        for (answer,) in answers.values()
        for topic in answer.topics
        for p in topic.partitions
    }


def _epoch_end(p: DataContainer) -> EpochEnd:
    known = p.leader_epoch >= 0 and p.end_offset >= 0
    return EpochEnd(
        leader_epoch=p.leader_epoch if known else None,
        end_offset=p.end_offset if known else None,
        error=error_name(p.error_code),
    )


def delete_records(
    wire: Wire, leaders: Callable[[], Sequence[PartitionState]], before: Mapping[Place, int], deadline_s: float
) -> dict[Place, int]:
    """Deletes records below an offset, repeated until every leader has done it. Returns the low watermarks.

    -1 means the high watermark. `leaders` returns the current states each time, because leaders may change.
    """
    done: dict[Place, int] = {}
    seen: dict[Place, str] = {}

    def attempt() -> dict[Place, str]:
        open_places = [s for s in leaders() if (s.topic, s.partition) in before.keys() - done.keys()]
        asked = _by_leader(wire, open_places)
        answers = wire.gather({b: (_delete_call(places, before),) for b, places in asked.items()}, 5.0)
        for (answer,) in answers.values():
            for topic in answer.topics:
                for p in topic.partitions:
                    error = error_name(p.error_code)
                    if error is None:
                        done[topic.name, p.partition_index] = p.low_watermark
                    else:
                        seen[topic.name, p.partition_index] = error
        return {place: seen.get(place, "no answer from a leader") for place in before.keys() - done.keys()}

    wait_for(attempt, until=lambda left: not left, deadline_s=deadline_s, what="records to be deleted")
    return done


def _by_replica(wire: Wire, states: Sequence[PartitionState]) -> dict[int, list[Place]]:
    asked: dict[int, list[Place]] = defaultdict(list)
    for state in states:
        for broker in state.replicas:
            if broker in wire.brokers:
                asked[broker].append((state.topic, state.partition))
    return asked


def _by_leader(wire: Wire, states: Sequence[PartitionState]) -> dict[int, list[Place]]:
    asked: dict[int, list[Place]] = defaultdict(list)
    for state in states:
        if state.leader in wire.brokers:
            asked[state.leader].append((state.topic, state.partition))
    return asked


def _by_topic(places: Sequence[Place]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        grouped[topic].append(partition)
    return grouped


def replica_listing(places: Sequence[Place], spec: int) -> Call:
    """Asks a broker for one offset of its own replicas, of which it need not be the leader."""
    return _list(places, spec, _DEBUGGING_REPLICA)


def _list(places: Sequence[Place], spec: int, replica: int, isolation: int = IsolationLevel.READ_UNCOMMITTED) -> Call:
    since = _TIER_SINCE.get(OffsetSpec(spec), 0)

    def build(version: int) -> ApiMessage:
        if version < since:
            raise Unanswered(f"ListOffsets of version {version} has no {OffsetSpec(spec).name}")
        return _listing(dict.fromkeys(places, int(spec)), replica, isolation)

    return Call(ListOffsetsRequest, build, max(since, _NEWEST_LIST_OFFSETS))


def _timed_call(places: Sequence[Place], times_ms: Mapping[Place, int]) -> Call:
    asked = {place: times_ms[place] for place in places}
    return Call(ListOffsetsRequest, lambda _: _listing(asked, _CONSUMER), _NEWEST_LIST_OFFSETS)


def _listing(
    timestamps: Mapping[Place, int], replica: int, isolation: int = IsolationLevel.READ_UNCOMMITTED
) -> ListOffsetsRequest:
    topic = ListOffsetsRequest.ListOffsetsTopic

    def partition(name: str, index: int) -> DataContainer:
        return topic.ListOffsetsPartition(partition_index=index, timestamp=timestamps[name, index])

    return ListOffsetsRequest(
        replica_id=replica,
        isolation_level=int(isolation),
        topics=[
            topic(name=name, partitions=[partition(name, i) for i in indexes])
            for name, indexes in _by_topic(list(timestamps)).items()
        ],
    )


def offsets_in(answer: ApiMessage) -> dict[Place, int]:
    """The offset of each partition in an answer to ListOffsets. Partitions with an error are absent."""
    return {
        (topic.name, p.partition_index): p.offset
        for topic in answer.topics
        for p in topic.partitions
        if error_name(p.error_code) is None
    }


def _epoch_call(places: Sequence[Place], epochs: Mapping[Place, int]) -> Call:
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return call(
        OffsetForLeaderEpochRequest,
        replica_id=_DEBUGGING_REPLICA,
        topics=[
            topic(
                topic=name,
                partitions=[
                    topic.OffsetForLeaderPartition(partition=i, current_leader_epoch=-1, leader_epoch=epochs[name, i])
                    for i in indexes
                ],
            )
            for name, indexes in _by_topic(places).items()
        ],
    )


def _delete_call(places: Sequence[Place], before: Mapping[Place, int]) -> Call:
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    return call(
        DeleteRecordsRequest,
        topics=[
            topic(
                name=name,
                partitions=[topic.DeleteRecordsPartition(partition_index=i, offset=before[name, i]) for i in indexes],
            )
            for name, indexes in _by_topic(places).items()
        ],
        timeout_ms=4000,
    )
