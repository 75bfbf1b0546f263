"""Columns of the evidence, once, as plain data: writers (pyarrow) and readers (Spark) derive theirs from here.

Times are epoch nanoseconds from one wall-clock anchor plus a monotonic clock. `int64?` = may be null.
"""

from __future__ import annotations

from typing import Final

from harness.model.outcome import Did, Outcome, TxnOutcome

FORMAT_VERSION: Final = 2

Columns = dict[str, str]

# One row an attempted record. A transaction's ack is not a commit: see TRANSACTIONS.
LEDGER: Final[Columns] = {
    "stream": "int32",  # one producer incarnation on one partition; sequences count up from 0 within it
    "seq": "int64",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "key_hash": "int64?",  # crc32 of the key; null = no key
    "txn_id": "int64?",
    "outcome": "string",  # model.outcome.Outcome
    "offset": "int64?",  # where the broker said; also told for records of transactions
    "called_ns": "int64",
    "returned_ns": "int64",
    "error": "string?",  # name of the client's final error
    "value": "string?",  # "null" = a tombstone of its key, or "empty"; null = it has one
    "timestamp_ms": "int64?",  # of an acked record: what the client gave it, or the leader said that it has
    "timestamp_type": "string?",  # which of the two: "create", "append"
}

# One row a range of sequences that a stream may use, durable before the first of them is sent.
# Also says what kind of producer the stream is. The widest range of a stream counts.
RESERVATIONS: Final[Columns] = {
    "stream": "int32",
    "producer": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "first_seq": "int64",
    "end_seq": "int64",  # exclusive
    "acks": "string",  # "all" | "1" | "0"
    "idempotent": "bool",
    "transactional": "bool",
    "client": "string",  # "librdkafka 2.16.1"; the release's own: "kafka-clients 4.3.1"
    "reserved_ns": "int64",
}

# One row a record read back.
OBSERVATIONS: Final[Columns] = {
    "reader": "string",
    "kind": "string",  # "live" | "drain" | "replica" | "probe"
    "isolation": "string",  # "read_committed" | "read_uncommitted"
    "replica": "int32?",  # broker whose copy was read; null for live readers
    "session": "int32",  # a new one after every rebalance, seek or restart
    "poll": "int64",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "offset": "int64",
    "stream": "int32",  # -1 when the payload cannot be decoded
    "seq": "int64",
    "intact": "bool",  # the payload's own check: CRC, magic, run, key
    "timestamp_ms": "int64",
    "txn_id": "int64?",
    "leader_epoch": "int32?",  # of its batch; what was cut off and written again has another
    "given_ns": "int64?",  # when a live reader was given it, the first time that it got as far
}

TRANSACTIONS: Final[Columns] = {
    "txn_id": "int64",  # unique in the run
    "producer": "string",
    "outcome": "string",  # model.outcome.TxnOutcome
    "called_ns": "int64",  # the first record of the transaction
    "ended_ns": "int64",  # the end was answered, or given up on
}

OFFSET_COMMITS: Final[Columns] = {
    "group": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "offset": "int64",
    "outcome": "string",  # Outcome
    "txn_id": "int64?",
    "called_ns": "int64",
    "returned_ns": "int64",
}

# One row a record that a processor gave to its client to be made of another one. What became of it, the ledger tells.
PROCESSED: Final[Columns] = {
    "processor": "string",  # the producer that reads
    "topic": "string",  # of the record that it was given, as is all up to `offset`
    "topic_id": "string",
    "partition": "int32",
    "offset": "int64",
    "stream": "int32",  # of the record that it made
    "seq": "int64",
}

# One row a record that a member of a share group was given (KIP-932), with what it answered.
DELIVERIES: Final[Columns] = {
    "group": "string",
    "reader": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "offset": "int64",
    "count": "int32",  # so many times it was given to the group, this one included, by the broker; 0 = it did not say
    "answer": "string?",  # "accept", "release", "reject"; null = the member died with it
    "outcome": "string?",  # of the answer: Outcome; null = there was none
    "error": "string?",
    "given_ns": "int64",
    "returned_ns": "int64?",
}

# One row a record batch on a broker's own disk, where the backend can read it. Decides who made a second copy.
BATCHES: Final[Columns] = {
    "broker": "int32",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "segment": "int64",  # base offset of the segment's file name
    "base_offset": "int64",
    "last_offset": "int64",
    "count": "int32",
    "leader_epoch": "int32",
    "producer_id": "int64",
    "producer_epoch": "int32",
    "base_sequence": "int32",
    "transactional": "bool",
    "control": "string?",  # "commit" | "abort" | "other"; null = data
    "codec": "string",
    "timestamp_type": "string",  # "create" | "append"
    "max_timestamp_ms": "int64",
    "size_bytes": "int64",
    "crc_ok": "bool",
    "digest": "int64",  # CRC-32C from the attributes on: equal on every replica (base offset and epoch lie outside)
}

