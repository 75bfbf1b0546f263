"""The columns of the evidence as plain data, from which writers (pyarrow) and readers (Spark) derive their schemas.

Times are epoch nanoseconds from one wall-clock anchor plus a monotonic clock. `int64?` = may be null. FORMAT.md of
harness/evidence documents every column.
"""

from __future__ import annotations

from typing import Final

from harness.model.outcome import Did, Outcome, TxnOutcome

FORMAT_VERSION: Final = 3

Columns = dict[str, str]

# One row for each attempted record. An ack inside a transaction is not a commit: see TRANSACTIONS.
LEDGER: Final[Columns] = {
    "stream": "int32",  # one producer incarnation on one partition; sequences count up from 0 within it
    "seq": "int64",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "key_hash": "int64?",  # crc32 of the key; null = no key
    "txn_id": "int64?",
    "outcome": "string",  # model.outcome.Outcome
    "offset": "int64?",  # in the broker's answer; also for records of transactions
    "called_ns": "int64",
    "returned_ns": "int64",
    "error": "string?",  # name of the client's final error
    "value": "string?",  # "null" = a tombstone of its key, or "empty"; null = it has a value
    "timestamp_ms": "int64?",  # of an acked record: set by the client, or returned by the leader
    "timestamp_type": "string?",  # which of the two: "create", "append"
}

# One row for each range of sequences that a stream may use, on disk before the first of them is sent. It also describes
# the producer of the stream. The widest range of a stream counts.
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

# One row for each record that was read back.
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
    "leader_epoch": "int32?",  # of its batch; a record that was truncated and written again has another one
    "given_ns": "int64?",  # when a live reader received this offset first; null for offsets that it had passed before
}

