"""Topics and the state of their partitions. Every broker is asked, and the newest metadata counts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer

from harness.kafka.admin.partition_pages import gives_pages, partition_page
from harness.kafka.admin.quorum import to_controller
from harness.kafka.admin.wire import (
    ANSWER_S,
    Wire,
    call,
    error_name,
    metadata_call,
    metadata_offset,
    versions_call,
)
from harness.kafka.storage.uuids import kafka_uuid
from harness.model.errors import BadInput, HarnessFailure
from harness.model.place import Place
from harness.model.scenario.scenario import Topic
from harness.model.waiting import wait_for

MIN_INSYNC_REPLICAS: Final = "2"  # of a topic that does not set it
_RESPONSE_PARTITIONS: Final = 2000
_NO_LEADER: Final = -1
# Refusals that may pass with time; any other one is final.
_PASSING: Final = frozenset(
    {"NOT_CONTROLLER", "REQUEST_TIMED_OUT", "COORDINATOR_LOAD_IN_PROGRESS", "INVALID_REPLICATION_FACTOR"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One partition at the newest leader epoch that a broker knows. leader -1 = none; elr: KIP-966, from 4.0 on."""

    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    elr: tuple[int, ...] = ()


class TopicsSeen(NamedTuple):
    """One broker's answer, and an offset of the metadata log that its metadata had reached at least."""

    metadata_offset: int
    partitions: dict[Place, PartitionState]


def partitions(wire: Wire, topics: Iterable[str], *, often: bool = True) -> list[PartitionState]:
    """The newest known state of every partition of the existing topics, sorted; empty when no broker answers."""
    seen = seen_by_broker(wire, topics, often=often)
    return newest(seen.values())


def newest(answers: Iterable[TopicsSeen]) -> list[PartitionState]:
    """The state at the highest leader epoch in several brokers' answers; of equal epochs, the newest metadata.

    A stale leader still answers, so one broker's answer is not enough. The broker with the newest metadata decides
    which topic id a name has: a topic may have been deleted and created again, with leader epochs from 0.
    """
    ordered = sorted(answers, key=lambda seen: seen.metadata_offset)
    if not ordered:
        return []
    known = {state.topic: state.topic_id for state in ordered[-1].partitions.values()}
    best: dict[Place, PartitionState] = {}
    for seen in ordered:
        for place, state in seen.partitions.items():
            if known.get(state.topic) != state.topic_id:
                continue
            if place not in best or state.leader_epoch >= best[place].leader_epoch:
                best[place] = state
    return [best[place] for place in sorted(best)]


def seen_by_broker(
    wire: Wire, topics: Iterable[str], *, timeout_s: float = ANSWER_S, often: bool = False
) -> dict[int, TopicsSeen]:
    """The metadata of the topics in each answering broker, stale or not."""
    names = sorted(set(topics))
    if not names:
        return {}
    questions = dict.fromkeys(wire.brokers, (versions_call(), metadata_call(names)))
    answers = wire.gather(questions, timeout_s, often=often)
    elr = _eligible(wire, answers, names, timeout_s)
    return {
        broker: TopicsSeen(metadata_offset(versions), _states(metadata, elr))
        for broker, (versions, metadata) in answers.items()
    }


def create_topics(wire: Wire, topics: Sequence[Topic], deadline_s: float) -> dict[str, str]:
    """Creates topics, waits until every answering broker knows a leader of each partition, and returns topic ids.

    BadInput when Kafka refuses one (bad name, bad config, too few brokers); HarnessTimeout by the deadline.
    """
    give_up_at = time.monotonic() + deadline_s
    _create(wire, topics, deadline_s)
    wanted = {(t.name, p) for t in topics for p in range(_count(t))}
    wait_for(
        lambda: _without_leader(wire, wanted),
        until=lambda missing: not missing,
        deadline_s=max(0.1, give_up_at - time.monotonic()),
        what="every broker to know a leader of the new topics",
    )
    return {state.topic: state.topic_id for state in partitions(wire, [t.name for t in topics], often=False)}


