"""Coordinators, committed offsets of groups, and the state of producers and transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka.protocol.data_container import DataContainer
from kafka.protocol.metadata import FindCoordinatorRequest

from harness.kafka.admin.topics import PartitionState
from harness.kafka.admin.wire import ANSWER_S, Call, Unanswered, Wire, call, error_name, metadata_offset, versions_call
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.place import Place

_KEY_TYPES: Final = {"group": 0, "transaction": 1, "share": 2}
_NEWEST_OFFSET_COMMIT: Final = 9  # as for offset fetch
_NEWEST_OFFSET_FETCH: Final = 9  # version 10 knows topic ids only
_NO_OFFSET: Final = -1
_UNDECIDED: Final = frozenset(
    {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "REQUEST_TIMED_OUT"}
)
_LIST: Final = call(ListGroupsRequest, states_filter=[], types_filter=[])


@dataclass(frozen=True, slots=True)
class ProducerOnPartition:
    """A producer's state on one partition at its leader. txn_start_offset None = no open transaction there."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    txn_start_offset: int | None


@dataclass(frozen=True, slots=True)
class TransactionState:
    """A transaction's state at its coordinator; `state` is Kafka's name, such as "Ongoing" or "CompleteCommit"."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    partitions: tuple[Place, ...]


def coordinator(wire: Wire, kind: str, key: str, deadline_s: float) -> int:
    """The broker that coordinates a group ("group"), a transactional id ("transaction"), or the state of a share group
    in a partition ("share", with the key GROUP:TOPIC_ID:PARTITION, KIP-932).

    Every broker is asked, and the answer of the one with the newest metadata counts. The first request of a kind makes
    Kafka create the internal topic, so this waits. HarnessTimeout, with the last error, when there is none by the
    deadline.
    """
    if kind not in _KEY_TYPES:
        raise BadInput(f'{kind!r} is not a kind of coordinator: give "group", "transaction" or "share"')
    question = Call(FindCoordinatorRequest, lambda version: _find(version, _KEY_TYPES[kind], key))
    give_up_at = time.monotonic() + deadline_s
    seen = "no broker answered"
    while True:
        answers = wire.gather(dict.fromkeys(wire.brokers, (versions_call(), question)), often=True)
        reported = {b: (metadata_offset(versions), *_coordinator_of(found)) for b, (versions, found) in answers.items()}
        good = [(offset, node) for offset, node, error in reported.values() if error is None]
        if good:
            return max(good)[1]
        seen = ", ".join(f"broker {b}: {error}" for b, (_, _, error) in reported.items()) or seen
        if time.monotonic() >= give_up_at:
            raise HarnessTimeout(f"waited {deadline_s:g} s for the {kind} coordinator of {key}; last saw {seen}")
        time.sleep(0.05)


def group_type(wire: Wire, group: str) -> str:
    """The protocol of a group (KIP-848): "classic" or "consumer"; "" when no broker reports it."""
    return next((str(found.group_type or "").lower() for found in _listed(wire) if found.group_id == group), "")


def group_state(wire: Wire, group: str) -> str:
    """Kafka's name of a group's state, such as "Stable" or "Empty"; "" when no broker has the group."""
    return next((str(found.group_state or "") for found in _listed(wire) if found.group_id == group), "")


def groups_by_coordinator(wire: Wire, timeout_s: float = ANSWER_S) -> dict[int, frozenset[str]]:
    """The groups of whatever protocol that each broker lists: those that it coordinates and this client may see."""
    answers = wire.ask_all(_LIST, timeout_s)
    return {broker: frozenset(found.group_id for found in answer.groups) for broker, answer in answers.items()}


def _listed(wire: Wire) -> list[DataContainer]:
    return [found for answer in wire.ask_all(_LIST).values() for found in answer.groups]


def delete_group(wire: Wire, group: str, deadline_s: float) -> None:
    """Deletes a group without members (KIP-229). An unknown group is no error, because an answer may have been lost.

    HarnessTimeout, with the last error, when its coordinator has not deleted it by the deadline.
    """
    question = call(DeleteGroupsRequest, groups_names=[group])
    give_up_at = time.monotonic() + deadline_s
    while True:
        broker = coordinator(wire, "group", group, max(0.1, give_up_at - time.monotonic()))
        try:
            (result,) = wire.ask(broker, question).results
            error = error_name(result.error_code)
        except Unanswered as silent:
            error = str(silent)
        if error in (None, "GROUP_ID_NOT_FOUND"):
            return
        if time.monotonic() >= give_up_at:
            raise HarnessTimeout(f"waited {deadline_s:g} s to delete group {group}; last saw broker {broker}: {error}")
        time.sleep(0.05)


def commit_from_outside(wire: Wire, group: str, place: Place, offset: int, deadline_s: float) -> str | None:
    """Kafka's error for an offset that no member of the group commits; None = the coordinator accepted it."""
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    row = topic.OffsetCommitRequestPartition(
        partition_index=place[1], committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
    )
    question = call(
        OffsetCommitRequest,
        _NEWEST_OFFSET_COMMIT,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[topic(name=place[0], partitions=[row])],
    )
    return _answered(wire, group, question, lambda answer: answer.topics[0].partitions[0].error_code, deadline_s)