TRANSACTIONS: Final[Columns] = {
    "txn_id": "int64",  # unique in the run
    "producer": "string",
    "outcome": "string",  # model.outcome.TxnOutcome
    "called_ns": "int64",  # the first record of the transaction
    "ended_ns": "int64",  # the end was answered, or given up
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

# One row for each record that a processor made of another one and gave to its client. The ledger has the outcome.
PROCESSED: Final[Columns] = {
    "processor": "string",  # the producer that reads
    "topic": "string",  # of the input record, as the columns up to `offset`
    "topic_id": "string",
    "partition": "int32",
    "offset": "int64",
    "stream": "int32",  # of the output record
    "seq": "int64",
}

# One row for each record that a member of a share group received (KIP-932), with its answer.
DELIVERIES: Final[Columns] = {
    "group": "string",
    "reader": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "offset": "int64",
    "count": "int32",  # deliveries to the group, this one included, by the broker; 0 = not reported
    "answer": "string?",  # "accept", "release", "reject"; null = the member died with it
    "outcome": "string?",  # of the answer: Outcome; null = there was none
    "error": "string?",
    "given_ns": "int64",
    "returned_ns": "int64?",
}

# One row for each record batch on a broker's own disk, where the backend can read it. It shows what wrote a second
# copy.
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

# One row for each operation of an admin: one request, sent once. An acknowledged operation is promised, like a record.
ADMIN_OPS: Final[Columns] = {
    "op": "int64",  # number of the operation, unique for its writer and in the order of calls
    "writer": "string",
    "kind": "string",  # model.outcome.Did
    "entity": "string",  # what it changes: the text of model.entities.MetadataEntity
    "value": "string?",  # the state of the entity after it; null = it does not exist
    "outcome": "string",  # Outcome
    "called_ns": "int64",
    "returned_ns": "int64",
    "error": "string?",
}

# One row for each answer of a node about the state of an entity. Without a row the node was not asked or did not
# answer.
ADMIN_VIEWS: Final[Columns] = {
    "phase": "string",  # when: "start", "healed", "drained"
    "node": "int32",  # broker, or controller (KIP-919)
    "entity": "string",
    "value": "string?",  # null = the node says that it does not exist
    "asked_ns": "int64",
    "at_ns": "int64",  # answered
}

# One row for each partition and time that its leader was asked about: the first record of that time or later (KIP-79).
LOOKUPS: Final[Columns] = {
    "asked_ns": "int64",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "time_ms": "int64",
    "offset": "int64?",  # null = no such record, or an error
    "timestamp_ms": "int64?",  # of that record, by the leader
    "leader_epoch": "int32?",
    "error": "string?",  # Kafka's name of the error, or that no answer came
}

# One row for each partition and leader epoch whose end its leader was asked for (KIP-101, KIP-279).
EPOCH_ENDS: Final[Columns] = {
    "asked_ns": "int64",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "epoch": "int32",
    "reported_epoch": "int32?",  # the largest one up to that in the leader's log; null = none, or an error
    "end_offset": "int64?",  # the offset at which that epoch ends
    "error": "string?",  # Kafka's name of the error, or that no answer came
}

# One row for each read after the drain that began at an offset of its own. Its records are observations of the kind
# "probe".
PROBES: Final[Columns] = {
    "reader": "string",  # as in its observations, like `session` and the partition
    "session": "int32",
    "why": "string",
    "isolation": "string",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "offset": "int64",  # where it began
    "time_ms": "int64?",  # the leader named the offset for this time
    "log_start": "int64?",  # by the leader, before the first probe and after the last
    "log_start_after": "int64?",
    "records": "int32",  # how many it received
    "reported": "string",  # how it ended
    "end_offset": "int64?",  # the offset after the last record, if there are no more
    "asked_ns": "int64",
    "at_ns": "int64",
}

# One row for each object of the remote tier (KIP-405) at one look, where the tier can be read past the brokers.
TIER_OBJECTS: Final[Columns] = {
    "look": "string",  # "loaded", "healed", "end"
    "looked_ns": "int64",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "segment_id": "string",
    "base_offset": "int64",  # from its name
    "kind": "string",  # "log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint", "txnindex"
    "size_bytes": "int64",
    "sha256": "string",
    "records": "int64?",  # of a log, like the next three: found by reading every batch
    "first_offset": "int64?",
    "last_offset": "int64?",
    "faulty": "string?",  # what is wrong with the log, as text; null = nothing
}

# One row for each replica of a tiered partition at one look, as its own broker reports it.
TIER_REPLICAS: Final[Columns] = {
    "look": "string",
    "looked_ns": "int64",
    "broker": "int32",
    "topic": "string",
    "topic_id": "string",
    "partition": "int32",
    "log_start": "int64",  # the tier included
    "local_log_start": "int64",
    "log_end": "int64",
    "highest_tiered": "int64?",  # -1 = nothing yet; null = the release does not report it
    "epochs": "string",  # leader epochs with their first offsets, `0:0,3:1500`
}

# One row for each record of __remote_log_metadata, which is read before and after the objects of the tier.
TIER_METADATA: Final[Columns] = {
    "read": "int32",  # 1: it was there before the objects were read, 2: only afterwards
    "partition": "int32",  # of that topic, like the offset
    "offset": "int64",
    "timestamp_ms": "int64",
    "kind": "string",  # "segment", "segment_update", "partition_delete", "unreadable"
    "topic": "string?",  # this and the columns below are null if the record does not say it
    "topic_id": "string?",
    "topic_partition": "int32?",
    "segment_id": "string?",
    "broker": "int32?",
    "event_ms": "int64?",
    "state": "string?",  # Kafka's name, such as "COPY_SEGMENT_STARTED"
    "base_offset": "int64?",
    "end_offset": "int64?",  # inclusive
    "max_timestamp_ms": "int64?",
    "size_bytes": "int64?",
    "epochs": "string?",  # leader epochs with their first offsets within the segment, `0:0,3:1500`
    "custom_bytes": "int64?",  # size of the metadata that the remote storage manager added
    "txn_index_empty": "bool?",  # true = it has no transaction index; releases before 4.0 do not report it
    "why": "string?",  # what is wrong with one that is unreadable
}

# Columns that a table may lack; then they are null.
OPTIONAL_COLUMNS: Final[dict[str, frozenset[str]]] = {
    "ledger": frozenset({"value", "timestamp_ms", "timestamp_type"}),
    "observations": frozenset({"leader_epoch", "given_ns"}),
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
ANSWERS: Final = ("accept", "release", "reject")  # of a member of a share group, for a record
ISOLATIONS: Final = ("read_committed", "read_uncommitted")
VALUE_FORMS: Final = ("null", "empty")  # of a record without a value
TIMESTAMP_TYPES: Final = ("create", "append")
TIER_KINDS: Final = ("segment", "segment_update", "partition_delete", "unreadable")
LOOKS: Final = ("loaded", "healed", "end")  # times when the remote tier is read
PHASES: Final = ("start", "healed", "drained")  # of snapshots, and of admin_views
_OUTCOMES: Final = tuple(word.value for word in Outcome)

# Columns with fixed words. A row with any other word would not be judged, and its record would count as lost.
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

# Columns that count from 0. Columns in which -1 means "cannot be decoded" are not among them.
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

# JSON documents that a bundle must have to be judged.
REQUIRED_DOCUMENTS: Final = ("manifest.json", "scenario.json", "steps.json", "cluster.json", "reads.json", "run.json")
# Evidence that bundles of other clients, or of earlier harnesses, may lack.
OPTIONAL_DOCUMENTS: Final = ("history.json",)
