"""Findings: a broken promise of Kafka with the exact records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Annotated, Final, Self

from harness.model.described import Described
from harness.model.documents.record import Record, meaning
from harness.model.excuse import Excused


class FindingKind:
    """A kind of finding: a member of `Kind`, or an `OwnKind` of a plugin. Both are texts."""

    meaning: str

    @property
    def value(self) -> str:
        """The word for it."""
        return str(self)


GROUP: Final = "group"  # with its name behind it, it is the reader of a finding about a whole group


class Kind(FindingKind, Described):
    """Names of broken promises, the same in code, files and pages; `meaning` explains each in one sentence.

    The sets behind it are `seen_in`: the evidence that can show it, one of the sets. A set names tables and documents
    of a bundle, or a key that a document must have, such as "run.json: exits".
    """

    seen_in: tuple[frozenset[str], ...]

    def __new__(cls, name: str, meaning: str = "", *seen_in: Set[str]) -> Self:
        word = str.__new__(cls, name)
        word._value_, word.meaning, word.seen_in = name, meaning, tuple(map(frozenset, seen_in))
        return word

    LOST = (
        "lost",
        "An acknowledged record is missing: a read after healing that must return it passed its offset without it.",
        {"ledger", "reads.json"},
    )
    VANISHED = (
        "vanished",
        "A reader received a record, acknowledged or not, and the log no longer contains it.",
        {"observations"},
    )
    DUPLICATED = (
        "duplicated",
        "One record is at two offsets, or an application processed one input twice.",
        {"observations"},
    )
    REORDERED = (
        "reordered",
        "A later record of one stream is at a lower offset than an earlier one.",
        {"observations"},
    )
    BELOW_ACKED = (
        "below_acked",
        "A record is at a lower offset than one that had been acknowledged when its send was called.",
        {"ledger", "observations"},
    )
    CORRUPT = (
        "corrupt",
        "The payload, timestamp or codec of a record is not what was sent or configured.",
        {"observations"},
        {"batches"},
    )
    WRONG_ACK_OFFSET = (
        "wrong_ack_offset",
        "An acknowledgement to the release's own client named another offset than the record has.",
        {"ledger", "observations"},
    )
    MISROUTED = (
        "misrouted",
        "A record is in another topic or partition than the one that it was sent to.",
        {"observations"},
    )
    PHANTOM = (
        "phantom",
        "The log contains a record that was never sent, or whose send was refused.",
        {"observations"},
    )
    CONFLICTING = (
        "conflicting",
        "Two readers received different records at one offset, or two records were acknowledged there.",
        {"observations"},
        {"ledger"},
    )
    ABORTED_READ = (
        "aborted_read",
        "A read_committed reader received a record of a transaction that was aborted, or not yet committed.",
        {"transactions", "observations"},
    )
    TORN_TRANSACTION = (
        "torn_transaction",
        "A part of a transaction is visible and the rest is not.",
        {"transactions", "observations"},
        {"transactions", "offset_commits"},
        {"processed"},
    )
    UNFENCED = (
        "unfenced",
        "A client was served that another of its transactional id, or a newer generation of its group, had replaced.",
        {"transactions"},
        {"offset_commits"},
    )
    OUT_OF_SEQUENCE = (
        "out_of_sequence",
        "A log has a batch of a producer that does not follow on its last one, or is of an older producer epoch.",
        {"batches"},
    )
    SKIPPED_READ = (
        "skipped_read",
        "A reader passed over a record that was in the log.",
        {"observations"},
        {"deliveries"},
    )
    REREAD = (
        "reread",
        "A reader received an offset twice in one session, or after a higher one.",
        {"observations"},
    )
    COMMIT_REGRESSED = (
        "commit_regressed",
        "A group's offset is below its last acknowledged commit, or is one that was never committed; or a share group "
        "went back on what it knew of a record.",
        {"offset_commits"},
        {"deliveries"},
    )
    LOG_START = (
        "log_start",
        "The start of a log moved further than retention, DeleteRecords and topic deletion permit.",
        {"cluster.json"},
    )
    NOT_DELETED = (
        "not_deleted",
        "A replica, or the tier, keeps segments that retention should have deleted long before.",
        {"batches"},
        {"tier_metadata"},
    )
    NOT_ROLLED = (
        "not_rolled",
        "A segment on a disk is far larger than the segment.bytes of its topic.",
        {"batches"},
    )
    TOO_LARGE = (
        "too_large",
        "A batch on a disk is larger than the max.message.bytes of its topic.",
        {"batches"},
    )
    OFFSET_LOOKUP = (
        "offset_lookup",
        "A leader that was asked for the first record of a time or later, or for the end of the log, named another.",
        {"lookups"},
        {"probes", "observations"},
    )
    EPOCH_LOOKUP = (
        "epoch_lookup",
        "A leader that was asked where a leader epoch ended, or the checkpoint of a replica, has another offset than "
        "its log, or none.",
        {"epoch_ends"},
        {"batches", "cluster.json: lineages"},
    )
    ACKED_BELOW_MIN_ISR = (
        "acked_below_min_isr",
        "A record was acknowledged with acks=all while fewer than min.insync.replicas were in sync.",
        {"ledger", "history.json"},
    )
    UNCLEAN_ELECTION = (
        "unclean_election",
        "A replica outside the ISR and the ELR became a leader, and the contract of its topic does not permit that.",
        {"history.json"},
    )
    NOT_IN_SYNC = (
        "not_in_sync",
        "A replica was in the ISR while it lacked records below a high watermark that a leader had reported, or was "
        "not in it when a reassignment ended.",
        {"history.json", "positions"},
    )
    WRONGLY_ELIGIBLE = (
        "wrongly_eligible",
        "A replica was in the ELR while it lacked committed records, or after its broker had ended without a shutdown.",
        {"history.json"},
    )
    ABOVE_HIGH_WATERMARK = (
        "above_high_watermark",
        "A reader received a record that was not below the high watermark of its leader yet.",
        {"history.json", "positions", "observations"},
    )
    WRONG_SNAPSHOT = (
        "wrong_snapshot",
        "A snapshot of the metadata log on the disk of a node differs from what the log says up to its end.",
        {"history.json"},
    )
    PRODUCER_IDS_REUSED = (
        "producer_ids_reused",
        "The controllers gave a block of producer ids to a broker, and had given the same ids before.",
        {"history.json"},
    )
    EPOCH_REGRESSED = (
        "epoch_regressed",
        "The controllers gave an epoch of a partition, a broker or the quorum twice, or a lower one than before.",
        {"history.json"},
    )
    WRONG_EPOCH = (
        "wrong_epoch",
        "A log has a batch of a leader epoch that the controllers never gave, or that was long over when it was sent.",
        {"history.json", "batches"},
    )
    STALE_METADATA = (
        "stale_metadata",
        "A broker serves partitions or settings that the metadata log does not have at its offset, or has no more.",
        {"history.json", "cluster.json: brokers"},
    )
    REPLICA_DIVERGENCE = (
        "replica_divergence",
        "The copy of an in-sync replica differs from the leader's below the high watermark.",
        {"observations"},
        {"batches"},
    )
    HANGING_TRANSACTION = (
        "hanging_transaction",
        "The last stable offset stays below the high watermark after transaction timeout and clean-up.",
        {"transactions", "cluster.json"},
    )
    TRANSACTION_UNFINISHED = (
        "transaction_unfinished",
        "A coordinator does not end a transaction although no client is there any more and its timeout is over.",
        {"transactions", "run.json: transactions_ended"},
    )
    TRANSACTION_REFUSED = (
        "transaction_refused",
        "A coordinator refuses every commit, or every call of another kind, of a client that is not fenced.",
        {"transactions", "run.json: calls_recorded"},
        {"transactions", "failed_calls"},
    )
    GROUP_UNSETTLED = (
        "group_unsettled",
        "A consumer group does not come to rest after healing with each partition given to one of its members.",
        {"run.json: groups_at_rest"},
    )
    TIER_LAG = (
        "tier_lag",
        "The leader of a tiered partition does not copy closed segments to the remote tier, long after healing.",
        {"run.json: tier_at_rest"},
    )
    CLEANER_LAG = (
        "cleaner_lag",
        "A replica does not compact the closed segments that are due, long after the load.",
        {"run.json: cleaners_at_rest"},
    )
    WRONG_COORDINATOR_STATE = (
        "wrong_coordinator_state",
        "A coordinator answers something other than is in its log, or acknowledgements or copies of it differ.",
        {"cluster.json: coordinators"},
    )
    UNSERVED = (
        "unserved",
        "The leader of a partition does not serve acknowledged records that are in its log, long after healing.",
        {"reads.json"},
    )
    NOT_RECOVERED = (
        "not_recovered",
        "Every node that did not crash runs, and ISRs do not become full or writes do not resume.",
        {"run.json: recovered"},
    )
    CRASHED = (
        "crashed",
        "A broker or controller ended by itself, and no fault of the run ends it.",
        {"run.json: exits"},
    )
    UNAVAILABLE = (
        "unavailable",
        "A partition with enough replicas in sync acknowledged nothing while others did, or had no leader.",
        {"ledger", "steps.json"},
        {"history.json"},
    )
    ADMIN_LOST = (
        "admin_lost",
        "The result of an acknowledged admin operation is missing from the metadata.",
        {"admin_ops", "admin_views"},
        {"cluster.json"},
        {"history.json", "steps.json"},
    )
    ADMIN_RESURRECTED = (
        "admin_resurrected",
        "A topic, setting, ACL or user that an acknowledged operation deleted exists again.",
        {"admin_ops", "admin_views"},
    )
    ADMIN_PHANTOM = (
        "admin_phantom",
        "The metadata has a topic, setting, ACL, user, deletion or level that nobody requested, or that was refused.",
        {"admin_views"},
        {"history.json"},
    )
    METADATA_DIVERGENCE = (
        "metadata_divergence",
        "Nodes report different metadata, and no operation explains it, or their metadata logs differ.",
        {"admin_views"},
        {"history.json"},
    )
    TIER_GAP = (
        "tier_gap",
        "Brokers deleted offsets, or report them as copied, and no finished copy in the remote tier has them.",
        {"tier_metadata"},
    )
    TIER_OBJECT = (
        "tier_object",
        "An object of a finished copy in the remote tier is missing, truncated, changed or not as its metadata says.",
        {"tier_metadata"},
    )
    TIER_STATE = (
        "tier_state",
        "A broker wrote a state of a remote copy that cannot follow the state it wrote before.",
        {"tier_metadata"},
    )


class OwnKind(FindingKind, str):
    """A kind of finding that a check of a plugin introduces: a word with its meaning, as `Kind` has them."""

    def __new__(cls, name: str, meaning: str = "") -> OwnKind:
        word = super().__new__(cls, name)
        word.meaning = meaning
        return word


_OWN: Final[dict[str, OwnKind]] = {}


@contextmanager
def with_kinds(own: Iterable[OwnKind]) -> Iterator[None]:
    """The kinds of plugins are known inside."""
    added = {kind.value: kind for kind in own}
    _OWN.update(added)
    try:
        yield
    finally:
        for name in added:
            del _OWN[name]


def kinds() -> tuple[FindingKind, ...]:
    """Every kind that is known: the built-in ones and those of plugins."""
    return (*Kind, *_OWN.values())


def kind_of(word: str, others: Mapping[str, str] | None = None) -> FindingKind:
    """The kind with this name. others: meanings of more kinds, by name. ValueError for an unknown one."""
    if word in _OWN:
        return _OWN[word]
    return OwnKind(word, others[word]) if others and word in others else Kind(word)


# Records that are gone. All other kinds concern records that are there, or no records.
LOSS_KINDS = frozenset({Kind.LOST, Kind.VANISHED, Kind.LOG_START})

# These concern nodes, not records.
NODE_KINDS = frozenset({Kind.CRASHED})

# These concern the cluster as a whole, the partitions of a group, and an election.
CLUSTER_KINDS = frozenset({Kind.NOT_RECOVERED})
GROUP_KINDS = frozenset({Kind.GROUP_UNSETTLED})
ELECTION_KINDS = frozenset({Kind.UNCLEAN_ELECTION})

# These concern transactional producers, not records.
PRODUCER_KINDS = frozenset({Kind.TRANSACTION_REFUSED})

# These concern admin operations, not records.
ADMIN_KINDS = frozenset({Kind.ADMIN_LOST, Kind.ADMIN_RESURRECTED, Kind.ADMIN_PHANTOM, Kind.METADATA_DIVERGENCE})

# These concern the metadata of nodes, not records.
METADATA_KINDS = frozenset({Kind.WRONG_SNAPSHOT, Kind.STALE_METADATA, Kind.PRODUCER_IDS_REUSED, Kind.EPOCH_REGRESSED})

# Their times are those of a report, of a decision of the controllers or of a refused call, not of a send.
SEEN_KINDS = METADATA_KINDS | {
    Kind.NOT_IN_SYNC,
    Kind.WRONGLY_ELIGIBLE,
    Kind.UNCLEAN_ELECTION,
    Kind.ABOVE_HIGH_WATERMARK,
    Kind.TRANSACTION_REFUSED,
}


class Finding(Record, frozen=True, kw_only=True):
    """A contiguous range of offsets with the same defect. Times are epoch nanoseconds; null = does not apply."""

    kind: Annotated[FindingKind, meaning("the kind of finding, see below")]
    topic: Annotated[str | None, meaning("name of the topic")] = None
    topic_id: Annotated[str | None, meaning("the id that Kafka gave the topic")] = None
    partition: Annotated[int | None, meaning("number of the partition")] = None
    offset_first: Annotated[int | None, meaning("the first offset")] = None
    offset_last: Annotated[int | None, meaning("the last offset")] = None
    stream: Annotated[int | None, meaning("the stream, if all records are of one")] = None
    seq_first: Annotated[int | None, meaning("the first sequence number in the stream")] = None
    seq_last: Annotated[int | None, meaning("the last sequence number in the stream")] = None
    count: Annotated[int, meaning("how many records, operations, producers, nodes or differences of metadata")] = 1
    first_ns: Annotated[int | None, meaning("the first send of the records; or when a node ended")] = None
    last_ns: Annotated[int | None, meaning("the last send of the records; or when a node ended")] = None
    step: Annotated[str | None, meaning("the step during which they were acked")] = None
    reader: Annotated[str | None, meaning("the readers, replicas or processors that show it")] = None
    detail: Annotated[str, meaning("the observation, in one sentence")] = ""
    contract: Annotated[str, meaning("the promise that this breaks, in one sentence")] = ""
    excused_by: Annotated[str | None, meaning("the evidenced event and the clause that permit it")] = None
    excuse: Annotated[
        Excused | None, meaning("the same as a name and a reference; null without `excused_by`, and in older files")
    ] = None
    explained_by: Annotated[str | None, meaning("how the client, and not the release, caused it")] = None

    @property
    def condemns(self) -> bool:
        """True when this finding alone makes the verdict FAIL."""
        return self.excused_by is None and self.explained_by is None
