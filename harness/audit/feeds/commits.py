"""Committed offsets of chosen groups, each group from its coordinator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.wire import ANSWER_S, Call, Unanswered, error_name, metadata_call
from harness.model.contract.internal_topics import OFFSETS

_GROUP: Final = 0  # CoordinatorType
_NEWEST: Final = 9  # version 10 knows topic ids only
_OF_ONE_GROUP: Final = 7  # the last version for one group
_NO_OFFSET: Final = -1


class CommitSeen(NamedTuple):
    """A committed offset. leader_epoch: of the record before it, as the consumer knew it; None = it did not say."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None


class GroupNotRead(NamedTuple):
    """A group with offsets that cannot be read now. error: Kafka's name, or why there is no answer."""

    group: str
    error: str


def committed_offsets(
    brokers: Brokers, groups: Sequence[str], timeout_s: float = ANSWER_S
) -> Iterator[CommitSeen | GroupNotRead]:
    """Every committed offset of the groups. Offsets of open transactions do not count yet. Needs DESCRIBE on the group
    and its topics; topics without that permission are absent.

    timeout_s: for each request. The question for a coordinator makes Kafka create __consumer_offsets, and this client
    only reads: so it is not asked where that topic is missing, and then no group has committed anything.
    """
    try:
        exists = _exists(brokers, timeout_s)
    except Unanswered as silent:
        yield from (GroupNotRead(group, str(silent)) for group in groups)
        return
    for group in groups if exists else ():
        try:
            coordinator = _coordinator(brokers, group, timeout_s)
            question = Call(OffsetFetchRequest, partial(_fetch, group), _NEWEST)
            yield from _commits(group, brokers.ask(coordinator, question, timeout_s))
        except Unanswered as silent:
            yield GroupNotRead(group, str(silent))


def _exists(brokers: Brokers, timeout_s: float) -> bool:
    return any(topic.partitions for topic in brokers.ask_any(metadata_call([OFFSETS]), timeout_s).topics)


def _coordinator(brokers: Brokers, group: str, timeout_s: float) -> int:
    answer = brokers.ask_any(Call(FindCoordinatorRequest, partial(_find, group)), timeout_s)
    found = answer.coordinators[0] if answer.coordinators else answer
    if error := error_name(found.error_code):
        raise Unanswered(error)
    return int(found.node_id)


def _find(group: str, version: int) -> ApiMessage:
    if version >= 4:
        return FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=[group])
    return FindCoordinatorRequest(key=group, key_type=_GROUP)


def _fetch(group: str, version: int) -> ApiMessage:
    if version <= _OF_ONE_GROUP:
        return OffsetFetchRequest(group_id=group, topics=None, require_stable=False)
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(groups=[kind(group_id=group, topics=None)], require_stable=False)


def _commits(group: str, answer: ApiMessage) -> Iterator[CommitSeen | GroupNotRead]:
    reported = answer.groups[0] if answer.groups else answer
    if error := error_name(reported.error_code):
        yield GroupNotRead(group, error)
        return
    for topic in reported.topics:
        for p in topic.partitions:
            if error := error_name(p.error_code):
                yield GroupNotRead(group, f"{topic.name}-{p.partition_index}: {error}")
            elif p.committed_offset != _NO_OFFSET:
                epoch = p.committed_leader_epoch if p.committed_leader_epoch >= 0 else None
                yield CommitSeen(group, topic.name, p.partition_index, p.committed_offset, epoch)
