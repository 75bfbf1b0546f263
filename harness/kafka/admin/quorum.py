"""The controllers: which one leads, and requests that only the active one can answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.quorum_state import Quorum, quorum_of, quorum_question, quorum_refusal
from harness.kafka.admin.wire import ANSWER_S, Call, Unanswered, Wire, call, error_name
from harness.kafka.messages import AddRaftVoterRequest, RemoveRaftVoterRequest
from harness.kafka.settings.node_settings import controller_address
from harness.kafka.storage.uuids import uuid_of
from harness.model.errors import HarnessTimeout

_CHANGE_MS: Final = 5000
FORWARDED_S: Final = 6.0  # the time that one node gets for a request to the active controller
PASSING: Final = frozenset({"NOT_CONTROLLER", "REQUEST_TIMED_OUT"})  # its errors that another try may not meet
_POLL_S: Final = 0.05


def quorum(wire: Wire, deadline_s: float) -> Quorum:
    """The controllers' quorum as its leader reports it; HarnessTimeout without a leader."""
    if not wire.controllers:
        what = "the controllers' quorum"
        return quorum_of(to_controller(wire, quorum_question(), quorum_refusal, deadline_s=deadline_s, what=what))
    give_up_at = time.monotonic() + deadline_s
    while not (reported := _reported_by_controllers(wire)):
        if time.monotonic() >= give_up_at:
            raise HarnessTimeout(
                f"waited {deadline_s:g} s for a leader of the controllers; none of them says that it leads"
            )
        time.sleep(_POLL_S)
    return max(reported.values(), key=lambda seen: seen.leader_epoch)


def to_controller(
    wire: Wire,
    question: Call,
    refusal: Callable[[ApiMessage], str | None],
    *,
    deadline_s: float,
    what: str,
    unanswered: Callable[[], None] = lambda: None,
) -> ApiMessage:
    """Sends a request to the active controller until an answer has no refusal. `refusal` returns the reason to retry.

    `unanswered` is called whenever a request got no answer, because it may have been done all the same.
    Controllers are asked directly if their addresses are known (KIP-919). Otherwise brokers forward the request, one
    broker after another: a broker that is isolated from the controllers, or has a paused controller, holds it until
    it times out. HarnessTimeout with the last refusal.
    """
    give_up_at = time.monotonic() + deadline_s
    seen = "no node answered"
    while True:
        for node in _candidates(wire):
            left_s = give_up_at - time.monotonic()
            if left_s <= 0:
                break
            try:
                answer = wire.ask(node, question, min(left_s, FORWARDED_S))
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
    """The nodes to ask: controllers that say they lead, the newest epoch first; without known controllers, brokers."""
    if not wire.controllers:
        return wire.freshest()
    reported = _reported_by_controllers(wire)
    return sorted(reported, key=lambda node: -reported[node].leader_epoch)


def _reported_by_controllers(wire: Wire) -> dict[int, Quorum]:
    """The quorum from each controller that says it leads. The others refuse; one that was paused may be mistaken."""
    answers = wire.gather(dict.fromkeys(wire.controllers, (quorum_question(),)), ANSWER_S, often=True)
    return {node: quorum_of(reported[0]) for node, reported in answers.items() if quorum_refusal(reported[0]) is None}


def remove_voter(wire: Wire, node: int, directory: str, deadline_s: float) -> None:
    """Removes a voter, whether it is alive or not (KIP-853), and returns when the change is committed.

    HarnessTimeout, with the last refusal, when that is not so by the deadline.
    """
    question = call(RemoveRaftVoterRequest, cluster_id=None, voter_id=node, voter_directory_id=uuid_of(directory))
    _change(wire, question, "VOTER_NOT_FOUND", deadline_s, f"voters without {node}")


def add_voter(wire: Wire, node: int, directory: str, deadline_s: float) -> None:
    """Makes a controller a voter, which must have caught up. Errors as for `remove_voter`."""
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
    """Repeats a change until it is done. `already` is the error that means that an unanswered request did it.

    The quorum accepts only one change at a time.
    """

    def refusal(answer: ApiMessage) -> str | None:
        error = error_name(answer.error_code)
        return None if error in (None, already) else f"{error} ({answer.error_message})"

    to_controller(wire, question, refusal, deadline_s=deadline_s, what=what)
