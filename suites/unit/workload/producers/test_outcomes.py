"""An error is a refusal only if it excludes a write; every other error is unknown."""

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
def test_success_and_a_known_duplicate_are_acked(error: str | None, retries: bool) -> None:
    assert outcome_of_send(error, retries=retries) is Outcome.ACKED


@pytest.mark.parametrize("retries", [True, False])
@pytest.mark.parametrize("error", DOUBTFUL)
def test_an_error_after_which_the_record_may_be_written_is_unknown(error: str, retries: bool) -> None:
    assert error in NAMES
    assert outcome_of_send(error, retries=retries) is Outcome.UNKNOWN


@pytest.mark.parametrize("error", sorted(VALIDATIONS | JAVA_VALIDATIONS | NEVER_TRANSMITTED))
def test_a_validation_error_refuses_only_without_retries(error: str) -> None:
    assert outcome_of_send(error, retries=False) is Outcome.REFUSED
    assert outcome_of_send(error, retries=True) is Outcome.UNKNOWN


@pytest.mark.parametrize("retries", [True, False])
def test_a_record_that_the_java_client_never_sent_is_refused(retries: bool) -> None:
    assert outcome_of_send(f"{NEVER_SENT}TimeoutException", retries=retries) is Outcome.REFUSED
    assert outcome_of_send("TimeoutException", retries=retries) is Outcome.UNKNOWN


def test_with_retries_no_error_of_librdkafka_is_a_refusal() -> None:
    assert {name for name in NAMES if outcome_of_send(name, retries=True) is Outcome.REFUSED} == set()


def test_the_error_names_are_those_of_librdkafka() -> None:
    assert ACKS | VALIDATIONS | NEVER_TRANSMITTED <= NAMES


def test_a_failed_offset_commit_is_unknown() -> None:
    assert outcome_of_offset_commit(None) is Outcome.ACKED
    assert outcome_of_offset_commit("REBALANCE_IN_PROGRESS") is Outcome.UNKNOWN
