"""Reads the records of each replica from its own broker, without a client library that would retry or repair."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from typing import Final, NamedTuple

from kafka.protocol.consumer import OffsetSpec

from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.fetch import FETCH_S, fetch_call, served
from harness.kafka.admin.offsets import offsets_in, replica_listing
from harness.kafka.admin.wire import ANSWER_S, Unanswered, error_name, metadata_call
from harness.kafka.storage.message_reader import BROKEN
from harness.kafka.storage.record_batch import Batch, Walk
from harness.kafka.storage.records import records_of
from harness.kafka.storage.uuids import kafka_uuid
from harness.workload.probe.checks import Piece, found

PIECE_BYTES: Final = 128 << 10
_ABSENT: Final = "UNKNOWN_TOPIC_OR_PARTITION"


class Placed(NamedTuple):
    """A partition of the probe's topic. leader -1: none."""

    partition: int
    leader: int
    isr: tuple[int, ...]


class ProbedTopic(NamedTuple):
    topic_id: str
    partitions: tuple[Placed, ...]


class Replicas:
    """The replicas of one topic. run: of the payloads; their stream has the number of the partition."""

    def __init__(self, brokers: Brokers, topic: str, run: int) -> None:
        self._brokers = brokers
        self._topic = topic
        self.run = run

    def read(self, broker: int, partition: int, first: int) -> Piece:
        """Whole batches from an offset on, as far as the broker returns them at once. Unanswered without an answer."""
        question = fetch_call(self._topic, partition, first, PIECE_BYTES, 0)
        answer = served(self._brokers.ask(broker, question, FETCH_S))
        if answer.error is not None:
            return Piece(first, first, {}, answer.error)
        rows: list[tuple[int, bytes | None, bytes | None]] = []
        end = first
        for batch in Walk(io.BytesIO(answer.records), len(answer.records)):
            if batch.codec != "none":
                raise Unanswered(f"{self._topic}-{partition} has a batch with compression, which its settings exclude")
            rows += [row for row in _records(batch, answer.records) if row[0] >= first]
            end = max(end, batch.last_offset + 1)
        return Piece(first, end, found(rows, self.run, partition))

    def log_bounds(self, broker: int, partition: int) -> tuple[int, int] | None:
        """(log start, log end) of a replica; None if its broker answers with an error."""
        place = self._topic, partition
        bounds = []
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
            offset = offsets_in(self._brokers.ask(broker, replica_listing([place], spec), ANSWER_S)).get(place)
            if offset is None:
                return None
            bounds.append(offset)
        return bounds[0], bounds[1]

    def local_start(self, broker: int, partition: int) -> int | None:
        """The first offset on the leader's own disk; below it the remote tier serves. None if it does not say."""
        place = self._topic, partition
        try:
            answer = self._brokers.ask(broker, replica_listing([place], OffsetSpec.EARLIEST_LOCAL), ANSWER_S)
        except Unanswered:
            return None
        return offsets_in(answer).get(place)


def _records(batch: Batch, data: bytes) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value). Bytes that are no records end it: then records are missing, which is a finding."""
    try:
        for offset, _, key, value in records_of(batch, data):
            yield offset, key, value
    except BROKEN:
        return


def described(brokers: Brokers, topic: str) -> ProbedTopic | None:
    """The topic as a broker knows it; None if it does not exist. Unanswered when no broker answers."""
    (seen,) = brokers.ask_any(metadata_call([topic])).topics
    error = error_name(seen.error_code)
    if error == _ABSENT:
        return None
    if error is not None:
        raise Unanswered(f"{topic}: {error}")
    topic_id = kafka_uuid(seen.topic_id) if isinstance(seen.topic_id, uuid.UUID) else ""
    partitions = (Placed(p.partition_index, p.leader_id, tuple(p.isr_nodes)) for p in seen.partitions)
    return ProbedTopic(topic_id, tuple(sorted(partitions)))
