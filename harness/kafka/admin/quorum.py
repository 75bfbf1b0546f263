"""The controllers: who leads them, and requests that only the active one can answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.admin import DescribeQuorumRequest

from harness.kafka.admin.wire import ANSWER_S, Call, Unanswered, Wire, call, error_name
from harness.kafka.messages import AddRaftVoterRequest, RemoveRaftVoterRequest
from harness.kafka.settings.node_settings import controller_address
from harness.kafka.storage.uuids import kafka_uuid, uuid_of
from harness.model.errors import HarnessTimeout

_CHANGE_MS: Final = 5000
HANDED_ON_S: Final = 6.0  # how long one node may take over a request for the active controller
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Quorum:
    """The metadata quorum. Log ends by node id; observers are the brokers (and controllers that do not vote)."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: dict[int, int]
    observers: dict[int, int]
    directories: dict[int, str] = field(default_factory=dict)  # ids that KIP-853 knows voters by; static ones have none


def quorum(wire: Wire, deadline_s: float) -> Quorum:
    """The controllers' quorum as its leader has it; HarnessTimeout while there is none."""
    if not wire.controllers:
        answer = to_controller(wire, _question(), _refusal, deadline_s=deadline_s, what="the controllers' quorum")
        return _quorum(answer)
    give_up_at = time.monotonic() + deadline_s
    while not (reported := _reported_by_controllers(wire)):
        if time.monotonic() >= give_up_at:
            raise HarnessTimeout(f"waited {deadline_s:g} s for a leader of the controllers; none says that it leads")
        time.sleep(_POLL_S)
    return max(reported.values(), key=lambda seen: seen.leader_epoch)


def to_controller(
    wire: Wire,
    question: Call,
    refusal: Callable[[Any], str | None],
    *,
    deadline_s: float,
    what: str,
    unanswered: Callable[[], None] = lambda: None,
) -> Any:
    """A request for the active controller, until an answer has no refusal that is worth another try. `unanswered` is
    called whenever one got no answer: it may have been done for all that.

    Controllers are asked themselves where their addresses are known (KIP-919). Otherwise brokers hand it on, one after
    another: one that is cut off from the controllers, or whose controller is paused, holds it until it times out.
    Raises HarnessTimeout with the last refusal seen.
    """
    give_up_at = time.monotonic() + deadline_s
    seen = "nobody answered"
    while True:
        for node in _candidates(wire):
            left_s = give_up_at - time.monotonic()
            if left_s <= 0:
                break
            try:
                answer = wire.ask(node, question, min(left_s, HANDED_ON_S))
            except Unanswered as silent:
                seen = str(silent)
                unanswered()
                continue
            reason = refusal(answer)
            if reason is None:
                return answer
            seen = f"node {node}: {reason}"
        if time.monotonic() >= give_up_at:
            raise HarnessTimeout(f"waited {deadline_s:g} s for {what}; last saw {seen}")
        time.sleep(_POLL_S)


def _candidates(wire: Wire) -> list[int]:
    """Who to ask: controllers that say they lead, the newest epoch first; brokers where no controller is known."""
    if not wire.controllers:
        return wire.freshest()
    reported = _reported_by_controllers(wire)
    return sorted(reported, key=lambda node: -reported[node].leader_epoch)


def _reported_by_controllers(wire: Wire) -> dict[int, Quorum]:
    """The quorum by each controller that says it leads; the others refuse, and one that was paused may be mistaken."""
    answers = wire.gather(dict.fromkeys(wire.controllers, (_question(),)), ANSWER_S, often=True)
    return {node: _quorum(reported[0]) for node, reported in answers.items() if _refusal(reported[0]) is None}


def _question() -> Call:
    topic = DescribeQuorumRequest.TopicData
    asked = topic(topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)])
    return call(DescribeQuorumRequest, topics=[asked])


def _refusal(answer: Any) -> str | None:
    if error := error_name(answer.error_code):
        return error
    part = answer.topics[0].partitions[0]
    return error_name(part.error_code) or (None if part.leader_id >= 0 else "no leader")


def _quorum(answer: Any) -> Quorum:
    part = answer.topics[0].partitions[0]
    return Quorum(
        part.leader_id,
        part.leader_epoch,
        part.high_watermark,
        {voter.replica_id: voter.log_end_offset for voter in part.current_voters},
        {observer.replica_id: observer.log_end_offset for observer in part.observers},
        {v.replica_id: kafka_uuid(v.replica_directory_id) for v in part.current_voters if v.replica_directory_id},
    )


def remove_voter(wire: Wire, node: int, directory: str, deadline_s: float) -> None:
    """Asks for voters without this one, dead or alive (KIP-853), and returns once they are committed.

    HarnessTimeout, with the last refusal, when that is not so by the deadline.
    """
    question = call(RemoveRaftVoterRequest, cluster_id=None, voter_id=node, voter_directory_id=uuid_of(directory))
    _change(wire, question, "VOTER_NOT_FOUND", deadline_s, f"voters without {node}")


def add_voter(wire: Wire, node: int, directory: str, deadline_s: float) -> None:
    """Asks for voters with this controller, which has to have caught up; as `remove_voter`."""
    host, port = controller_address(node).split(":")
    question = call(
        AddRaftVoterRequest,
        cluster_id=None,
        timeout_ms=_CHANGE_MS,
        voter_id=node,
        voter_directory_id=uuid_of(directory),
        listeners=[AddRaftVoterRequest.Listener(name="CONTROLLER", host=host, port=int(port))],
    )
    _change(wire, question, "DUPLICATE_VOTER", deadline_s, f"{node} among the voters")


def _change(wire: Wire, question: Call, already: str, deadline_s: float, what: str) -> None:
    """Until it is done: one change at a time is taken, and what went unanswered may have been done (`already`)."""

    def refusal(answer: Any) -> str | None:
        error = error_name(answer.error_code)
        return None if error in (None, already) else f"{error} ({answer.error_message})"

    to_controller(wire, question, refusal, deadline_s=deadline_s, what=what)
