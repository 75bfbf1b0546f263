"""What a client's final answer proves about a record, a commit of offsets, a transaction and an admin's operation.

A refusal must exclude that the record was or will ever be written, since seeing it afterwards is a finding. A client
reports only its *last* attempt: with retries, an earlier copy may have landed behind any error. What excludes it:

* the record was never queued: produce_batch itself turned it down (queue full, local size check, unknown partition), or
  the Java client reported it before its `send` returned, without a transaction (too large, no metadata, no room);
* the producer never retries, and the answer is a deterministic validation or a purge of the local queue. With retries a
  purge proves nothing: librdkafka puts a batch that awaits its retry back into the very queue that is purged.

Everything else is unknown. Some that look definite are not:

* NOT_LEADER_OR_FOLLOWER: a leader that was deposed while it waited for its followers answers so after appending, and
  the followers may have it (KAFKA-13574);
* NOT_ENOUGH_REPLICAS: definite for its own attempt only; NOT_ENOUGH_REPLICAS_AFTER_APPEND: it is in the leader's log;
* REQUEST_TIMED_OUT, _MSG_TIMED_OUT, _TRANSPORT, and TimeoutException and NetworkException of the Java client, whose
  errors bear the names of their classes: an answer was lost or late, not the write;
* KAFKA_STORAGE_ERROR: the append may have reached the file before the disk failed;
* OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_EPOCH, _FENCED, PRODUCER_FENCED: say that the
  broker's producer state moved on, not what became of an earlier attempt (KIP-98, KIP-360).
"""

from __future__ import annotations

from typing import Final

from harness.model.outcome import Outcome

# The broker already holds this batch under this sequence: a promise, only the offset is not told (KIP-98).
ACKS: Final = frozenset({"DUPLICATE_SEQUENCE_NUMBER"})

# Answers that exclude a write, on the only attempt.
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
# The same, as the release's own Java client names them.
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
NEVER_SENT: Final = "_NEVER_SENT "  # ours, before the name of an error that came before the record could be sent
NEVER_TRANSMITTED: Final = frozenset({"_PURGE_QUEUE"})
NO_REPORT: Final = "_NO_REPORT"  # ours: the client was given up on before it reported


def outcome_of_send(error: str | None, *, retries: bool) -> Outcome:
    """The outcome of a record that was queued, by the name of its final error; `retries`: the client may send twice."""
    if error is None or error in ACKS:
        return Outcome.ACKED
    if error.startswith(NEVER_SENT) or (not retries and error in VALIDATIONS | JAVA_VALIDATIONS | NEVER_TRANSMITTED):
        return Outcome.REFUSED
    return Outcome.UNKNOWN


def outcome_of_offset_commit(error: str | None) -> Outcome:
    """The outcome of a commit of a group's offsets. The client retries, so no error excludes that it was stored."""
    return Outcome.ACKED if error is None else Outcome.UNKNOWN


# What brokers and controllers say of a request for what it asks, whatever the cluster's state: no attempt was done.
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
NOT_SENT: Final = "_NOT_SENT"  # ours: no connection, so the request never left


def outcome_of_operation(error: str | None) -> Outcome:
    """The outcome of an admin's operation that was sent once, by the name of the error in its answer.

    Sent once is not tried once: the broker that takes it hands it on to the controller, and again to the next one
    when the first disconnects or is none any more (KIP-590), by which time it may have been done. TOPIC_ALREADY_EXISTS
    may thus be told of the very topic that the operation made, and UNKNOWN_TOPIC_OR_PARTITION and RESOURCE_NOT_FOUND
    of what it deleted: all three are unknown, as are NOT_CONTROLLER, timeouts and a connection that breaks off.
    """
    if error is None:
        return Outcome.ACKED
    return Outcome.REFUSED if error in ADMIN_VALIDATIONS or error == NOT_SENT else Outcome.UNKNOWN
