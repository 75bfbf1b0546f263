"""The answers of one broker as a coordinator. An error, of the whole question or of one name in it, is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from kafka.protocol.admin import DescribeGroupsRequest, DescribeTransactionsRequest
from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.groups import Committed, TransactionState, offsets_at
from harness.kafka.admin.wire import Call, Unanswered, Wire, call, error_name
from harness.kafka.messages import ConsumerGroupDescribeRequest
from harness.kafka.storage.uuids import kafka_uuid
from harness.model.place import Place

_UNKNOWN: Final = frozenset({105, 69})  # TRANSACTIONAL_ID_NOT_FOUND, GROUP_ID_NOT_FOUND

_State = TypeVar("_State")


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """A group. epoch, assignment_epoch and assigned: None for a classic group. members: by id, their epochs if they
    have some. assigned: by member, the ids of topics and the partitions that it has."""

    state: str
    epoch: int | None
    assignment_epoch: int | None
    members: Mapping[str, int | None]
    assigned: Mapping[str, Sequence[tuple[str, int]]] | None = None


class CoordinatorAnswers:
    """Asks the brokers that lead the logs of coordinators. A text in place of an answer is the reason for none."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def offsets(self, broker: int, group: str) -> dict[Place, Committed] | str:
        """The committed offsets of a group without those in open transactions."""
        return offsets_at(self._wire, broker, group)

    def transactions(self, broker: int, ids: Sequence[str]) -> dict[str, TransactionState | str | None]:
        """The state of each transactional id; None if the broker does not know it."""
        answer = self._ask(broker, call(DescribeTransactionsRequest, transactional_ids=list(ids)))
        if isinstance(answer, str):
            return dict.fromkeys(ids, answer)
        found: dict[str, TransactionState | str | None] = {}
        for t in answer.transaction_states:
            places = tuple((topic.topic, p) for topic in t.topics for p in topic.partitions)
            state = TransactionState(
                t.transactional_id,
                t.transaction_state,
                t.producer_id,
                t.producer_epoch,
                t.transaction_timeout_ms,
                t.transaction_start_time_ms,
                places,
            )
            found[t.transactional_id] = _or_error(state, t.error_code)
        return found

    def consumer_group(self, broker: int, group: str) -> GroupAnswer | str | None:
        """A group of the protocol of KIP-848; None if the broker does not know it."""
        question = call(ConsumerGroupDescribeRequest, group_ids=[group], include_authorized_operations=False)
        answer = self._ask(broker, question)
        if isinstance(answer, str):
            return answer
        (found,) = answer.groups
        members = {m.member_id: m.member_epoch for m in found.members}
        assigned = {
            m.member_id: [(kafka_uuid(t.topic_id), p) for t in m.assignment.topic_partitions for p in t.partitions]
            for m in found.members
        }
        state = GroupAnswer(found.group_state, found.group_epoch, found.assignment_epoch, members, assigned)
        return _or_error(state, found.error_code)

    def classic_group(self, broker: int, group: str) -> GroupAnswer | str | None:
        """A group of the classic protocol; None if the broker does not know it."""
        question = call(DescribeGroupsRequest, groups=[group], include_authorized_operations=False)
        answer = self._ask(broker, question)
        if isinstance(answer, str):
            return answer
        (found,) = answer.groups
        state = GroupAnswer(found.group_state, None, None, {m.member_id: None for m in found.members})
        return _or_error(state, found.error_code)

    def _ask(self, broker: int, question: Call) -> ApiMessage | str:
        try:
            return self._wire.ask(broker, question)
        except Unanswered as silent:
            return str(silent)


def _or_error(state: _State, code: int) -> _State | str | None:
    error = error_name(code)
    if error is None:
        return state
    return None if code in _UNKNOWN else error
