"""Findings: broken promises with the exact records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """Kinds of broken promises. The names are the same in code, files and pages."""

    LOST = "lost"  # acknowledged, and the read after healing passed its offset without it
    VANISHED = "vanished"  # a reader received it (whatever its outcome), and it is no longer in the log
    DUPLICATED = "duplicated"  # one record at two offsets
    REORDERED = "reordered"  # within one stream, a later sequence at a lower offset
    CORRUPT = "corrupt"  # the payload is not what was sent
    WRONG_ACK_OFFSET = "wrong_ack_offset"  # the release's own client got another offset than the record has
    MISROUTED = "misrouted"  # right record, wrong topic or partition
    PHANTOM = "phantom"  # never sent, or refused
    CONFLICTING = "conflicting"  # two readers, different records at one offset
    ABORTED_READ = "aborted_read"  # read_committed returned a record of an aborted transaction
    TORN_TRANSACTION = "torn_transaction"  # one part of a transaction is visible, another part is not
    SKIPPED_READ = "skipped_read"  # a reader passed over a record that was there
    COMMIT_REGRESSED = "commit_regressed"  # the group's offset is below its last acknowledged commit
    LOG_START = "log_start"  # the log start moved further than retention, DeleteRecords or deletion allow
    OFFSET_LOOKUP = "offset_lookup"  # a leader names the wrong offset for a time
    EPOCH_LOOKUP = "epoch_lookup"  # a leader names the wrong end offset of a leader epoch
    REPLICA_DIVERGENCE = "replica_divergence"  # a replica's copy below the high watermark differs
    HANGING_TRANSACTION = "hanging_transaction"  # last stable offset stuck beyond timeout and clean-up
    NOT_RECOVERED = "not_recovered"  # everything is up and nothing progresses
    UNAVAILABLE = "unavailable"  # enough replicas in sync, a leader that serves other partitions, and no acks
    ADMIN_LOST = "admin_lost"  # no node shows an acknowledged operation of an admin
    ADMIN_RESURRECTED = "admin_resurrected"  # an entity exists that an acknowledged operation removed
    ADMIN_PHANTOM = "admin_phantom"  # a state that no operation requested, or only a refused one
    METADATA_DIVERGENCE = "metadata_divergence"  # nodes report different metadata, long after healing
    TIER_GAP = "tier_gap"  # brokers deleted records that no finished copy in the remote tier has
    TIER_OBJECT = "tier_object"  # an object of a finished copy is missing, truncated or changed
    TIER_STATE = "tier_state"  # a broker recorded a state of a copy that cannot follow the one before


# These need no complete run, because the records are there. All other kinds conclude from absence.
PRESENCE_KINDS = frozenset({Kind.CORRUPT, Kind.DUPLICATED, Kind.REORDERED, Kind.ABORTED_READ, Kind.PHANTOM})

# These are about operations of admins, not about records.
ADMIN_KINDS = frozenset({Kind.ADMIN_LOST, Kind.ADMIN_RESURRECTED, Kind.ADMIN_PHANTOM, Kind.METADATA_DIVERGENCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A contiguous run of offsets with the same fate. Times are epoch nanoseconds; None = does not apply."""

    kind: Kind
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    offset_first: int | None = None
    offset_last: int | None = None
    stream: int | None = None
    seq_first: int | None = None
    seq_last: int | None = None
    count: int = 1
    first_ns: int | None = None  # first and last send of the records
    last_ns: int | None = None
    step: str | None = None  # the step during which they were acked
    reader: str | None = None
    detail: str = ""  # what was seen, in one sentence
    contract: str = ""  # the promise that this breaks, in one sentence
    excused_by: str | None = None  # the event in the evidence and the clause of the contract that permit it
    explained_by: str | None = None  # why the client caused this, and not the release

    @property
    def condemns(self) -> bool:
        """True when this finding alone makes the verdict FAIL."""
        return self.excused_by is None and self.explained_by is None

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, in the order of the fields."""
        return asdict(self)