def _create(wire: Wire, topics: Sequence[Topic], deadline_s: float) -> None:
    tried = False

    def mark_tried() -> None:
        nonlocal tried
        tried = True

    def refusal(answer: ApiMessage) -> str | None:
        errors = {t.name: (error_name(t.error_code), t.error_message) for t in answer.topics}
        bad = {n: e for n, e in errors.items() if e[0] and not (e[0] == "TOPIC_ALREADY_EXISTS" and tried)}
        mark_tried()
        final = {n: e for n, e in bad.items() if e[0] not in _PASSING}
        if final:
            raise BadInput(f"Kafka refuses to create {_reported(final)}; correct the topics of the scenario")
        return _reported(bad) or None

    request = call(CreateTopicsRequest, topics=[_creatable(t) for t in topics], timeout_ms=5000, validate_only=False)
    to_controller(
        wire,
        request,
        refusal,
        deadline_s=deadline_s,
        what=f"topics {[t.name for t in topics]}",
        unanswered=mark_tried,
    )


def recreate_topic(wire: Wire, topic: Topic, deadline_s: float) -> str:
    """Deletes a topic, creates it at once under the same name, and returns its new topic id.

    Brokers may not have noticed the deletion yet. Waits until every answering broker knows leaders of the new topic.
    HarnessTimeout by the deadline.
    """
    give_up_at = time.monotonic() + deadline_s
    (old,) = {state.topic_id for state in partitions(wire, [topic.name], often=False)} or {""}
    _delete(wire, [topic.name], deadline_s)
    _create(wire, [topic], deadline_s)
    wanted = {(topic.name, p) for p in range(_count(topic))}

    def stale() -> dict[int, list[Place] | list[str]]:
        seen = seen_by_broker(wire, [topic.name])
        ids = {b: {state.topic_id for state in reported.partitions.values()} for b, reported in seen.items()}
        return _without_leader(wire, wanted) | {b: sorted(known) for b, known in ids.items() if len(known - {old}) != 1}

    wait_for(
        stale,
        until=lambda left: not left,
        deadline_s=max(0.1, give_up_at - time.monotonic()),
        what=f"every broker to have the new topic {topic.name}",
    )
    return partitions(wire, [topic.name], often=False)[0].topic_id


def create_partitions(wire: Wire, topic: str, total: int, deadline_s: float) -> None:
    """Gives a topic `total` partitions and waits until every answering broker knows a leader of each of them.

    BadInput when Kafka refuses that; HarnessTimeout by the deadline.
    """
    give_up_at = time.monotonic() + deadline_s
    kind = CreatePartitionsRequest.CreatePartitionsTopic
    wanted = {(topic, p) for p in range(total)}
    tried = False

    def mark_tried() -> None:
        nonlocal tried
        tried = True

    def refusal(answer: ApiMessage) -> str | None:
        reported = answer.results[0]
        error = error_name(reported.error_code)
        if error == "INVALID_PARTITIONS" and tried:
            return None  # an earlier request created them, and its answer was lost
        if error and error not in _PASSING:
            raise BadInput(f"Kafka refuses {total} partitions of {topic}: {error} ({reported.error_message})")
        mark_tried()
        return error

    request = call(
        CreatePartitionsRequest,
        topics=[kind(name=topic, count=total, assignments=None)],
        timeout_ms=5000,
        validate_only=False,
    )
    to_controller(
        wire,
        request,
        refusal,
        deadline_s=deadline_s,
        what=f"{total} partitions of {topic}",
        unanswered=mark_tried,
    )
    wait_for(
        lambda: _without_leader(wire, wanted),
        until=lambda missing: not missing,
        deadline_s=max(0.1, give_up_at - time.monotonic()),
        what="every broker to know a leader of the new partitions",
    )


def delete_topics(wire: Wire, names: Sequence[str], deadline_s: float) -> None:
    """Deletes topics and waits until no answering broker knows them. Topics that do not exist are no error."""
    give_up_at = time.monotonic() + deadline_s
    _delete(wire, names, deadline_s)
    wait_for(
        lambda: sorted({t for seen in seen_by_broker(wire, names).values() for t, _ in seen.partitions}),
        until=lambda left: not left,
        deadline_s=max(0.1, give_up_at - time.monotonic()),
        what="every broker to forget the deleted topics",
    )


