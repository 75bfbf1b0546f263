"""Settings, elections and reassignments."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer

from harness.kafka.admin.operations import BROKER, SET, TOPIC, UNSET
from harness.kafka.admin.quorum import PASSING, to_controller
from harness.kafka.admin.wire import ANSWER_S, Call, Wire, call, error_name
from harness.model.errors import BadInput, HarnessFailure
from harness.model.place import Place

_GROUP: Final = 32  # ConfigResource.Type
# ConfigEntry.ConfigSource: set on the topic, on that broker, or on the group, itself.
_OWN: Final = {TOPIC: 1, BROKER: 2, _GROUP: 8}
_ELECTIONS: Final = {"preferred": 0, "unclean": 1}
_APPLIED_WITHIN_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment in progress."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def topic_configs(wire: Wire, topics: Sequence[str], timeout_s: float = ANSWER_S) -> dict[str, dict[str, str]]:
    """Effective settings of topics, from the answering broker with the newest metadata."""
    question = _describe([(TOPIC, name) for name in topics])
    for broker in wire.freshest() if topics else ():
        answers = wire.gather({broker: (question,)}, timeout_s)
        if answers:
            return _configs(answers[broker][0])
    return {}


def broker_configs(wire: Wire, timeout_s: float = ANSWER_S) -> dict[int, dict[str, str]]:
    """Effective settings of each answering broker, as that broker reports them; secrets are absent."""
    answers = wire.gather({b: (_describe([(BROKER, str(b))]),) for b in wire.brokers}, timeout_s)
    return {broker: _configs(answer[0]).get(str(broker), {}) for broker, answer in answers.items()}


def alter_config(wire: Wire, topic: str, config: Mapping[str, str | None], deadline_s: float) -> None:
    """Sets settings of a topic, or removes those that are None, and leaves the others unchanged (KIP-339).

    Returns when every answering broker reports the new values, or after 3 s, because a broker that is isolated from
    the controllers cannot learn them. BadInput when Kafka refuses a value.
    """
    _alter(wire, TOPIC, [topic], config, deadline_s)
    _await_shown(lambda: wire.ask_all(_describe([(TOPIC, topic)])), TOPIC, config)


def alter_broker_config(
    wire: Wire, brokers: Sequence[int], config: Mapping[str, str | None], deadline_s: float
) -> None:
    """Changes dynamic settings of brokers (KIP-226), and waits until each broker reports its own."""
    _alter(wire, BROKER, list(map(str, brokers)), config, deadline_s)

    def reported() -> Mapping[int, ApiMessage]:
        answers = wire.gather({b: (_describe([(BROKER, str(b))]),) for b in brokers}, ANSWER_S)
        return {broker: answer[0] for broker, answer in answers.items()}

    _await_shown(reported, BROKER, config)


def alter_group_config(wire: Wire, group: str, config: Mapping[str, str | None], deadline_s: float) -> None:
    """Changes settings of a group (KIP-848, KIP-932), and waits until every broker reports them."""
    _alter(wire, _GROUP, [group], config, deadline_s)
    _await_shown(lambda: wire.ask_all(_describe([(_GROUP, group)])), _GROUP, config)


def _alter(wire: Wire, type_: int, names: Sequence[str], config: Mapping[str, str | None], deadline_s: float) -> None:
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = [
        kind.AlterableConfig(name=name, config_operation=UNSET if value is None else SET, value=value)
        for name, value in config.items()
    ]
    question = call(
        IncrementalAlterConfigsRequest,
        resources=[kind(resource_type=type_, resource_name=name, configs=changes) for name in names],
        validate_only=False,
    )

    def refusal(answer: ApiMessage) -> str | None:
        passing = None
        for reported in answer.responses:
            error = error_name(reported.error_code)
            if error and error not in PASSING:
                what = f"{dict(config)} on {reported.resource_name}"
                raise BadInput(f"Kafka refuses {what}: {error} ({reported.error_message})")
            passing = passing or error
        return passing

    to_controller(wire, question, refusal, deadline_s=deadline_s, what=f"new settings of {', '.join(names)}")


def _await_shown(
    reported: Callable[[], Mapping[int, ApiMessage]], type_: int, config: Mapping[str, str | None]
) -> None:
    give_up_at = time.monotonic() + _APPLIED_WITHIN_S
    while time.monotonic() < give_up_at:
        answers = reported()
        if answers and all(_shows(answer, _OWN[type_], config) for answer in answers.values()):
            return
        time.sleep(0.05)


def elect_leaders(wire: Wire, kind: str, places: Sequence[Place], deadline_s: float) -> dict[Place, str | None]:
    """Holds a "preferred" or "unclean" election (KIP-183, KIP-460). Returns Kafka's error or None for each partition.

    ELECTION_NOT_NEEDED is such an error, so a caller that needs another leader has to check. HarnessTimeout by the
    deadline.
    """
    if kind not in _ELECTIONS:
        raise BadInput(f'{kind!r} is not a kind of election: give "preferred" or "unclean"')
    topic = ElectLeadersRequest.TopicPartitions
    question = call(
        ElectLeadersRequest,
        election_type=_ELECTIONS[kind],
        topic_partitions=[topic(topic=name, partitions=indexes) for name, indexes in _grouped(places).items()],
        timeout_ms=5000,
    )

    def results(answer: ApiMessage) -> dict[Place, str | None]:
        return {
            (reported.topic, p.partition_id): error_name(p.error_code)
            for reported in answer.replica_election_results
            for p in reported.partition_result
        }

    def refusal(answer: ApiMessage) -> str | None:
        passing = {error for error in results(answer).values() if error in PASSING}
        return error_name(answer.error_code) or (", ".join(sorted(passing)) or None)

    return results(to_controller(wire, question, refusal, deadline_s=deadline_s, what=f"{kind} election of {places}"))


def reassign(wire: Wire, assignment: Mapping[Place, Sequence[int] | None], deadline_s: float) -> None:
    """Starts to reassign partitions to these replicas (KIP-455), of which the first is preferred; None cancels.

    Returns when the controller has accepted it, before it is complete: see `reassignments`. HarnessFailure when the
    controller refuses.
    """
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic

    def partition(place: Place) -> DataContainer:
        replicas = assignment[place]
        listed = None if replicas is None else list(replicas)
        return kind.ReassignablePartition(partition_index=place[1], replicas=listed)

    topics = [
        kind(name=name, partitions=[partition((name, i)) for i in indexes])
        for name, indexes in _grouped(list(assignment)).items()
    ]

    def refusal(answer: ApiMessage) -> str | None:
        errors = {
            f"{reported.name}-{p.partition_index}": f"{error} ({p.error_message})"
            for reported in answer.responses
            for p in reported.partitions
            if (error := error_name(p.error_code)) and error not in PASSING
        }
        if errors:
            raise HarnessFailure(f"Kafka refuses to reassign {errors}")
        passing = [error_name(p.error_code) for reported in answer.responses for p in reported.partitions]
        return error_name(answer.error_code) or next((e for e in passing if e), None)

    question = call(AlterPartitionReassignmentsRequest, 0, timeout_ms=5000, topics=topics)
    to_controller(wire, question, refusal, deadline_s=deadline_s, what=f"the reassignment of {list(assignment)}")


def reassignments(wire: Wire, deadline_s: float) -> dict[Place, Reassignment]:
    """The reassignments in progress, as the controller reports them."""
    question = call(ListPartitionReassignmentsRequest, timeout_ms=5000, topics=None)
    answer = to_controller(
        wire,
        question,
        lambda reported: error_name(reported.error_code),
        deadline_s=deadline_s,
        what="the list of reassignments",
    )
    return {
        (topic.name, p.partition_index): Reassignment(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in answer.topics
        for p in topic.partitions
    }


def _describe(resources: Sequence[tuple[int, str]]) -> Call:
    kind = DescribeConfigsRequest.DescribeConfigsResource
    return call(
        DescribeConfigsRequest,
        resources=[kind(resource_type=type_, resource_name=name, configuration_keys=None) for type_, name in resources],
        include_synonyms=False,
        include_documentation=False,
    )


def _shows(answer: ApiMessage, own: int, config: Mapping[str, str | None]) -> bool:
    """Whether a topic or broker itself has these settings, and lacks those with the value None."""
    reported = {c.name: c.value for c in answer.results[0].configs if c.config_source == own}
    return all(reported.get(name) == value for name, value in config.items())


def _configs(answer: ApiMessage) -> dict[str, dict[str, str]]:
    return {
        result.resource_name: {c.name: c.value for c in result.configs if c.value is not None}
        for result in answer.results
        if error_name(result.error_code) is None
    }


def _grouped(places: Sequence[Place]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        grouped[topic].append(partition)
    return grouped
