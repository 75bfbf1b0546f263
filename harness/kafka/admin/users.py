"""Creates a user with a password that the brokers store (SCRAM, KIP-554) and waits until every broker knows it."""

from __future__ import annotations

import time

from kafka.protocol.admin import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.quorum import to_controller
from harness.kafka.admin.wire import Wire, call, error_name
from harness.kafka.settings.tls import ITERATIONS, SCRAM_SHA_512
from harness.model.waiting import wait_for


def set_scram_user(wire: Wire, name: str, salt: bytes, salted_password: bytes, deadline_s: float) -> None:
    """HarnessTimeout, with the last state, when the user is not created or some broker does not know it in time."""
    give_up_at = time.monotonic() + deadline_s
    made = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=name, mechanism=SCRAM_SHA_512, iterations=ITERATIONS, salt=salt, salted_password=salted_password
    )
    to_controller(
        wire,
        call(AlterUserScramCredentialsRequest, deletions=[], upsertions=[made]),
        _refusal,
        deadline_s=deadline_s,
        what=f"user {name} to be created",
    )
    question = call(DescribeUserScramCredentialsRequest, users=None)

    def without_user() -> list[int]:
        reported = wire.ask_all(question)
        return [broker for broker in wire.brokers if broker not in reported or name not in _users(reported[broker])]

    wait_for(
        without_user,
        until=lambda brokers: not brokers,
        deadline_s=max(0.0, give_up_at - time.monotonic()),
        what=f"every broker to know user {name}",
    )


def _refusal(answer: ApiMessage) -> str | None:
    return next((error for result in answer.results if (error := error_name(result.error_code))), None)


def _users(answer: ApiMessage) -> set[str]:
    return {
        result.user
        for result in answer.results
        if any(info.mechanism == SCRAM_SHA_512 for info in result.credential_infos)
    }