def _delete(wire: Wire, names: Sequence[str], deadline_s: float) -> None:
    def refusal(answer: ApiMessage) -> str | None:
        errors = {t.name: (error_name(t.error_code), t.error_message) for t in answer.responses}
        bad = {n: e for n, e in errors.items() if e[0] and e[0] != "UNKNOWN_TOPIC_OR_PARTITION"}
        if any(e[0] not in _PASSING for e in bad.values()):
            raise HarnessFailure(f"Kafka refuses to delete {_reported(bad)}")
        return _reported(bad) or None

    state = DeleteTopicsRequest.DeleteTopicState
    request = call(DeleteTopicsRequest, topics=[state(name=n) for n in names], timeout_ms=5000)
    to_controller(wire, request, refusal, deadline_s=deadline_s, what=f"the deletion of {list(names)}")


def _states(answer: ApiMessage, elr: Mapping[tuple[str, int, int], tuple[int, ...]]) -> dict[Place, PartitionState]:
    found = {}
    for topic in answer.topics:
        if error_name(topic.error_code):
            continue
        for p in topic.partitions:
            found[topic.name, p.partition_index] = PartitionState(
                topic=topic.name,
                topic_id=kafka_uuid(topic.topic_id),
                partition=p.partition_index,
                leader=p.leader_id,
                leader_epoch=p.leader_epoch,
                isr=tuple(p.isr_nodes),
                replicas=tuple(p.replica_nodes),
                elr=elr.get((topic.name, p.partition_index, p.leader_epoch), ()),
            )
    return found


def _eligible(
    wire: Wire, answers: Mapping[int, Sequence[ApiMessage]], names: Sequence[str], timeout_s: float
) -> dict[tuple[str, int, int], tuple[int, ...]]:
    """Eligible leader replicas by topic, partition and leader epoch, from the broker with the newest metadata.

    Only DescribeTopicPartitions reports them (KIP-966); a release without that request has none.
    """
    if not answers:
        return {}
    broker = max(answers, key=lambda b: metadata_offset(answers[b][0]))
    if not gives_pages(answers[broker][0]):
        return {}
    reported = wire.gather({broker: (partition_page(names, _RESPONSE_PARTITIONS),)}, timeout_s).get(broker)
    return {
        (t.name, p.partition_index, p.leader_epoch): tuple(p.eligible_leader_replicas or ())
        for t in (reported[0].topics if reported else ())
        for p in t.partitions
    }


def _without_leader(wire: Wire, wanted: set[Place]) -> dict[int, list[Place]]:
    """The partitions without a known leader by broker; {0: all of them} when no broker answers."""
    seen = seen_by_broker(wire, {topic for topic, _ in wanted})
    missing = {
        broker: sorted(p for p in wanted if p not in reported.partitions or reported.partitions[p].leader == _NO_LEADER)
        for broker, reported in seen.items()
    }
    return {broker: places for broker, places in missing.items() if places} if seen else {0: sorted(wanted)}


def _creatable(topic: Topic) -> DataContainer:
    kind = CreateTopicsRequest.CreatableTopic
    explicit = bool(topic.assignment)
    config = {"min.insync.replicas": MIN_INSYNC_REPLICAS} | topic.config
    return kind(
        name=topic.name,
        num_partitions=-1 if explicit else topic.partitions,
        replication_factor=-1 if explicit else topic.replicas,
        assignments=[
            kind.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(topic.assignment)
        ],
        configs=[kind.CreatableTopicConfig(name=name, value=value) for name, value in sorted(config.items())],
    )


def _count(topic: Topic) -> int:
    return len(topic.assignment) or topic.partitions


def _reported(errors: Mapping[str, tuple[str | None, str | None]]) -> str:
    return "; ".join(f"{name}: {error} ({message or 'no message'})" for name, (error, message) in errors.items())
