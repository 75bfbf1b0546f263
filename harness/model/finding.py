"""One broken promise with the exact records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """Names of broken promises: the same in code, files and pages."""

    LOST = "lost"  # acknowledged, and the read after healing passed the place without it
    VANISHED = "vanished"  # a reader saw it (whatever its outcome), and it is gone
    DUPLICATED = "duplicated"  # one record at two offsets
    REORDERED = "reordered"  # within one stream, a later sequence at a lower offset
    CORRUPT = "corrupt"  # the payload is not what was sent
    WRONG_ACK_OFFSET = "wrong_ack_offset"  # the release's own client was told another offset than the record stands at
    MISROUTED = "misrouted"  # right record, wrong topic or partition
    PHANTOM = "phantom"  # never sent, or refused
    CONFLICTING = "conflicting"  # two readers, different records at one offset
    ABORTED_READ = "aborted_read"  # read_committed returned a record of an aborted transaction
    TORN_TRANSACTION = "torn_transaction"  # a part of a transaction is visible, the rest is not
    SKIPPED_READ = "skipped_read"  # a reader passed over a record that was there
    COMMIT_REGRESSED = "commit_regressed"  # the group's offset is below its last acknowledged commit
    LOG_START = "log_start"  # moved further than retention, DeleteRecords or deletion allow
    OFFSET_LOOKUP = "offset_lookup"  # asked for the first record of a time, a leader names another
    EPOCH_LOOKUP = "epoch_lookup"  # asked where a leader epoch ended, a leader names another offset than its log has
    REPLICA_DIVERGENCE = "replica_divergence"  # a replica's copy below the high watermark differs
    HANGING_TRANSACTION = "hanging_transaction"  # last stable offset stuck beyond timeout and clean-up
    NOT_RECOVERED = "not_recovered"  # everything is up, nothing progresses
    UNAVAILABLE = "unavailable"  # enough replicas in sync, a leader that serves others, and not one ack for long
    ADMIN_LOST = "admin_lost"  # an acknowledged operation of an admin is not to be seen
    ADMIN_RESURRECTED = "admin_resurrected"  # what an acknowledged operation undid is there again
    ADMIN_PHANTOM = "admin_phantom"  # a state of the metadata that nobody asked for, or that was refused
    METADATA_DIVERGENCE = "metadata_divergence"  # nodes tell different things of the metadata, long after healing
    TIER_GAP = "tier_gap"  # deleted by brokers, and in no finished copy of the remote tier
    TIER_OBJECT = "tier_object"  # an object of a finished copy is missing, cut off or changed
    TIER_STATE = "tier_state"  # a broker wrote of a copy what cannot follow on what it wrote before


# These need no complete run: what is there is there. All others argue from absence.
PRESENCE_KINDS = frozenset({Kind.CORRUPT, Kind.DUPLICATED, Kind.REORDERED, Kind.ABORTED_READ, Kind.PHANTOM})

# These speak of operations, not of records.
ADMIN_KINDS = frozenset({Kind.ADMIN_LOST, Kind.ADMIN_RESURRECTED, Kind.ADMIN_PHANTOM, Kind.METADATA_DIVERGENCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A contiguous run of offsets with one fate. Times are epoch nanoseconds; None = does not apply."""

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
    excused_by: str | None = None  # the evidenced event and the clause that permit it
    explained_by: str | None = None  # the client did this, not the release

    @property
    def condemns(self) -> bool:
        """True when this finding alone makes the verdict FAIL."""
        return self.excused_by is None and self.explained_by is None

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, in the order of the fields."""
        return asdict(self)
