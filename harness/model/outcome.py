"""Outcomes of sends, transactions and admin operations, as far as their sender can know them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

# Names of clients in reservations, before the version. Any other name is a client of which nothing is known.
JAVA_CLIENTS: Final = "kafka-clients"  # the release's own
LIBRDKAFKA: Final = "librdkafka"


class Outcome(StrEnum):
    """The outcome of a write. Only an answer that excludes that it was written is a refusal."""

    ACKED = "acked"  # promised: a loss of the record is a finding
    REFUSED = "refused"  # excluded: a read of the record is a finding
    UNKNOWN = "unknown"  # no usable answer: the record may be there or not


class TxnOutcome(StrEnum):
    """All or nothing over every partition and every offset of the transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"  # EndTxn was sent and not answered; it stays unknown whatever follows


class Did(StrEnum):
    """Kinds of operations of an admin. An acknowledged operation is promised, like a record."""

    CREATE_TOPIC = "create_topic"
    DELETE_TOPIC = "delete_topic"
    SET_CONFIG = "set_config"
    UNSET_CONFIG = "unset_config"
    CREATE_ACL = "create_acl"
    DELETE_ACL = "delete_acl"
    SET_USER = "set_user"
    DELETE_USER = "delete_user"
    REASSIGN = "reassign"
