"""The offsets of every replica that a broker has, in two small requests, or four with a remote tier.

They are for samples while faults act, so no request reads a disk or waits for another broker. Only a fetch reports the
high watermark and the last stable offset of a follower. It names an offset that no log has, and an epoch that is not
later than any in the log. So the broker answers that the logs diverge (KIP-595), with its offsets and without records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import ListOffsetsResponse, OffsetSpec

from harness.kafka.admin.fetch import Part, fetch_by_id
from harness.kafka.admin.offsets import offsets_in, replica_listing
from harness.kafka.admin.wire import Call, Connection, Unanswered, error_name
from harness.kafka.storage.uuids import uuid_of
from harness.model.place import Place

_IN_NO_LOG: Final = (1 << 63) - 1
_EMPTY_LOG: Final = "OFFSET_OUT_OF_RANGE"  # no record, and so no epoch, from which the logs could diverge


class SampledTopic(NamedTuple):
    """A topic to sample. tiered: it may have segments in the remote tier."""

    name: str
    topic_id: str
    partitions: int
    tiered: bool


class Replica(NamedTuple):
    """One partition of a topic, as one broker has it."""

    topic: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The offsets of one replica, as its broker reports them. None: the broker does not report it.

    leader_epoch: of the partition's leader, as far as the broker knows. `log_start` includes the records in the tier.
    highest_tiered: -1 = the broker knows of no segment in the tier.
    """

    log_start: int | None
    high_watermark: int | None
    last_stable_offset: int | None
    leader_epoch: int | None
    log_end: int
    local_log_start: int | None = None
    highest_tiered: int | None = None


class _Marks(NamedTuple):
    """The offsets of one replica that only a fetch reports."""

    log_start: int | None
    high_watermark: int | None
    last_stable_offset: int | None


def positions(connection: Connection, topics: Sequence[SampledTopic], give_up_at: float) -> dict[Replica, Position]:
    """The replicas of these topics that the broker has and can read. An exception without an answer by the deadline.

    The log end is asked for last of the log's own offsets, so that it is never behind the high watermark because of
    the time between.
    """
    if not topics:
        return {}
    marks = _marks(connection.ask(_fetch_call(topics), give_up_at), topics)
    if not marks:
        return {}
    places = [(replica.topic, replica.partition) for replica in marks]
    answer = connection.ask(replica_listing(places, OffsetSpec.LATEST), give_up_at)
    ends, epochs = _known_offsets(answer), _epochs_in(answer)
    tiered = {topic.name for topic in topics if topic.tiered}
    of_tier = [place for place in places if place[0] in tiered]
    local_starts = _known_offsets(_ask_tier(connection, of_tier, OffsetSpec.EARLIEST_LOCAL, give_up_at))
    highest = offsets_in(_ask_tier(connection, of_tier, OffsetSpec.LATEST_TIERED, give_up_at))
    found = {}
    for replica, known in marks.items():
        place = replica.topic, replica.partition
        if place in ends:
            found[replica] = Position(
                **known._asdict(),
                leader_epoch=epochs.get(place),
                log_end=ends[place],
                local_log_start=local_starts.get(place),
                highest_tiered=highest.get(place),
            )
    return found


def _fetch_call(topics: Sequence[SampledTopic]) -> Call:
    parts = {t.topic_id: [Part(index, _IN_NO_LOG, last_epoch=0) for index in range(t.partitions)] for t in topics}
    return fetch_by_id(parts, max_bytes=1)


def _marks(answer: ApiMessage, topics: Sequence[SampledTopic]) -> dict[Replica, _Marks]:
    """The replicas that the broker has. An empty log without an epoch is one of them; its offsets are unknown."""
    names = {uuid_of(topic.topic_id): topic for topic in topics}
    found = {}
    for reported in answer.responses:
        topic = names[reported.topic_id]  # a broker repeats the ids of the request, also those that it does not know
        for p in reported.partitions:
            error = error_name(p.error_code)
            if error is None or error == _EMPTY_LOG:
                known = _Marks(_known(p.log_start_offset), _known(p.high_watermark), _known(p.last_stable_offset))
                found[Replica(topic.name, topic.topic_id, p.partition_index)] = known
    return found


def _ask_tier(connection: Connection, places: Sequence[Place], spec: OffsetSpec, give_up_at: float) -> ApiMessage:
    """The answer about the tier; one without partitions where the broker's release does not know the question."""
    try:
        return connection.ask(replica_listing(places, spec), give_up_at) if places else ListOffsetsResponse(topics=[])
    except Unanswered:
        return ListOffsetsResponse(topics=[])


def _epochs_in(answer: ApiMessage) -> dict[Place, int]:
    return {
        (topic.name, p.partition_index): p.leader_epoch
        for topic in answer.topics
        for p in topic.partitions
        if p.leader_epoch >= 0
    }


def _known_offsets(answer: ApiMessage) -> dict[Place, int]:
    return {place: offset for place, offset in offsets_in(answer).items() if offset >= 0}


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None
