"""What became of a send and of a transaction, as far as its sender can know."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

# How reservations name a client that is the release's own, before its version.
JAVA_CLIENTS: Final = "kafka-clients"


class Outcome(StrEnum):
    """A write has three fates. Only an answer that excludes persistence is a refusal."""

    ACKED = "acked"  # promised: losing the record afterwards is a finding
    REFUSED = "refused"  # excluded: seeing the record afterwards is a finding
    UNKNOWN = "unknown"  # no usable answer: both fates are legal


class TxnOutcome(StrEnum):
    """All or nothing over every partition and every offset of the transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"  # EndTxn was sent and not answered; stays so whatever follows


class Did(StrEnum):
    """What an admin asked for. Its outcome is an `Outcome`: acknowledged, it is promised as a record is."""

    CREATE_TOPIC = "create_topic"
    DELETE_TOPIC = "delete_topic"
    SET_CONFIG = "set_config"
    UNSET_CONFIG = "unset_config"
    CREATE_ACL = "create_acl"
    DELETE_ACL = "delete_acl"
    SET_USER = "set_user"
    DELETE_USER = "delete_user"
    REASSIGN = "reassign"