# One row an operation of an admin: one request, sent once. What was acknowledged is promised, as a record is.
ADMIN_OPS: Final[Columns] = {
    "op": "int64",  # number of the operation, unique for its writer and in the order of calls
    "writer": "string",
    "kind": "string",  # what was asked for: model.outcome.Did
    "entity": "string",  # what it was asked of, as model.things.Thing writes it
    "value": "string?",  # what the entity is after it; null = it is not there
    "outcome": "string",  # Outcome
    "called_ns": "int64",
    "returned_ns": "int64",
    "error": "string?",
}

# One row an answer of a node to what an entity is. An entity without a row was not asked about, or not answered.
ADMIN_VIEWS: Final[Columns] = {
    "phase": "string",  # when: "start", "healed", "drained"
    "node": "int32",  # broker, or controller (KIP-919)
    "entity": "string",
    "value": "string?",  # null = the node says that it is not there
    "asked_ns": "int64",
    "at_ns": "int64",  # answered
}

# One row a partition and time that its leader was asked about: the first record of that time or later (KIP-79).
LOOKUPS: Final[Columns] = {
    "asked_ns": "int64",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "time_ms": "int64",
    "offset": "int64?",  # null = none so late, or an error
    "timestamp_ms": "int64?",  # of the record there, by the leader
    "leader_epoch": "int32?",
    "error": "string?",  # of Kafka, or that nobody answered
}

# One row a partition and leader epoch whose end its leader was asked for (KIP-101, KIP-279).
EPOCH_ENDS: Final[Columns] = {
    "asked_ns": "int64",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "epoch": "int32",
    "reported_epoch": "int32?",  # the largest one up to that; null = the leader knows of none, or an error
    "end_offset": "int64?",  # where the log leaves it
    "error": "string?",  # of Kafka, or that nobody answered
}

# One row a read after the drain from an offset of its own. Its records are observations of the kind "probe".
PROBES: Final[Columns] = {
    "reader": "string",  # with `session` and the place: of its observations
    "session": "int32",
    "why": "string",
    "isolation": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "offset": "int64",  # from where it began
    "time_ms": "int64?",  # a leader named that offset for this time
    "log_start": "int64?",  # by the leader, before any was asked, and after all
    "log_start_after": "int64?",
    "records": "int32",  # so many it was given
    "reported": "string",  # how it ended
    "end_offset": "int64?",  # the next offset, when it was told that there is no more
    "asked_ns": "int64",
    "at_ns": "int64",
}

# One row an object of the remote tier (KIP-405) at one look, where the tier itself can be read, past the brokers.
TIER_OBJECTS: Final[Columns] = {
    "look": "string",  # "loaded", "healed", "end"
    "looked_ns": "int64",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "segment_id": "string",
    "base_offset": "int64",  # in its name
    "kind": "string",  # "log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint", "txnindex"
    "size_bytes": "int64",
    "sha256": "string",
    "records": "int64?",  # of a log, as of the next three: found by reading every batch
    "first_offset": "int64?",
    "last_offset": "int64?",
    "faulty": "string?",  # what no broker writes, as text; null = nothing
}

# One row a replica of a partition in the tier at one look, told by its own broker.
TIER_REPLICAS: Final[Columns] = {
    "look": "string",
    "looked_ns": "int64",
    "broker": "int32",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "log_start": "int64",  # what is in the tier counts
    "local_log_start": "int64",
    "log_end": "int64",
    "highest_tiered": "int64?",  # -1 = nothing yet; null = the release does not say
    "epochs": "string",  # leader epochs with their first offsets, `0:0,3:1500`
}

# One row a record of __remote_log_metadata: what brokers told each other of the tier. Read twice around the objects.
TIER_METADATA: Final[Columns] = {
    "read": "int32",  # 1: it was there before the objects were looked at, 2: only afterwards
    "partition": "int32",  # of that topic, as is the offset
    "offset": "int64",
    "timestamp_ms": "int64",
    "kind": "string",  # "segment", "segment_update", "partition_delete", "unreadable"
    "topic": "string?",  # as all that follows null where the record does not say it
    "topic_id": "string?",
    "topic_partition": "int32?",
    "segment_id": "string?",
    "broker": "int32?",
    "event_ms": "int64?",
    "state": "string?",  # as Kafka names it, "COPY_SEGMENT_STARTED"
    "base_offset": "int64?",
    "end_offset": "int64?",  # inclusive
    "max_timestamp_ms": "int64?",
    "size_bytes": "int64?",
    "epochs": "string?",  # leader epochs with their first offsets within the segment, `0:0,3:1500`
    "custom_bytes": "int64?",  # size of metadata of the store's own
    "txn_index_empty": "bool?",  # true = it has no transaction index; never told by releases before 4.0
    "why": "string?",  # of one that is unreadable
}

