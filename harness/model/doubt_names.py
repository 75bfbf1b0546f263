"""Names of doubts: why a run proved too little. Each turns PASS into INCONCLUSIVE, and softens no FAIL."""

from __future__ import annotations

from typing import Self

from harness.model.described import Described


class DoubtOrigin(Described):
    """The cause of a doubt. It decides whether another try of the scenario may count in place of this one."""

    RELEASE = "release", "The brokers did something or did not do what was waited for, or the cause is not known."
    MACHINE = "machine", "The machine or the harness failed, for example because of a full disk of the host."
    SCENARIO = "scenario", "The scenario tested too little, for example because a fault had no effect."


class DoubtName(Described):
    """The doubts of this harness. Evidence of other harnesses may have doubts with further names.

    A member is written as (word, meaning, origin). The origin is that of a doubt which does not state its own; a member
    without one has `release`, so that an unknown cause does not count as harmless.
    """

    origin: DoubtOrigin

    def __new__(cls, name: str, meaning: str = "", origin: DoubtOrigin = DoubtOrigin.RELEASE) -> Self:
        word = str.__new__(cls, name)  # an enum hides the method of the same name that its base class wrote
        word._value_, word.meaning, word.origin = name, meaning, origin
        return word

    # --- about the run ---
    UNFINISHED = (
        "unfinished",
        "The run ended before its last step, so missing records were not judged.",
        DoubtOrigin.MACHINE,
    )
    HARNESS_TIMEOUT = "harness_timeout", "The run waited for something in vain, and ended."
    HARNESS_FAILED = "harness_failed", "The harness failed while it ran the scenario."
    STEPS_MISSING = "steps_missing", "The run has fewer steps than the scenario."
    STEP_FAILED = "step_failed", "A step failed."
    NO_EFFECT = "no_effect", "Nothing proves that a fault reached the data path.", DoubtOrigin.SCENARIO
    NODE_KILLED = "node_killed", "A node got a SIGKILL that the harness did not send.", DoubtOrigin.MACHINE
    HELPER_ENDED = "helper_ended", "A process ended that is beside the nodes, such as toxiproxy.", DoubtOrigin.MACHINE
    ADDRESS_IN_USE = "address_in_use", "A node ended because its address was taken.", DoubtOrigin.MACHINE
    HOST_MEMORY_FULL = "host_memory_full", "A node ended because the machine had no memory for it.", DoubtOrigin.MACHINE
    HOST_DISK_FULL = "host_disk_full", "A node ended because the disk of the machine was full.", DoubtOrigin.MACHINE
    CHECK_FAILED = "check_failed", "A check failed, and proves nothing; its name is behind a colon."
    CHECK_MISSING = "check_missing", "The run was played with a plugin, and the judge did not have a check of it."

    # --- about the load ---
    EMPTY_LEDGER = "empty_ledger", "No record was acknowledged."
    FLOOR_BEFORE = (
        "floor_before",
        "A partition or admin had too few acknowledgements before the faults.",
        DoubtOrigin.SCENARIO,
    )
    FLOOR_DURING = (
        "floor_during",
        "A partition or admin had too few acknowledgements during the faults.",
        DoubtOrigin.SCENARIO,
    )
    FLOOR_AFTER = (
        "floor_after",
        "A partition or admin had too few acknowledgements after the faults.",
        DoubtOrigin.SCENARIO,
    )
    TOO_FEW_LOST = "too_few_lost", "Fewer records are lost than the scenario loses on purpose.", DoubtOrigin.SCENARIO
    PRODUCER = "producer", "A producer of the load ended with an error or did not stop."
    PRODUCER_FATAL = "producer_fatal", "A producer's client met a fatal error, and was replaced."
    TRIES_UNREAD = (
        "tries_unread",
        "Lines of a client's log about its failed tries could not be read.",
        DoubtOrigin.MACHINE,
    )
    CLIENT_HUNG = "client_hung", "A call of a transactional client did not return."
    SAMPLER = (
        "sampler",
        "The offsets of a broker's replicas were not sampled to the end, so what they would show is unknown.",
        DoubtOrigin.MACHINE,
    )
    READER = "reader", "A live reader ended with an error, did not stop, or read nothing."
    READER_RESET = "reader_reset", "A reader had to start again at the log's start."
    READER_SAW_NOTHING = "reader_saw_nothing", "A live reader received no record."
    READER_BEHIND = "reader_behind", "A live reader received nothing of what was sent after the faults, or not all."
    NO_TRANSACTION = "no_transaction", "No transaction of a producer was committed, or none after the faults."
    TRANSACTIONS_UNANSWERED = "transactions_unanswered", "More transactions have an unknown outcome than a known one."
    TRANSACTIONS_LATE = "transactions_late", "Transactions were still open when the wait for their end timed out."
    NO_ABORT = "no_abort", "No transaction was aborted, and the scenario aborts some.", DoubtOrigin.SCENARIO
    NO_COMMIT = "no_commit", "No offset commit of a group was acknowledged, or none after the faults."
    UNPROCESSED = "unprocessed", "A processor had not processed all of its input when the run ended."
    UNSHARED = (
        "unshared",
        "A share group accepted none of some records: it may have archived them, or begun later.",
    )
    SHARE_UNDRAINED = "share_undrained", "It is unknown whether a share group finished with a partition."
    ADMIN = "admin", "An admin of the load ended with an error or did not stop."
    NO_OPERATION = "no_operation", "No operation of an admin was acknowledged."
    NO_ACKS = "no_acks", "A partition acknowledged nothing, and something else may be the cause."
    UNATTRIBUTED = "unattributed", "It is unknown whether the release or a client caused what would be a finding."
    NOT_SECURED = "not_secured", "The evidence does not prove that all connections used TLS and SASL."

    # --- about the cluster after healing ---
    RECOVERY_UNKNOWN = "recovery_unknown", "The run did not wait for the cluster to recover."
    NOT_BACK = "not_back", "The cluster did not recover, and something else may be the cause."
    ISR_NOT_FULL = "isr_not_full", "A replica was not in sync when the copies were read."
    NO_SNAPSHOT = "no_snapshot", "No broker was asked for its offsets, or none reported a partition."
    PARTITION_UNSEEN = "partition_unseen", "No broker reported a partition, so that it was not read."
    REPLICA_SILENT = "replica_silent", "A replica did not report its log end offset."
    NO_WATERMARK = "no_watermark", "A leader did not report its high watermark or last stable offset."
    NO_LINEAGE = "no_lineage", "No replica reported its leader epochs, so what acks=1 may lose is unknown."
    NO_HISTORY = "no_history", "The run wrote the history of its cluster, and the bundle lacks it."
    HISTORY_UNKNOWN = "history_unknown", "Records of the metadata log cannot be decoded, so elections may be missing."
    HISTORY_INCOMPLETE = "history_incomplete", "Parts of the metadata log are missing, so elections may be, too."
    LEADER_UNKNOWN = "leader_unknown", "It is unknown whether a deposed leader acknowledged missing records."
    NO_GROUP_OFFSETS = "no_group_offsets", "No coordinator reported the stable offsets of a group."
    COORDINATOR_UNKNOWN = (
        "coordinator_unknown",
        "A coordinator did not answer at the end, or its log could not be read or decoded.",
    )
    CONFIGS_UNKNOWN = "configs_unknown", "No broker reported the settings of a topic."
    CONFIGS_DIFFER = "configs_differ", "A topic has another setting on the brokers than in the contract."
    NO_ADMIN_VIEWS = (
        "no_admin_views",
        "The nodes were not asked for the results of operations of admins.",
        DoubtOrigin.MACHINE,
    )
    ADMIN_UNSEEN = "admin_unseen", "A node did not report on an entity that admins changed."

    # --- about the reads ---
    EMPTY_DRAIN = "empty_drain", "The read after healing returned no record."
    UNLISTED_READ = "unlisted_read", "Records were read after healing by a reader that reads.json does not list."
    NO_DRAIN = "no_drain", "A partition was not read after healing with an isolation that is needed."
    NOT_READ = "not_read", "No read reached some acknowledged records."
    NOT_REACHED = "not_reached", "A read ended before its target."
    READ_LATE = "read_late", "A read began above the start of every replica's log."
    READ_SHORT = "read_short", "A read claims to have ended, and a replica's log ends later."
    HOLE = "hole", "Offsets could not be read, and no excuse covers them."
    COPY_NOT_READ = "copy_not_read", "The copy of a replica was not read."
    SERVED_BY_ANOTHER = "served_by_another", "The read of one replica's copy was served by another broker."
    PROBE_UNANSWERED = "probe_unanswered", "Reads that began at arbitrary offsets were not answered."
    PROBE_NOT_ASKED = (
        "probe_not_asked",
        "There was no time for reads that begin at arbitrary offsets, and all that were made were answered.",
        DoubtOrigin.MACHINE,
    )
    LOOKUP_UNANSWERED = "lookup_unanswered", "Requests for offsets by time or leader epoch failed."
    NO_BATCHES = "no_batches", "The batches of a broker could be read, and were not, or not all of them."
    DISK_DAMAGE = "disk_damage", "Files on the disk of a broker could not be read, or it served damaged batches."
    UNJUDGED = "unjudged", "The start of a log cannot be judged, because evidence is missing."
    UNCOMPACTED = "uncompacted", "Closed segments of a compacted topic had not all been compacted."
    TIER_UNFILLED = "tier_unfilled", "Too few segments were in the remote tier, or it had not caught up."
    TIER_NOT_READ = "tier_not_read", "The remote tier, its metadata or records from it were not read."
    TIER_UNREADABLE = "tier_unreadable", "Records of the remote tier's metadata cannot be decoded."

    # --- about the evidence ---
    NO_RESERVATION = (
        "no_reservation",
        "Streams have no reservation, so their producers are unknown.",
        DoubtOrigin.MACHINE,
    )
    LEDGER_GAP = (
        "ledger_gap",
        "A stream has more or fewer rows in the ledger than sequence numbers.",
        DoubtOrigin.MACHINE,
    )
    EVIDENCE_MISSING = (
        "evidence_missing",
        "The run had recorded a part of the evidence, and the bundle lacks it.",
        DoubtOrigin.MACHINE,
    )
    EVIDENCE_DIFFERS = (
        "evidence_differs",
        "Two parts of the evidence contradict each other, or one is not whole.",
        DoubtOrigin.MACHINE,
    )
    CONTRACT_WEAKER = (
        "contract_weaker",
        "The contract of a producer promises less than its streams were sent with.",
        DoubtOrigin.SCENARIO,
    )


def floor_of(window: str) -> DoubtName:
    """The doubt about too little work in a window: `before`, `during` or `after` the faults."""
    return DoubtName(f"floor_{window}")


def origin_of(name: str) -> DoubtOrigin:
    """The declared origin of a doubt, by its name, which may have a check behind a colon. `release` if unknown."""
    word = name.partition(":")[0]
    return DoubtName(word).origin if word in {*DoubtName} else DoubtOrigin.RELEASE
