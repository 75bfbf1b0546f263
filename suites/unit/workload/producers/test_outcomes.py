"""Only what excludes a write is a refusal; whatever may have been written is unknown."""

from __future__ import annotations

import confluent_kafka
import pytest

from harness.model.outcome import Outcome
from harness.workload.producers.outcomes import (
    ACKS,
    JAVA_VALIDATIONS,
    NEVER_SENT,
    NEVER_TRANSMITTED,
    VALIDATIONS,
    outcome_of_offset_commit,
    outcome_of_send,
)

NAMES = {
    confluent_kafka.KafkaError(code).name()
    for name, code in vars(confluent_kafka.KafkaError).items()
    if name.isupper() and isinstance(code, int)
}
DOUBTFUL = [
    "_MSG_TIMED_OUT",
    "_TRANSPORT",
    "_PURGE_INFLIGHT",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "REQUEST_TIMED_OUT",
    "NOT_LEADER_FOR_PARTITION",
    "KAFKA_STORAGE_ERROR",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "INVALID_PRODUCER_EPOCH",
    "UNKNOWN_PRODUCER_ID",
    "_FENCED",
    "_FATAL",
    "UNKNOWN",
]


@pytest.mark.parametrize("retries", [True, False])
@pytest.mark.parametrize("error", [None, "DUPLICATE_SEQUENCE_NUMBER"])
def test_an_ack_is_an_ack(error: str | None, retries: bool) -> None:
    assert outcome_of_send(error, retries=retries) is Outcome.ACKED


@pytest.mark.parametrize("retries", [True, False])
@pytest.mark.parametrize("error", DOUBTFUL)
def test_what_may_have_been_written_is_unknown(error: str, retries: bool) -> None:
    assert error in NAMES
    assert outcome_of_send(error, retries=retries) is Outcome.UNKNOWN


@pytest.mark.parametrize("error", sorted(VALIDATIONS | JAVA_VALIDATIONS | NEVER_TRANSMITTED))
def test_a_refusal_holds_on_the_only_attempt_and_on_no_other(error: str) -> None:
    assert outcome_of_send(error, retries=False) is Outcome.REFUSED
    assert outcome_of_send(error, retries=True) is Outcome.UNKNOWN


@pytest.mark.parametrize("retries", [True, False])
def test_what_the_java_client_never_sent_is_refused(retries: bool) -> None:
    assert outcome_of_send(f"{NEVER_SENT}TimeoutException", retries=retries) is Outcome.REFUSED
    assert outcome_of_send("TimeoutException", retries=retries) is Outcome.UNKNOWN


def test_behind_a_retry_nothing_is_refused() -> None:
    assert {name for name in NAMES if outcome_of_send(name, retries=True) is Outcome.REFUSED} == set()


def test_the_table_knows_the_client_s_names() -> None:
    assert ACKS | VALIDATIONS | NEVER_TRANSMITTED <= NAMES


def test_a_failed_commit_of_offsets_may_have_been_stored() -> None:
    assert outcome_of_offset_commit(None) is Outcome.ACKED
    assert outcome_of_offset_commit("REBALANCE_IN_PROGRESS") is Outcome.UNKNOWN
