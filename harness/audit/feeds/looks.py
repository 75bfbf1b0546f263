"""Offsets of chosen replicas, each from its own broker, in requests that are encoded once and sent again and again.

The requests name the leader epoch that the caller knows, so every offset is one of that epoch: a broker that is in
another one answers FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH. The offsets of one look are asked for in the order of
the fields of `Look`, so within an epoch a later one may be too high by what happened meanwhile, and never too low.
Offsets of two brokers, or of two looks, belong to different times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import IsolationLevel, ListOffsetsRequest, OffsetSpec

from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.link import Reusable
from harness.kafka.admin.wire import ANSWER_S, Call, error_name

BATCH: Final = 1000  # partitions of one request; an answer is 27 KB, and its objects take about 1 MB
_CONSUMER: Final = -1
# A follower answers this replica id too, with its log end (ListOffsetsRequest.DEBUGGING_REPLICA_ID in Kafka).
_DEBUGGING_REPLICA: Final = -2


class Target(NamedTuple):
    """A replica to look at. leader_epoch: as the caller knows it; -1 = the answer is bound to no epoch."""

    topic: str
    partition: int
    leader_epoch: int
    leads: bool
    tiered: bool = False


class Look(NamedTuple):
    """Offsets that one broker reports of its replica. None = not asked, or refused; `error` is the first refusal.

    Only a leader reports more than `log_end`. leader_epoch: of the broker itself, in the answer with `log_end`.
    tiered: the highest offset in the tier; -1 = the tier is empty.
    """

    topic: str
    partition: int
    broker: int
    leader_epoch: int | None
    log_start: int | None
    local_log_start: int | None
    tiered: int | None
    stable: int | None
    high_watermark: int | None
    log_end: int | None
    error: str | None


class _Asked(NamedTuple):
    """A question about each partition of a request. since: the first version that knows it (KIP-405, KIP-1005)."""

    field: str
    spec: int
    replica: int
    level: int
    since: int
    of_leader: bool
    of_tier: bool = False


_OPEN: Final = int(IsolationLevel.READ_UNCOMMITTED)
_QUESTIONS: Final = (
    _Asked("log_start", int(OffsetSpec.EARLIEST), _CONSUMER, _OPEN, 4, True),
    _Asked("local_log_start", int(OffsetSpec.EARLIEST_LOCAL), _CONSUMER, _OPEN, 8, True, True),
    _Asked("tiered", int(OffsetSpec.LATEST_TIERED), _CONSUMER, _OPEN, 9, True, True),
    _Asked("stable", int(OffsetSpec.LATEST), _CONSUMER, int(IsolationLevel.READ_COMMITTED), 4, True),
    _Asked("high_watermark", int(OffsetSpec.LATEST), _CONSUMER, _OPEN, 4, True),
    _Asked("log_end", int(OffsetSpec.LATEST), _DEBUGGING_REPLICA, _OPEN, 4, False),
)
_NEWEST: Final = 9  # later versions change nothing for these questions
_LOG_END: Final = "log_end"


@dataclass(slots=True)
class _Row:
    leader_epoch: int | None = None
    log_start: int | None = None
    local_log_start: int | None = None
    tiered: int | None = None
    stable: int | None = None
    high_watermark: int | None = None
    log_end: int | None = None
    error: str | None = None


class Looks:
    """Requests to one broker about some of its replicas. Keep it for replicas that are looked at often.

    It takes about 300 bytes a replica. For one look at very many replicas, `look_once` holds no more than BATCH.
    """

    def __init__(self, broker: int, targets: Iterable[Target]) -> None:
        self.broker = broker
        self._batches = [_Batch(batch) for batch in _batches(targets)]

    def look(self, brokers: Brokers, timeout_s: float = ANSWER_S) -> Iterator[Look]:
        """A row for each replica. Unanswered, at any row, when the broker has not answered in time.

        timeout_s: for each request.
        """
        for batch in self._batches:
            yield from batch.look(brokers, self.broker, timeout_s)


def look_once(brokers: Brokers, broker: int, targets: Iterable[Target], timeout_s: float = ANSWER_S) -> Iterator[Look]:
    """The rows of `Looks.look` for targets that are read while the rows are iterated."""
    for batch in _batches(targets):
        yield from _Batch(batch).look(brokers, broker, timeout_s)


def _batches(targets: Iterable[Target]) -> Iterator[list[Target]]:
    left = iter(targets)
    while batch := list(islice(left, BATCH)):
        yield batch


class _Batch:
    """The requests about some replicas, one for each question that is about any of them."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._places = [(target.topic, target.partition) for target in targets]
        self._asked: list[tuple[_Asked, Reusable]] = []
        for asked in _QUESTIONS:
            about = [t for t in targets if (t.leads or not asked.of_leader) and (t.tiered or not asked.of_tier)]
            if about:
                self._asked.append((asked, Reusable(_call(asked, about))))

    def look(self, brokers: Brokers, broker: int, timeout_s: float) -> Iterator[Look]:
        link = brokers.link(broker)
        rows = {place: _Row() for place in self._places}
        for asked, question in self._asked:
            if not asked.of_tier or link.supports(question.question, timeout_s):
                _note(rows, asked.field, link.ask(question, timeout_s))
        for (topic, partition), row in rows.items():
            yield Look(
                topic,
                partition,
                broker,
                row.leader_epoch,
                row.log_start,
                row.local_log_start,
                row.tiered,
                row.stable,
                row.high_watermark,
                row.log_end,
                row.error,
            )


def _note(rows: dict[tuple[str, int], _Row], field: str, answer: ApiMessage) -> None:
    for topic in answer.topics:
        name = topic.name
        for p in topic.partitions:
            row = rows.get((name, p.partition_index))
            if row is None:
                continue
            if p.error_code:
                row.error = row.error or error_name(p.error_code)
                continue
            setattr(row, field, p.offset)
            if field == _LOG_END and p.leader_epoch >= 0:
                row.leader_epoch = p.leader_epoch


def _call(asked: _Asked, about: Sequence[Target]) -> Call:
    def build(_: int) -> ApiMessage:
        kind = ListOffsetsRequest.ListOffsetsTopic
        partition = kind.ListOffsetsPartition
        topics: dict[str, list[object]] = {}
        for target in about:
            one = partition(
                partition_index=target.partition, current_leader_epoch=target.leader_epoch, timestamp=asked.spec
            )
            topics.setdefault(target.topic, []).append(one)
        return ListOffsetsRequest(
            replica_id=asked.replica,
            isolation_level=asked.level,
            topics=[kind(name=name, partitions=partitions) for name, partitions in topics.items()],
        )

    return Call(ListOffsetsRequest, build, _NEWEST, asked.since)
