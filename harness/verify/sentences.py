"""Sentences: what was seen, and the promise that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.model.contract.contract import MIN_INSYNC, Contract, ProducerContract, TopicContract
from harness.model.finding import Kind

Run = Mapping[str, Any]


def _span(run: Run, what: str) -> str:
    first, last = run["other_first"], run["other_last"]
    return f"{what} {first}" if first == last else f"{what}s {first} to {last}"


def _where(run: Run) -> str:
    """The place that a check has put behind its word."""
    return str(run["reason"]).partition(" in ")[2]


# What was seen, by kind and the check's word for the circumstances.
_SEEN: Final[dict[tuple[str, str], str | Callable[[Run], str]]] = {
    (Kind.LOST, "passed"): "the read after healing passed the place and the record is nowhere",
    (Kind.LOST, "topic_gone"): "another topic has the name now, and nobody was to delete the one that it was sent to",
    (Kind.LOST, "uncommitted_only"): "only read_uncommitted shows it; read_committed passed the place without it",
    (Kind.LOST, "beyond_every_log"): "every replica's log ends at or below its offset",
    (Kind.DUPLICATED, ""): lambda run: f"a second copy; the first stands at {_span(run, 'offset')}",
    (Kind.DUPLICATED, "processed"): lambda run: (
        f"processed twice: what was made of it the second time stands in {_where(run)} at {_span(run, 'offset')}"
    ),
    (Kind.REORDERED, "processed"): lambda run: (
        f"processed out of order: what was made of it stands in {_where(run)} below what was made of an earlier one, "
        f"at {_span(run, 'offset')}"
    ),
    (Kind.REORDERED, ""): lambda run: f"stands below an earlier record of its stream, at {_span(run, 'offset')}",
    (Kind.CORRUPT, "payload"): "the payload does not certify itself",
    (Kind.CORRUPT, "timestamp"): lambda run: f"not of the time of its send, {_span(run, 'timestamp')} ms",
    (Kind.CORRUPT, "timestamp_type"): "timestamps on disk are of another type than the topic's message.timestamp.type",
    (Kind.CORRUPT, "time_reported"): lambda run: f"not of the time that it was sent with, {_span(run, 'timestamp')} ms",
    (Kind.CORRUPT, "time_back"): lambda run: f"of before a batch in front of it, {_span(run, 'timestamp')} ms",
    (Kind.CORRUPT, "codec"): "batches on disk are packed otherwise than the topic's compression.type says",
    (Kind.WRONG_ACK_OFFSET, ""): lambda run: f"the release's own client was told {_span(run, 'offset')}",
    (Kind.MISROUTED, ""): lambda run: f"its stream belongs to another place, {_span(run, 'partition')}",
    (Kind.PHANTOM, "never_sent"): "nobody reserved, let alone sent it",
    (Kind.PHANTOM, "refused"): "the send was refused for certain",
    (Kind.VANISHED, "gone"): "a live reader was given it, and after healing nothing stands there",
    (Kind.VANISHED, "hidden"): "a read_committed reader was given it, and now only read_uncommitted shows it",
    (Kind.VANISHED, "written_again"): lambda run: (
        f"a live reader was given it before it was cut off; what stands there is of {_span(run, 'leader epoch')}"
    ),
    (Kind.CONFLICTING, ""): "another record stands at this offset for the read after healing",
    (Kind.ABORTED_READ, "drain"): lambda run: f"read_committed shows it; aborted {_span(run, 'txn')}",
    (Kind.ABORTED_READ, "reader"): "read_committed returned it, though its transaction was aborted",
    (Kind.TORN_TRANSACTION, "committed"): lambda run: f"other records of the committed {_span(run, 'txn')} are visible",
    (Kind.TORN_TRANSACTION, "unknown"): lambda run: f"a part of {_span(run, 'txn')} is visible, this is not",
    (
        Kind.TORN_TRANSACTION,
        "offsets",
    ): "its records and its offsets had different fates, so the group stands where it must not",
    (
        Kind.TORN_TRANSACTION,
        "unprocessed",
    ): "the group committed behind it in a transaction, and nothing that was made of it in one is visible",
    (Kind.TORN_TRANSACTION, "uncounted"): lambda run: (
        f"the group's offset stands before it, and what was made of it is visible in {_where(run)} at "
        f"{_span(run, 'offset')}"
    ),
    (Kind.SKIPPED_READ, "never given"): "a share group is done with it, and it was given to none of its members",
    (Kind.SKIPPED_READ, "unaccepted"): lambda run: (
        f"a share group is done with it, and no member accepted or rejected it when it was given, up to "
        f"{run['other_last']} times"
    ),
    (
        Kind.COMMIT_REGRESSED,
        "answered again",
    ): "a share group was given it again, though an accept or reject of it was told",
    (Kind.SKIPPED_READ, "processed"): "the group committed behind it, and nothing that was made of it is visible",
    (Kind.SKIPPED_READ, ""): "the reader went past it, and it was there",
    (Kind.SKIPPED_READ, "from"): lambda run: f"a read that began at {_span(run, 'offset')} was not given it",
    (Kind.SKIPPED_READ, "denied"): lambda run: (
        f"a leader says that it is out of range, and its log starts at {_span(run, 'offset')}"
    ),
    (Kind.COMMIT_REGRESSED, "behind"): lambda run: f"the group is behind its last acked commit {run['other_last']}",
    (Kind.COMMIT_REGRESSED, "nobody"): lambda run: f"nobody committed this; the last acked was {run['other_last']}",
    (Kind.COMMIT_REGRESSED, "deleted"): lambda run: (
        f"the group has offset {run['offset_first']} again, which was deleted with it"
    ),
    (Kind.COMMIT_REGRESSED, "gone"): lambda run: f"the group has no offset; the last acked was {run['other_last']}",
    (Kind.LOG_START, "replica"): lambda run: f"the log starts at {_span(run, 'offset')}, further than anything permits",
    (Kind.LOG_START, "served"): lambda run: f"a reader was given it, and the log started at {_span(run, 'offset')}",
    (Kind.OFFSET_LOOKUP, "late"): lambda run: (
        f"the first of its time or later, and the leader, asked for that, names {_span(run, 'offset')}"
    ),
    (Kind.OFFSET_LOOKUP, "none"): "the first of its time or later, and the leader, asked for that, says there is none",
    (Kind.OFFSET_LOOKUP, "early"): lambda run: (
        f"of before the time that the leader names it for, {_span(run, 'time')} ms"
    ),
    (Kind.OFFSET_LOOKUP, "time"): lambda run: (
        f"the leader names it with a time of {_span(run, 'other')} ms, which it has not"
    ),
    (Kind.EPOCH_LOOKUP, "short"): lambda run: (
        f"the leader says that its epoch ended before it, at {_span(run, 'offset')}"
    ),
    (Kind.EPOCH_LOOKUP, "beyond"): lambda run: (
        f"of a later leader epoch than the one that ended, as the leader says, behind it at {_span(run, 'offset')}"
    ),
    (Kind.EPOCH_LOOKUP, "older"): lambda run: (
        f"of leader {_span(run, 'epoch')}, of which the leader knows nothing when it is asked for that"
    ),
    (Kind.EPOCH_LOOKUP, "none"): lambda run: (
        f"of leader {_span(run, 'epoch')}, and the leader, asked for that, says there is none"
    ),
    (Kind.REPLICA_DIVERGENCE, "missing"): "below the high watermark the replica lacks what the leader has",
    (Kind.REPLICA_DIVERGENCE, "extra"): "the replica has what the leader lacks",
    (Kind.REPLICA_DIVERGENCE, "other"): "the replica has another record there than the leader",
    (Kind.REPLICA_DIVERGENCE, "batch_differs"): "batches of one place differ on the disks of the replicas",
    (Kind.REPLICA_DIVERGENCE, "batch_missing"): "a batch below the high watermark is not on the disk of every replica",
    (Kind.REPLICA_DIVERGENCE, "batch_crc"): "the batch on this broker's disk fails its CRC",
    (Kind.REPLICA_DIVERGENCE, "hole"): "offsets between two batches on a broker's disk are in neither",
}

_PROMISES: Final[dict[str, str]] = {
    Kind.VANISHED: "what consumers were given lies below the high watermark and stays (unclean elections aside)",
    Kind.CORRUPT: "a record is served as it was sent, or not at all",
    Kind.WRONG_ACK_OFFSET: "an acknowledgement names the offset at which the record stands (RecordMetadata)",
    Kind.MISROUTED: "a record stands in the partition that it was sent to, and in no other",
    Kind.PHANTOM: "a log holds what producers sent, and nothing else",
    Kind.CONFLICTING: "an offset below the high watermark holds one record for good",
    Kind.ABORTED_READ: "read_committed returns no record of an aborted transaction (KIP-98)",
    Kind.TORN_TRANSACTION: "a transaction is all or nothing, over its partitions and its offsets (KIP-98)",
    Kind.SKIPPED_READ: "a reader is given every record between two that it was given",
    Kind.COMMIT_REGRESSED: "an acknowledged commit stands until a later one replaces it",
    Kind.LOG_START: "only retention by size or time, DeleteRecords and deletion move the start of a log",
    Kind.OFFSET_LOOKUP: "a leader finds the first record of a time or later, wherever it lies (KIP-79, KIP-405)",
    Kind.EPOCH_LOOKUP: "a leader knows where each epoch of its log ended, wherever that lies (KIP-101, KIP-405)",
    Kind.REPLICA_DIVERGENCE: "below the high watermark every replica in sync has the same log",
    Kind.HANGING_TRANSACTION: "a transaction ends by transaction.timeout.ms and the coordinator's clean-up (KIP-98)",
    Kind.UNAVAILABLE: "a leader takes writes while min.insync.replicas are in sync (Kafka documentation)",
    Kind.ADMIN_LOST: "an acknowledged operation of an admin is in the metadata log for good (KIP-500)",
    Kind.ADMIN_RESURRECTED: "what an acknowledged operation unmade stays away until it is made again (KIP-500)",
    Kind.ADMIN_PHANTOM: "the metadata is what was asked for, and nothing else",
    Kind.METADATA_DIVERGENCE: "every node learns what the controllers agreed on, and tells the same (KIP-500)",
    Kind.TIER_GAP: "a segment is deleted locally when its copy is finished, and not before (KIP-405)",
    Kind.TIER_OBJECT: "a finished copy is whole, as the broker had it, and stays so until it is deleted (KIP-405)",
    Kind.TIER_STATE: "a copy is begun, finished and deleted in this order (KIP-405)",
    Kind.NOT_RECOVERED: "with everything up again, ISRs fill and acks come",
}


# Circumstances that are those of an application which reads and writes.
_OF_WORK: Final = frozenset({"processed", "unprocessed", "uncounted"})
_OF_SHARES: Final = frozenset({"never given", "unaccepted", "answered again"})


def seen(run: Run) -> str:
    """What was seen, in one sentence without its figures of place and count."""
    found = _SEEN.get((run["kind"], str(run["reason"]).partition(" in ")[0]), str(run["reason"]))
    return found(run) if callable(found) else found


def promise(kind: str, topic: str | None, producer: str | None, contract: Contract, reason: str = "") -> str:
    """The promise that a finding of this kind breaks, with the settings that make it."""
    if reason.partition(" in ")[0] in _OF_WORK:
        return "what is read by who commits in the transactions of what it writes has its effect once (KIP-98, KIP-447)"
    if reason in _OF_SHARES:
        return "a share group is given each record until it is accepted, rejected or archived at its limit (KIP-932)"
    on_topic = contract.topics.get(topic or "")
    by = contract.producers.get(producer or "")
    if kind == Kind.LOST:
        return _of_loss(on_topic, by, contract)
    if kind in (Kind.DUPLICATED, Kind.REORDERED):
        return _of_idempotence(kind, by)
    if kind == Kind.LOG_START and on_topic is not None:
        declared = {"retention.ms": on_topic.retention_ms, "retention.bytes": on_topic.retention_bytes}
        limits = (f"{key}={_then(key, value, on_topic, contract)}" for key, value in declared.items())
        return f"{_PROMISES[kind]} ({', '.join(limits)})"
    return _PROMISES[kind]


def _then(key: str, declared: int, topic: TopicContract, contract: Contract) -> str:
    """A setting, and what declared steps made of it."""
    later = [c.config[key] for c in contract.changes or () if c.topic == topic.topic and key in c.config]
    return ", then ".join(map(str, (declared, *later)))


def _of_loss(topic: TopicContract | None, producer: ProducerContract | None, contract: Contract) -> str:
    acks = producer.acks if producer else "all"
    least = topic and _then(MIN_INSYNC, topic.min_insync_replicas, topic, contract)
    in_sync = f" with {MIN_INSYNC}={least}" if topic and acks == "all" else ""
    clean = " and no unclean election" if topic and not topic.unclean_election else ""
    return f"acks={acks}{in_sync}{clean} keeps every acknowledged record"


def _of_idempotence(kind: str, producer: ProducerContract | None) -> str:
    idempotent = producer is None or producer.idempotent
    what = "writes each record once" if kind == Kind.DUPLICATED else "keeps the order of sends"
    return f"{'idempotence' if idempotent else 'a producer without idempotence'} {what} on a partition (KIP-98)"
