"""The columns of the evidence as plain data, from which writers (pyarrow) and readers (Spark) derive their schemas.

Times are epoch nanoseconds from one wall-clock anchor plus a monotonic clock. `int64?` = may be null. FORMAT.md of
harness/evidence documents every column.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from harness.model.outcome import Did, Outcome, TxnOutcome

FORMAT_VERSION: Final = 3
INT64_LIMIT: Final = 1 << 63  # numbers of the evidence are smaller, with or without sign

Columns = dict[str, str]


class Column(NamedTuple):
    """A column of a table of the evidence. FORMAT.md shows its type and its meaning.

    type: a "?" at its end means that the column may hold nulls. optional: a table may lack it; then it is null.
    """

    type: str
    meaning: str
    optional: bool = False


TableColumns = dict[str, Column]

# One row for each attempted record. An ack inside a transaction is not a commit: see TRANSACTIONS.
LEDGER: Final[TableColumns] = {
    "stream": Column("int32", "see above"),
    "seq": Column("int64", "see above"),
    "topic": Column("string", "the topic that the record was sent to"),
    "topic_id": Column("string", "the topic that the record was sent to"),
    "partition": Column("int32", "the sender chooses it, so it is known before the send"),
    "key_hash": Column("int64?", "CRC-32 of the key; null = no key"),
    "txn_id": Column("int64?", "row of `transactions`; null = not transactional"),
    "outcome": Column("string", "`acked`, `refused` or `unknown`, see below"),
    "offset": Column(
        "int64?",
        "the offset in the broker's answer; null if it gave none (an ack without an offset is still an ack)",
    ),
    "called_ns": Column("int64", "before and after the send"),
    "returned_ns": Column("int64", "before and after the send"),
    "error": Column("string?", "name of the client's final error"),
    "value": Column(
        "string?",
        "`null` (a tombstone of its key) or `empty`; null = the record has a value",
        optional=True,
    ),
    "timestamp_ms": Column(
        "int64?",
        "the time of an acked record: set by its client (`create`), or returned by the leader (`append`)",
        optional=True,
    ),
    "timestamp_type": Column(
        "string?",
        "the time of an acked record: set by its client (`create`), or returned by the leader (`append`)",
        optional=True,
    ),
}

# One row for each range of sequences that a stream may use, on disk before the first of them is sent. It also describes
# the producer of the stream. The widest range of a stream counts.
RESERVATIONS: Final[TableColumns] = {
    "stream": Column("int32", "the stream that the row describes"),
    "producer": Column(
        "string",
        "name of the producer in scenario.json; run.json must have its contract. `sentinel`, which writes a "
        "last record to each partition before the drain, needs one only if it backdates them: none of its records may "
        "be lost",
    ),
    "topic": Column("string", "where the stream writes"),
    "topic_id": Column("string", "where the stream writes"),
    "partition": Column("int32", "where the stream writes"),
    "first_seq": Column("int64", "the range, end exclusive; the widest range of a stream counts"),
    "end_seq": Column("int64", "the range, end exclusive; the widest range of a stream counts"),
    "acks": Column("string", "`all`, `1` or `0`"),
    "idempotent": Column("bool", "settings of its producer"),
    "transactional": Column("bool", "settings of its producer"),
    "client": Column(
        "string",
        "name and version of the client: `kafka-clients 4.3.1` is the release's own, `librdkafka 2.16.1` is "
        "librdkafka (also inside of another library), and any other name is a client of which nothing is "
        "known, see below",
    ),
    "reserved_ns": Column("int64", "when"),
    "tries_recorded": Column(
        "bool?",
        "whether `failed_sends` has every failed try of the client; null = no",
        optional=True,
    ),
}

# One row for each record that was read back.
OBSERVATIONS: Final[TableColumns] = {
    "reader": Column("string", "a name, one for each consumer or read"),
    "kind": Column(
        "string",
        "`live` (while the load ran, and records of a drain read that was repeated), `drain` (the read from "
        "the log's start after healing), `replica` (one broker's copy, by follower fetching, KIP-392), "
        "`probe` (a read of `probes`, each of which has a session of its own)",
    ),
    "isolation": Column("string", "`read_committed` or `read_uncommitted`"),
    "replica": Column("int32?", "the broker whose copy was read; null for live readers"),
    "session": Column(
        "int32",
        "a new number after every rebalance, seek, reset or restart, so that a jump is not taken for a skipped record, "
        "nor for a `reread`",
    ),
    "poll": Column("int64", "number of the poll that returned the record; a later poll has a higher one"),
    "topic": Column("string", "where the record was read"),
    "topic_id": Column("string", "where the record was read"),
    "partition": Column("int32", "where the record was read"),
    "offset": Column("int64", "where the record was read"),
    "stream": Column("int32", "from the payload; -1 if the payload cannot be decoded"),
    "seq": Column("int64", "from the payload"),
    "intact": Column(
        "bool",
        "whether the record is the one that was sent: the checksum in its payload, the mark of the run and the key are "
        "right. False is the finding `corrupt`. A harness whose payloads have no checksum compares them with what it "
        "sent; if it writes true without a comparison, nothing is said about damaged payloads",
    ),
    "timestamp_ms": Column("int64", "the record's timestamp, as the reader received it: see Timestamps"),
    "txn_id": Column("int64?", "the transaction in which a read-process-write consumed the record"),
    "leader_epoch": Column(
        "int32?",
        (
            "of the record's batch, if the client reports it. Below the high watermark a batch keeps its epoch, "
            "so a record with two epochs was truncated after a reader had seen it, and written again"
        ),
        optional=True,
    ),
    "given_ns": Column(
        "int64?",
        (
            "when a live reader received this offset for the first time; null for offsets that it had passed "
            "before, and for other readers"
        ),
        optional=True,
    ),
    "previous_offset": Column(
        "int64?",
        (
            "offset of the record of this partition that the reader received just before this one in the same session; "
            "null = this is the first one. It shows the order within a poll"
        ),
        optional=True,
    ),
}

TRANSACTIONS: Final[TableColumns] = {
    "txn_id": Column("int64", "unique in the run"),
    "producer": Column("string", "name of the producer in run.json"),
    "outcome": Column(
        "string",
        "`committed`, `aborted`, or `unknown` (the end was sent and not answered; it stays unknown whatever follows)",
    ),
    "called_ns": Column("int64", "the first record; the end was answered or given up"),
    "ended_ns": Column("int64", "the first record; the end was answered or given up"),
    "initialised_ns": Column(
        "int64?",
        (
            "when init_transactions of the client that ran it returned. It fences every client of the producer that "
            "was initialised before (KIP-98). Null: unknown, or the producer has several transactional ids, or called "
            "init_transactions of one client before that of another had returned"
        ),
        optional=True,
    ),
    "end_called_ns": Column(
        "int64?",
        "when the commit or the abort was called for the first time; null = unknown, or never",
        optional=True,
    ),
}

OFFSET_COMMITS: Final[TableColumns] = {
    "group": Column("string", "the consumer group"),
    "topic": Column("string", "the partition"),
    "topic_id": Column("string", "the partition"),
    "partition": Column("int32", "the partition"),
    "offset": Column("int64", "the committed position, which is the next record to read"),
    "outcome": Column("string", "as in `ledger`"),
    "txn_id": Column("int64?", "the transaction that carried the commit"),
    "called_ns": Column("int64", "before and after the request"),
    "returned_ns": Column("int64", "before and after the request"),
}

# One row for each record that a processor made of another one and gave to its client. The ledger has the outcome.
PROCESSED: Final[TableColumns] = {
    "processor": Column("string", "name of the producer that reads"),
    "topic": Column("string", "the input record"),
    "topic_id": Column("string", "the input record"),
    "partition": Column("int32", "the input record"),
    "offset": Column("int64", "the input record"),
    "stream": Column("int32", "the output record"),
    "seq": Column("int64", "the output record"),
}

# One row for each record that a member of a share group received (KIP-932), with its answer.
DELIVERIES: Final[TableColumns] = {
    "group": Column("string", "the share group and its member"),
    "reader": Column("string", "the share group and its member"),
    "topic": Column("string", "the record"),
    "topic_id": Column("string", "the record"),
    "partition": Column("int32", "the record"),
    "offset": Column("int64", "the record"),
    "count": Column(
        "int32",
        "the broker's count of deliveries of the record to the group, this one included; 0 = the broker does "
        "not report it",
    ),
    "answer": Column("string?", "`accept`, `release` or `reject`; null = the member died before it answered"),
    "outcome": Column("string?", "of the answer, as in `ledger`; null = there was no answer"),
    "error": Column("string?", "the error of the answers for this partition"),
    "given_ns": Column("int64", "when the member received the record, and when its answer was acknowledged or failed"),
    "returned_ns": Column(
        "int64?",
        "when the member received the record, and when its answer was acknowledged or failed",
    ),
}

# One row for each record batch of a broker's own replica: on its disk, or as it serves it. It shows what wrote a second
# copy.
BATCHES: Final[TableColumns] = {
    "broker": Column("int32", "-1 = in the remote tier, at the end"),
    "topic": Column("string", "the partition"),
    "topic_id": Column("string", "the partition"),
    "partition": Column("int32", "the partition"),
    "segment": Column(
        "int64?",
        "base offset in the name of the segment's file; null = the broker served the batch, and its file is not known",
    ),
    "base_offset": Column("int64", "offset of its first record"),
    "last_offset": Column("int64", "offset of its last record"),
    "count": Column("int32", "records in the batch"),
    "leader_epoch": Column("int32", "epoch of the leader that appended it"),
    "producer_id": Column("int64", "-1 = not idempotent"),
    "producer_epoch": Column("int32", "of the producer, as -1 without idempotence"),
    "base_sequence": Column("int32", "the producer's sequence number of its first record"),
    "transactional": Column("bool", "whether it belongs to a transaction"),
    "control": Column("string?", "`commit`, `abort`, `other`; null = data"),
    "codec": Column("string", "compression"),
    "timestamp_type": Column("string", "`create` or `append`"),
    "max_timestamp_ms": Column("int64", "the latest timestamp of its records"),
    "size_bytes": Column("int64", "with its header, as it is on the disk"),
    "crc_ok": Column("bool", "whether the CRC-32C in its header matches"),
    "digest": Column(
        "int64",
        "CRC-32C from the attributes on: equal on every replica, because the base offset and the epoch are before them",
    ),
}

# One row for each failed try to send a batch, where the client reports its tries. It shows why a client sent records
# again. A producer without rows had no failed try only if `tries_recorded` of its reservations is true.
FAILED_SENDS: Final[TableColumns] = {
    "producer": Column("string", "name of the producer in run.json"),
    "topic": Column("string", "the partition"),
    "topic_id": Column("string", "the partition"),
    "partition": Column("int32", "the partition"),
    "count": Column("int32", "records in the batch"),
    "producer_id": Column("int64", "of the batch, as in `batches`"),
    "producer_epoch": Column("int32", "of the batch, as in `batches`"),
    "base_sequence": Column("int32", "of the batch, as in `batches`; any number without idempotence"),
    "broker": Column("int32", "the broker that the request was for"),
    "error": Column(
        "string",
        "name of the error in the broker's answer, or of the client's own, with `_` in front, such as `_TRANSPORT`",
    ),
    "sent_ns": Column("int64", "a time after the request was made, and before its result was reported"),
    "failed_ns": Column("int64", "when its result was reported"),
}

# One row for each call of a transactional client that failed, with the error that it reported. Calls that succeeded are
# in TRANSACTIONS and OFFSET_COMMITS.
FAILED_CALLS: Final[TableColumns] = {
    "producer": Column("string", "name of the producer in run.json"),
    "call": Column(
        "string",
        "`init` (init_transactions), `offsets` (send_offsets_to_transaction), `commit` or `abort`",
    ),
    "error": Column(
        "string",
        "name of the error that the client reported: of a broker's answer, such as `INVALID_TXN_STATE` (of the Java "
        "client the class, such as `InvalidTxnStateException`), or of the client's own, with `_` in front",
    ),
    "initialised_ns": Column("int64?", "as in `transactions`; null for `init`"),
    "transaction_timeout_ms": Column("int64?", "transaction.timeout.ms of the client; null = unknown"),
    "called_ns": Column("int64", "before and after the call"),
    "returned_ns": Column("int64", "before and after the call"),
}

# One row for each operation of an admin: one request, sent once. An acknowledged operation is promised, like a record.
ADMIN_OPS: Final[TableColumns] = {
    "op": Column("int64", "number of the operation, unique for its writer"),
    "writer": Column("string", "name of the admin in scenario.json"),
    "kind": Column(
        "string",
        "`create_topic`, `delete_topic`, `set_config`, `unset_config`, `create_acl`, `delete_acl`, "
        "`set_user`, `delete_user`, `reassign`",
    ),
    "entity": Column(
        "string",
        "what the operation changes: any text that names one entity and begins with a word for its kind, such"
        " as `topic a`, `topic-config a flush.ms`, `broker-config all max.connections.per.ip`, `acl User:a "
        "ALLOW READ TOPIC LITERAL a from *`, `user a SCRAM-SHA-256`, `replicas a 0`",
    ),
    "value": Column(
        "string?",
        "the state of the entity after the operation; null = the entity does not exist. A value that no other"
        " operation on the entity uses makes each operation recognizable (this harness: `delete.retention.ms`"
        " of a topic, the iterations of a user, the new replicas of a partition)",
    ),
    "outcome": Column("string", "as in `ledger`"),
    "called_ns": Column("int64", "before and after the request"),
    "returned_ns": Column("int64", "before and after the request"),
    "error": Column("string?", "name of the error in the answer, or why there is no answer"),
}

# One row for each answer of a node about the state of an entity. Without a row the node was not asked or did not
# answer.
ADMIN_VIEWS: Final[TableColumns] = {
    "phase": Column("string", "`start`, `healed`, `drained`; the judge uses the last one of `healed` and `drained`"),
    "node": Column("int32", "broker, or controller (KIP-919)"),
    "entity": Column(
        "string",
        "as in `admin_ops`; also every other entity that the node lists under the names of admins",
    ),
    "value": Column(
        "string?",
        "null = the node says that the entity does not exist. No row = the node was not asked, or did not answer",
    ),
    "asked_ns": Column("int64", "before the question and after the answer"),
    "at_ns": Column("int64", "before the question and after the answer"),
}

# One row for each partition and time that its leader was asked about: the first record of that time or later (KIP-79).
LOOKUPS: Final[TableColumns] = {
    "asked_ns": Column("int64", "when the leader was asked"),
    "topic": Column("string", "the partition"),
    "topic_id": Column("string", "the partition"),
    "partition": Column("int32", "the partition"),
    "time_ms": Column(
        "int64",
        "the question is for the first record of this time or later; -2: for the start of the log; -3: for the first "
        "of the records with the latest time (KIP-734)",
    ),
    "offset": Column("int64?", "the leader's answer; null = no such record, or an error"),
    "timestamp_ms": Column("int64?", "the leader's timestamp of that record; null for the start of the log"),
    "leader_epoch": Column("int32?", "of that record"),
    "error": Column("string?", "Kafka's name of the error, or that no answer came"),
}

# One row for each partition and leader epoch whose end its leader was asked for (KIP-101, KIP-279).
EPOCH_ENDS: Final[TableColumns] = {
    "asked_ns": Column("int64", "when the leader was asked"),
    "topic": Column("string", "the partition"),
    "topic_id": Column("string", "the partition"),
    "partition": Column("int32", "the partition"),
    "epoch": Column("int32", "the question is where this leader epoch ended"),
    "reported_epoch": Column(
        "int32?",
        "the leader's answer: the largest epoch up to that one in its log; null = none, or an error",
    ),
    "end_offset": Column("int64?", "the offset at which that epoch ends in the log"),
    "error": Column("string?", "Kafka's name of the error, or that no answer came"),
}

# One row for each read after the drain that began at an offset of its own. Its records are observations of the kind
# "probe".
PROBES: Final[TableColumns] = {
    "reader": Column("string", "as in its observations"),
    "session": Column("int32", "as in its observations"),
    "why": Column(
        "string",
        "`batch`: inside a batch; `segment`: at an edge of a segment; `time`: at the offset that a leader "
        "named for a time; `commit`: where a new member of a group began; `log_start`; `below_log_start`",
    ),
    "isolation": Column("string", "as in its observations"),
    "topic": Column("string", "the partition"),
    "topic_id": Column("string", "the partition"),
    "partition": Column("int32", "the partition"),
    "offset": Column("int64", "where it began"),
    "time_ms": Column("int64?", "of `time`: the time that the leader was asked for"),
    "log_start": Column("int64?", "the leader's first offset of the log, before the first and after the last probe"),
    "log_start_after": Column(
        "int64?",
        "the leader's first offset of the log, before the first and after the last probe",
    ),
    "records": Column("int32", "how many records it received"),
    "reported": Column(
        "string",
        "how it ended. `enough`: it received as many as it wanted; `end`: there are no more, up to "
        "`end_offset`; `out_of_range`: the offset is not in the log; `silent`: neither happened in time",
    ),
    "end_offset": Column("int64?", "of `end`: the offset after the last record"),
    "asked_ns": Column("int64", "when it began and ended"),
    "at_ns": Column("int64", "when it began and ended"),
}

# One row for each answer of a broker that continues the timeline of one of its replicas. The judge does not read it.
POSITIONS: Final[TableColumns] = {
    "broker": Column("int32", "the broker that reports on its own replica"),
    "topic": Column("string", "the partition"),
    "topic_id": Column("string", "the partition"),
    "partition": Column("int32", "the partition"),
    "asked_ns": Column("int64", "before the question and after the answer"),
    "at_ns": Column("int64", "before the question and after the answer"),
    "after_silence": Column(
        "bool", "true = the sample before has no answer about this replica, or one more than 1.5 s older"
    ),
    "log_start": Column(
        "int64?",
        "the start of the log, the remote tier included; null as long as the replica has no leader epoch in its log,"
        " because it never had a record",
    ),
    "high_watermark": Column(
        "int64?", "as this replica knows it, which a follower learns later than the leader; null as `log_start`"
    ),
    "last_stable_offset": Column(
        "int64?", "up to which read_committed may read, as this replica knows it; null as `log_start`"
    ),
    "leader_epoch": Column("int32?", "of the partition's leader, as far as this broker knows; null = none"),
    "log_end": Column("int64", "the end of the log"),
    "local_log_start": Column(
        "int64?", "records below it are read from the tier; null for a topic without remote storage"
    ),
    "highest_tiered": Column(
        "int64?",
        "the last offset in the tier, as far as this broker knows; -1 = none, null = the topic has no remote storage,"
        " or the release does not report it (before 3.9)",
    ),
}

# One row for each object of the remote tier (KIP-405) at one look, where the tier can be read past the brokers.
TIER_OBJECTS: Final[TableColumns] = {
    "look": Column("string", "`loaded`: before the first fault; `healed`: before the drain; `end`"),
    "looked_ns": Column("int64", "when it was read"),
    "topic": Column("string", "the partition"),
    "topic_id": Column("string", "the partition"),
    "partition": Column("int32", "the partition"),
    "segment_id": Column("string", "as Kafka writes it"),
    "base_offset": Column("int64", "from the object's name"),
    "kind": Column("string", "`log`, `index`, `timeindex`, `snapshot`, `leader_epoch_checkpoint`, `txnindex`"),
    "size_bytes": Column("int64", "size of the object"),
    "sha256": Column("string", "of all its bytes"),
    "records": Column("int64?", "of a log, control records included; null for the other kinds"),
    "first_offset": Column("int64?", "of the batches in a log; null if they cannot be read"),
    "last_offset": Column("int64?", "of the batches in a log; null if they cannot be read"),
    "faulty": Column(
        "string?",
        "what is wrong with a log, as text: checksums, gaps between offsets, trailing bytes; null = nothing",
    ),
}

# One row for each replica of a tiered partition at one look, as its own broker reports it.
TIER_REPLICAS: Final[TableColumns] = {
    "look": Column("string", "as in `tier_objects`"),
    "looked_ns": Column("int64", "as in `tier_objects`"),
    "broker": Column("int32", "the broker that reports on its own replica"),
    "topic": Column("string", "the partition"),
    "topic_id": Column("string", "the partition"),
    "partition": Column("int32", "the partition"),
    "log_start": Column("int64", "the start of the log, the remote tier included"),
    "local_log_start": Column("int64", "records below it are read from the tier"),
    "log_end": Column("int64", "the end of the log"),
    "highest_tiered": Column(
        "int64?",
        "the last offset in the tier; -1 = none yet, null = the release does not report it (before 3.9)",
    ),
    "epochs": Column("string", "leader epochs with their first offsets, `0:0,3:1500`, from the replica's checkpoint"),
}

# One row for each record of __remote_log_metadata, which is read before and after the objects of the tier.
TIER_METADATA: Final[TableColumns] = {
    "read": Column("int32", "1: it was there before the objects were read; 2: only afterwards"),
    "partition": Column("int32", "of the record in that topic"),
    "offset": Column("int64", "of the record in that topic"),
    "timestamp_ms": Column("int64", "of the record"),
    "kind": Column("string", "`segment`, `segment_update`, `partition_delete`, `unreadable`"),
    "topic": Column(
        "string?",
        "the partition that the record is about; these and the columns below are null if the record does not say it",
    ),
    "topic_id": Column(
        "string?",
        "the partition that the record is about; these and the columns below are null if the record does not say it",
    ),
    "topic_partition": Column(
        "int32?",
        "the partition that the record is about; these and the columns below are null if the record does not say it",
    ),
    "segment_id": Column("string?", "id of the remote copy, as Kafka writes it"),
    "broker": Column("int32?", "the broker that wrote the record"),
    "event_ms": Column("int64?", "when, by that broker's clock"),
    "state": Column(
        "string?",
        "Kafka's name: `COPY_SEGMENT_STARTED`, `COPY_SEGMENT_FINISHED`, `DELETE_SEGMENT_STARTED`, "
        "`DELETE_SEGMENT_FINISHED`, `DELETE_PARTITION_MARKED`, `DELETE_PARTITION_STARTED`, "
        "`DELETE_PARTITION_FINISHED`",
    ),
    "base_offset": Column("int64?", "of the segment, both inclusive"),
    "end_offset": Column("int64?", "of the segment, both inclusive"),
    "max_timestamp_ms": Column("int64?", "the latest timestamp of its records"),
    "size_bytes": Column("int64?", "of its log"),
    "epochs": Column("string?", "the segment's leader epochs with their first offsets, `0:0,3:1500`"),
    "custom_bytes": Column("int64?", "size of the metadata that the remote storage manager added"),
    "txn_index_empty": Column(
        "bool?",
        "true = the segment has no object `txnindex`; releases before 4.0 do not report it",
    ),
    "why": Column("string?", "of `unreadable`: what is wrong with the record"),
}

TABLE_COLUMNS: Final[dict[str, TableColumns]] = {
    "ledger": LEDGER,
    "reservations": RESERVATIONS,
    "observations": OBSERVATIONS,
    "transactions": TRANSACTIONS,
    "offset_commits": OFFSET_COMMITS,
    "processed": PROCESSED,
    "deliveries": DELIVERIES,
    "batches": BATCHES,
    "failed_sends": FAILED_SENDS,
    "failed_calls": FAILED_CALLS,
    "admin_ops": ADMIN_OPS,
    "admin_views": ADMIN_VIEWS,
    "lookups": LOOKUPS,
    "epoch_ends": EPOCH_ENDS,
    "probes": PROBES,
    "positions": POSITIONS,
    "tier_metadata": TIER_METADATA,
    "tier_objects": TIER_OBJECTS,
    "tier_replicas": TIER_REPLICAS,
}

TABLES: Final[dict[str, Columns]] = {
    table: {name: column.type for name, column in columns.items()} for table, columns in TABLE_COLUMNS.items()
}
# Columns that a table may lack.
OPTIONAL_COLUMNS: Final[dict[str, frozenset[str]]] = {
    table: frozenset(name for name, column in columns.items() if column.optional)
    for table, columns in TABLE_COLUMNS.items()
}

ACKS: Final = ("all", "1", "0")
PROBE_REASONS: Final = ("batch", "segment", "time", "commit", "log_start", "below_log_start")
PROBE_ENDS: Final = ("enough", "end", "out_of_range", "silent")
ANSWERS: Final = ("accept", "release", "reject")  # of a member of a share group, for a record
CALLS: Final = ("init", "offsets", "commit", "abort")  # of a transactional client
ISOLATIONS: Final = ("read_committed", "read_uncommitted")
VALUE_FORMS: Final = ("null", "empty")  # of a record without a value
TIMESTAMP_TYPES: Final = ("create", "append")
# Questions of the table `lookups` in place of a time, with their numbers in Kafka's protocol.
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
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
    "failed_sends": {},
    "failed_calls": {"call": CALLS},
    "admin_ops": {"kind": tuple(word.value for word in Did), "outcome": _OUTCOMES},
    "admin_views": {"phase": PHASES},
    "lookups": {},
    "epoch_ends": {},
    "probes": {"why": PROBE_REASONS, "isolation": ISOLATIONS, "reported": PROBE_ENDS},
    "positions": {},
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
    "failed_sends": ("partition", "count"),
    "failed_calls": (),
    "admin_ops": ("op",),
    "admin_views": ("node",),
    "lookups": ("partition", "offset"),
    "epoch_ends": ("partition", "epoch", "end_offset"),
    "probes": ("session", "partition", "offset", "log_start", "log_start_after", "end_offset"),
    "positions": (
        "partition",
        "log_start",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_end",
        "local_log_start",
    ),
    "tier_metadata": ("partition", "offset"),
    "tier_objects": ("partition", "base_offset", "size_bytes"),
    "tier_replicas": ("partition", "log_start", "local_log_start", "log_end"),
}

# One row for each record of each finding, which the judge writes into findings.parquet.
FINDINGS: Final[TableColumns] = {
    "kind": Column("string", "kind of the finding"),
    "reason": Column("string", "a word for the circumstances, from which the sentence of the finding is made"),
    "topic": Column("string", "where the record is, or should be"),
    "topic_id": Column("string", "where the record is, or should be"),
    "partition": Column("int32", "where the record is, or should be"),
    "offset": Column("int64?", "where the record is, or should be; null = unknown"),
    "stream": Column("int32?", "the record; null if the finding is about a place and not about a record"),
    "seq": Column("int64?", "the record; null if the finding is about a place and not about a record"),
    "reader": Column("string?", "the readers, replicas or processors that show it"),
    "other": Column(
        "int64?", "a second place or figure, such as the offset of the first copy; kind and reason say which"
    ),
    "producer": Column("string?", "of the send of the record; null without one"),
    "outcome": Column("string?", "of the send of the record; null without one"),
    "txn_id": Column("int64?", "of the send of the record; null without one"),
    "called_ns": Column("int64?", "of the send of the record; null without one"),
    "returned_ns": Column("int64?", "of the send of the record; null without one"),
    "excused_by": Column("string?", "what permits it, as in verdict.json; null = nothing"),
    "explained_by": Column("string?", "how the client caused it, as in verdict.json; null = it did not"),
}

# JSON documents that a bundle must have to be judged.
REQUIRED_DOCUMENTS: Final = ("manifest.json", "scenario.json", "steps.json", "cluster.json", "reads.json", "run.json")
# Evidence that bundles of other clients, or of earlier harnesses, may lack.
OPTIONAL_DOCUMENTS: Final = ("history.json",)
