"""Outcomes that a client's final answer proves for a record, an offset commit and an admin's operation.

A record is `refused` only if it is certain that it was not and will not be written, since reading it later is a
finding. A client reports only its *last* attempt: with retries, an earlier attempt may have been written, whatever the
error. A record is certainly not written if

* it was never queued: produce_batch itself rejected it (queue full, local size check, unknown partition), or the Java
  client reported it before its `send` returned, without a transaction (too large, no metadata, no room);
* the producer never retries, and the answer is a deterministic validation or a purge of the local queue. With retries a
  purge proves nothing: librdkafka puts a batch that waits for its retry back into the queue that is purged.

Everything else is unknown, including errors that look definite:

* NOT_LEADER_OR_FOLLOWER: a leader that loses its leadership while it waits for its followers returns this after it has
  appended, and the followers may have the record (KAFKA-13574);
* NOT_ENOUGH_REPLICAS: definite for its own attempt only; NOT_ENOUGH_REPLICAS_AFTER_APPEND: it is in the leader's log;
* REQUEST_TIMED_OUT, _MSG_TIMED_OUT, _TRANSPORT, and the Java client's TimeoutException and NetworkException (its errors
  have the names of their classes): the answer was lost or late, not the write;
* KAFKA_STORAGE_ERROR: the append may have reached the file before the disk failed;
* OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_EPOCH, _FENCED, PRODUCER_FENCED: the broker's
  producer state has changed, which shows nothing about an earlier attempt (KIP-98, KIP-360).
"""

from __future__ import annotations

from typing import Final

from harness.model.outcome import Outcome

# The broker already has this batch under this sequence: an ack without an offset (KIP-98).
ACKS: Final = frozenset({"DUPLICATE_SEQUENCE_NUMBER"})

# Answers that exclude a write, if there was only one attempt.
VALIDATIONS: Final = frozenset(
    {
        "MSG_SIZE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "INVALID_REQUIRED_ACKS",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "TOPIC_EXCEPTION",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "POLICY_VIOLATION",
    }
)
# The same errors as the Java client names them.
JAVA_VALIDATIONS: Final = frozenset(
    {
        "RecordTooLargeException",
        "RecordBatchTooLargeException",
        "InvalidRecordException",
        "InvalidTimestampException",
        "InvalidRequiredAcksException",
        "UnsupportedForMessageFormatException",
        "UnsupportedCompressionTypeException",
        "InvalidTopicException",
        "TopicAuthorizationException",
        "ClusterAuthorizationException",
        "PolicyViolationException",
    }
)
NEVER_SENT: Final = "_NEVER_SENT "  # ours: prefix of an error that was reported before the record could be sent
NEVER_TRANSMITTED: Final = frozenset({"_PURGE_QUEUE"})
NO_REPORT: Final = "_NO_REPORT"  # ours: the client was abandoned before it reported


def outcome_of_send(error: str | None, *, retries: bool) -> Outcome:
    """The outcome of a queued record, by the name of its final error; `retries`: the client may transmit it twice."""
    if error is None or error in ACKS:
        return Outcome.ACKED
    if error.startswith(NEVER_SENT) or (not retries and error in VALIDATIONS | JAVA_VALIDATIONS | NEVER_TRANSMITTED):
        return Outcome.REFUSED
    return Outcome.UNKNOWN


def outcome_of_offset_commit(error: str | None) -> Outcome:
    """The outcome of an offset commit. The client retries, so no error excludes that the commit was stored."""
    return Outcome.ACKED if error is None else Outcome.UNKNOWN


# Errors that depend on the request alone, not on the cluster's state: every attempt was rejected.
ADMIN_VALIDATIONS: Final = frozenset(
    {
        "INVALID_TOPIC_EXCEPTION",
        "INVALID_CONFIG",
        "INVALID_REQUEST",
        "INVALID_PARTITIONS",
        "POLICY_VIOLATION",
        "UNACCEPTABLE_CREDENTIAL",
        "UNSUPPORTED_SASL_MECHANISM",
        "UNSUPPORTED_VERSION",
        "SECURITY_DISABLED",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
    }
)
NOT_SENT: Final = "_NOT_SENT"  # ours: there was no connection, so the request was not sent


def outcome_of_operation(error: str | None) -> Outcome:
    """The outcome of an admin's operation that was sent once, by the name of the error in its answer.

    The client sends it once, but the broker may forward it twice: to the controller, and to the next controller when
    the first one disconnects or is no longer active (KIP-590), which may already have executed it. So
    TOPIC_ALREADY_EXISTS may refer to the topic that this operation created, and UNKNOWN_TOPIC_OR_PARTITION and
    RESOURCE_NOT_FOUND to what it deleted: all three are unknown, and so are NOT_CONTROLLER, timeouts and a broken
    connection.
    """
    if error is None:
        return Outcome.ACKED
    return Outcome.REFUSED if error in ADMIN_VALIDATIONS or error == NOT_SENT else Outcome.UNKNOWN
