"""The members of a group and their partitions, as its coordinator reports them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import ConsumerProtocolAssignment
from kafka.protocol.data_container import DataContainer

from harness.kafka.admin.groups import coordinator, group_type
from harness.kafka.admin.wire import Unanswered, Wire, call, error_name
from harness.kafka.decoding import DECODING
from harness.kafka.messages import ConsumerGroupDescribeRequest
from harness.model.errors import HarnessTimeout
from harness.model.place import Place

_COORDINATOR_S = 1.5  # the caller asks again


@dataclass(frozen=True, slots=True)
class Member:
    """A member by the name of its client, and its partitions in the present assignment."""

    client: str
    places: frozenset[Place]


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """state: Kafka's name, such as "Stable"; "" without an answer. by_coordinator: the coordinator assigns the
    partitions itself (KIP-848), not one of the members."""

    state: str
    members: tuple[Member, ...] = ()
    by_coordinator: bool = False


def group_members(wire: Wire, group: str) -> GroupSeen:
    """One look at a group of the classic or the new protocol (KIP-848)."""
    try:
        broker = coordinator(wire, "group", group, _COORDINATOR_S)
        if group_type(wire, group) == "consumer":
            question = call(ConsumerGroupDescribeRequest, group_ids=[group], include_authorized_operations=False)
            return _of_new_protocol(wire.ask(broker, question))
        question = call(DescribeGroupsRequest, groups=[group], include_authorized_operations=False)
        return _of_classic_protocol(wire.ask(broker, question))
    except (Unanswered, HarnessTimeout):
        return GroupSeen("")


def _of_new_protocol(answer: ApiMessage) -> GroupSeen:
    (group,) = answer.groups
    if error_name(group.error_code):
        return GroupSeen("")
    members = [Member(m.client_id, _places(m.assignment.topic_partitions, "topic_name")) for m in group.members]
    return GroupSeen(group.group_state, tuple(members), by_coordinator=True)


def _of_classic_protocol(answer: ApiMessage) -> GroupSeen:
    (group,) = answer.groups
    if error_name(group.error_code):
        return GroupSeen("")
    members = []
    for member in group.members:
        given = bytes(member.member_assignment or b"")
        with DECODING:
            topics = ConsumerProtocolAssignment.decode(given).assigned_partitions if given else []
        members.append(Member(member.client_id, _places(topics, "topic")))
    return GroupSeen(group.group_state, tuple(members))


def _places(topics: Iterable[DataContainer], name: str) -> frozenset[Place]:
    return frozenset((str(getattr(topic, name)), int(p)) for topic in topics for p in topic.partitions)
