"""Errors of librdkafka's clients: which one a call raised, and whether its client gave up for good."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

FATAL: Final = "_FATAL"  # the name of a fatal error whose own one is not known


def is_fatal(error: KafkaError) -> bool:
    """Whether a client gave up for good. Of an error in place of a record librdkafka says so by its name."""
    return error.fatal() or error.name() == FATAL


def client_error(failure: KafkaException | SystemError) -> KafkaError | None:
    """The client's error that a call raised.

    confluent-kafka may call the delivery callback while a fatal error is already set; Python then raises a SystemError
    with the fatal error as its cause.
    """
    cause = failure.__cause__ if isinstance(failure, SystemError) else failure
    return cause.args[0] if isinstance(cause, KafkaException) else None