def delete_offset(wire: Wire, group: str, place: Place, deadline_s: float) -> str | None:
    """Kafka's error for the deletion of a committed offset (KIP-496); None = the coordinator deleted it."""
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    row = topic.OffsetDeleteRequestPartition(partition_index=place[1])
    question = call(OffsetDeleteRequest, group_id=group, topics=[topic(name=place[0], partitions=[row])])
    return _answered(
        wire,
        group,
        question,
        lambda answer: answer.error_code or answer.topics[0].partitions[0].error_code,
        deadline_s,
    )


def _answered(
    wire: Wire, group: str, question: Call, code: Callable[[ApiMessage], int], deadline_s: float
) -> str | None:
    """The error in the answer of a coordinator that is able to decide; HarnessTimeout without one by the deadline."""
    give_up_at = time.monotonic() + deadline_s
    while True:
        broker = coordinator(wire, "group", group, max(0.1, give_up_at - time.monotonic()))
        try:
            error = error_name(code(wire.ask(broker, question)))
            if error not in _UNDECIDED:
                return error
        except Unanswered as silent:
            error = str(silent)
        if time.monotonic() >= give_up_at:
            raise HarnessTimeout(f"waited {deadline_s:g} s for the coordinator of group {group}; last saw {error}")
        time.sleep(0.05)


class Committed(NamedTuple):
    """A committed offset. leader_epoch: of the record before it, as the client said; -1 = it said none. metadata: the
    client's own text."""

    offset: int
    leader_epoch: int
    metadata: str = ""


def group_offsets(
    wire: Wire, group: str, places: Sequence[Place] | None, *, stable: bool, deadline_s: float
) -> dict[Place, int]:
    """The committed offsets of a group, from its coordinator. An unknown group has none.

    `stable` waits while offsets of a transaction are pending (KIP-447); without it the last completed commit counts.
    Kafka reports a pending first commit of a partition only if the request names that partition.
    """
    question = Call(OffsetFetchRequest, lambda version: _fetch(version, group, places, stable), _NEWEST_OFFSET_FETCH)
    give_up_at = time.monotonic() + deadline_s
    seen = "nothing"
    while True:
        broker = coordinator(wire, "group", group, max(0.1, give_up_at - time.monotonic()))
        try:
            offsets, error = _committed(wire.ask(broker, question))
        except Unanswered as silent:
            offsets, error = {}, str(silent)
        if error is None:
            return offsets
        seen = f"broker {broker}: {error}"
        if time.monotonic() >= give_up_at:
            raise HarnessTimeout(f"waited {deadline_s:g} s for the offsets of group {group}; last saw {seen}")
        time.sleep(0.05)


def offsets_at(wire: Wire, broker: int, group: str) -> dict[Place, Committed] | str:
    """The committed offsets of a group as one broker reports them now, without those in open transactions; or why it
    reports none."""
    question = Call(OffsetFetchRequest, lambda version: _fetch(version, group, None, False), _NEWEST_OFFSET_FETCH)
    try:
        offsets, error = _commits(wire.ask(broker, question))
    except Unanswered as silent:
        return str(silent)
    return offsets if error is None else error