# Columns that a table may lack altogether; then they are null.
OPTIONAL_COLUMNS: Final[dict[str, frozenset[str]]] = {
    "ledger": frozenset({"value", "timestamp_ms", "timestamp_type"}),
    "observations": frozenset({"leader_epoch"}),
}

TABLES: Final[dict[str, Columns]] = {
    "ledger": LEDGER,
    "reservations": RESERVATIONS,
    "observations": OBSERVATIONS,
    "transactions": TRANSACTIONS,
    "offset_commits": OFFSET_COMMITS,
    "processed": PROCESSED,
    "deliveries": DELIVERIES,
    "batches": BATCHES,
    "admin_ops": ADMIN_OPS,
    "admin_views": ADMIN_VIEWS,
    "lookups": LOOKUPS,
    "epoch_ends": EPOCH_ENDS,
    "probes": PROBES,
    "tier_metadata": TIER_METADATA,
    "tier_objects": TIER_OBJECTS,
    "tier_replicas": TIER_REPLICAS,
}

ACKS: Final = ("all", "1", "0")
PROBE_REASONS: Final = ("batch", "segment", "time", "commit", "log_start", "below_log_start")
PROBE_ENDS: Final = ("enough", "end", "out_of_range", "silent")
ANSWERS: Final = ("accept", "release", "reject")  # of a member of a share group to a record
ISOLATIONS: Final = ("read_committed", "read_uncommitted")
VALUE_FORMS: Final = ("null", "empty")  # of a record that has no value of its own
TIMESTAMP_TYPES: Final = ("create", "append")
TIER_KINDS: Final = ("segment", "segment_update", "partition_delete", "unreadable")
LOOKS: Final = ("loaded", "healed", "end")  # at the remote tier
PHASES: Final = ("start", "healed", "drained")  # of snapshots, and of what nodes say of an admin's things
_OUTCOMES: Final = tuple(word.value for word in Outcome)

# Columns with a closed vocabulary. A word of another one would be judged as nothing at all, and its record as lost.
WORDS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "ledger": {"outcome": _OUTCOMES, "value": VALUE_FORMS, "timestamp_type": TIMESTAMP_TYPES},
    "reservations": {"acks": ACKS},
    "observations": {"kind": ("live", "drain", "replica", "probe"), "isolation": ISOLATIONS},
    "transactions": {"outcome": tuple(word.value for word in TxnOutcome)},
    "offset_commits": {"outcome": _OUTCOMES},
    "processed": {},
    "deliveries": {"answer": ANSWERS, "outcome": _OUTCOMES},
    "batches": {"control": ("commit", "abort", "other"), "timestamp_type": TIMESTAMP_TYPES},
    "admin_ops": {"kind": tuple(word.value for word in Did), "outcome": _OUTCOMES},
    "admin_views": {"phase": PHASES},
    "lookups": {},
    "epoch_ends": {},
    "probes": {"why": PROBE_REASONS, "isolation": ISOLATIONS, "reported": PROBE_ENDS},
    "tier_metadata": {"kind": TIER_KINDS},
    "tier_objects": {"look": LOOKS},
    "tier_replicas": {"look": LOOKS},
}

# Columns that count from 0. What cannot be decoded has its -1 in other ones.
COUNTED: Final[dict[str, tuple[str, ...]]] = {
    "ledger": ("stream", "seq", "partition", "offset"),
    "reservations": ("stream", "partition", "first_seq", "end_seq"),
    "observations": ("partition", "offset"),
    "transactions": (),
    "offset_commits": ("partition", "offset"),
    "processed": ("partition", "offset", "stream", "seq"),
    "deliveries": ("partition", "offset", "count"),
    "batches": ("partition", "base_offset", "last_offset"),
    "admin_ops": ("op",),
    "admin_views": ("node",),
    "lookups": ("partition", "offset"),
    "epoch_ends": ("partition", "epoch", "end_offset"),
    "probes": ("session", "partition", "offset", "log_start", "log_start_after", "end_offset"),
    "tier_metadata": ("partition", "offset"),
    "tier_objects": ("partition", "base_offset", "size_bytes"),
    "tier_replicas": ("partition", "log_start", "local_log_start", "log_end"),
}

# JSON documents of a bundle. The first group must be there for a bundle to be judged at all.
REQUIRED_DOCUMENTS: Final = ("manifest.json", "scenario.json", "steps.json", "cluster.json", "reads.json", "run.json")