def describe_producers(
    wire: Wire, states: Sequence[PartitionState], timeout_s: float = ANSWER_S
) -> dict[Place, list[ProducerOnPartition]]:
    """The producers with state on each leader (KIP-664); partitions without an answering leader are absent."""
    topic = DescribeProducersRequest.TopicRequest
    asked: dict[int, list[ApiMessage]] = {}
    for s in states:
        if s.leader in wire.brokers:
            asked.setdefault(s.leader, []).append(topic(name=s.topic, partition_indexes=[s.partition]))
    answers = wire.gather(
        {broker: (call(DescribeProducersRequest, topics=topics),) for broker, topics in asked.items()}, timeout_s
    )
    return {
        (t.name, p.partition_index): [
            ProducerOnPartition(
                t.name,
                p.partition_index,
                producer.producer_id,
                producer.producer_epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.current_txn_start_offset if producer.current_txn_start_offset >= 0 else None,
            )
            for producer in p.active_producers
        ]
        for (answer,) in answers.values()
        for t in answer.topics
        for p in t.partitions
        if error_name(p.error_code) is None
    }


def transactions_by_coordinator(wire: Wire, timeout_s: float = ANSWER_S) -> dict[int, dict[str, str]]:
    """Transactional id -> state, as each broker reports those that it coordinates; brokers without an answer are
    absent, and so are those that still load them."""
    question = call(ListTransactionsRequest, 1, state_filters=[], producer_id_filters=[], duration_filter=-1)
    return {
        broker: {found.transactional_id: found.transaction_state for found in answer.transaction_states}
        for broker, answer in wire.ask_all(question, timeout_s).items()
        if error_name(answer.error_code) is None
    }


def list_transactions(wire: Wire, timeout_s: float = ANSWER_S) -> dict[str, str]:
    """Transactional id -> state, from every coordinator that answers."""
    by_coordinator = transactions_by_coordinator(wire, timeout_s)
    return {name: state for known in by_coordinator.values() for name, state in known.items()}


def describe_transactions(wire: Wire, ids: Sequence[str], timeout_s: float = ANSWER_S) -> dict[str, TransactionState]:
    """The state of transactions at their coordinators; an id that no answering coordinator knows is absent.

    Every broker is asked. One that does not coordinate an id answers with an error, so no lookup is needed.
    """
    answers = wire.ask_all(call(DescribeTransactionsRequest, transactional_ids=list(ids)), timeout_s)
    return {
        t.transactional_id: TransactionState(
            t.transactional_id,
            t.transaction_state,
            t.producer_id,
            t.producer_epoch,
            t.transaction_timeout_ms,
            t.transaction_start_time_ms,
            tuple((topic.topic, p) for topic in t.topics for p in topic.partitions),
        )
        for answer in answers.values()
        for t in answer.transaction_states
        if error_name(t.error_code) is None
    }


def _find(version: int, key_type: int, key: str) -> ApiMessage:
    if version >= 4:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    return FindCoordinatorRequest(key=key, key_type=key_type)


def _coordinator_of(answer: ApiMessage) -> tuple[int, str | None]:
    found = answer.coordinators[0] if answer.coordinators else answer
    return found.node_id, error_name(found.error_code)


def _fetch(version: int, group: str, places: Sequence[Place] | None, stable: bool) -> ApiMessage:
    if version >= 8:
        kind = OffsetFetchRequest.OffsetFetchRequestGroup
        topics = _named(kind.OffsetFetchRequestTopics, places)
        return OffsetFetchRequest(groups=[kind(group_id=group, topics=topics)], require_stable=stable)
    topics = _named(OffsetFetchRequest.OffsetFetchRequestTopic, places)
    return OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)


def _named(kind: type[DataContainer], places: Sequence[Place] | None) -> list[DataContainer] | None:
    if places is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(partition)
    return [kind(name=topic, partition_indexes=indexes) for topic, indexes in by_topic.items()]


def _committed(answer: ApiMessage) -> tuple[dict[Place, int], str | None]:
    commits, error = _commits(answer)
    return {place: commit.offset for place, commit in commits.items()}, error


def _commits(answer: ApiMessage) -> tuple[dict[Place, Committed], str | None]:
    """The commits, or the first error of the group or of a partition (UNSTABLE_OFFSET_COMMIT)."""
    reported = answer.groups[0] if answer.groups else answer
    errors = [error_name(reported.error_code)]
    errors += [error_name(p.error_code) for topic in reported.topics for p in topic.partitions]
    if error := next((e for e in errors if e is not None), None):
        return {}, error
    return {
        (topic.name, p.partition_index): Committed(p.committed_offset, p.committed_leader_epoch, p.metadata or "")
        for topic in reported.topics
        for p in topic.partitions
        if p.committed_offset != _NO_OFFSET
    }, None
