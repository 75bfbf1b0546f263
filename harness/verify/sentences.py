"""Sentences of findings: what was observed, and the promise that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.model.contract.contract import MIN_INSYNC, Contract, ProducerContract, TopicContract
from harness.model.finding import Kind
from harness.verify.engine.rows import ACKED_TWICE_NOTE, WRONG_ACK_OFFSET_NOTE, WRONG_ACK_OFFSET_WEAK, AckedTwice

Run = Mapping[str, Any]


def _span(run: Run, what: str) -> str:
    first, last = run["other_first"], run["other_last"]
    return f"{what} {first}" if first == last else f"{what}s {first} to {last}"


def _where(run: Run) -> str:
    """The place of an output, which the check appended to the reason: "processed in made/0"."""
    return str(run["reason"]).partition(" in ")[2]


def _last_commit(run: Run) -> str:
    last = run["other_last"]
    return "no commit was acknowledged" if last is None else f"its last acknowledged commit was {last}"


# Observations, by kind and by the reason that the check gives.
_SEEN: Final[dict[tuple[str, str], str | Callable[[Run], str]]] = {
    (Kind.LOST, "passed"): "the read after healing passed its place, and no reader of that isolation received it",
    (Kind.LOST, "topic_gone"): (
        "another topic has the name now, and no declared step deleted the topic that the record was sent to"
    ),
    (Kind.LOST, "compacted"): "the read after healing passed its place without returning it",
    (
        Kind.LOST,
        "uncommitted_only",
    ): "read_committed passed its offset without returning it; read_uncommitted returns it",
    (Kind.LOST, "beyond_every_log"): "the log of every replica ends at or below its offset",
    (Kind.DUPLICATED, ""): lambda run: f"this is a second copy; the first copy is at {_span(run, 'offset')}",
    (Kind.DUPLICATED, "processed"): lambda run: (
        f"the application processed it twice: the second output is in {_where(run)} at {_span(run, 'offset')}"
    ),
    (Kind.REORDERED, "processed"): lambda run: (
        f"the application processed it out of order: its output in {_where(run)} is below the output of an earlier "
        f"input, which is at {_span(run, 'offset')}"
    ),
    (Kind.REORDERED, ""): lambda run: (
        f"it is below an earlier record of its stream, which is at {_span(run, 'offset')}"
    ),
    (Kind.CORRUPT, "payload"): "the payload's checksum does not match",
    (Kind.CORRUPT, "timestamp"): lambda run: (
        f"its timestamp is outside the time from its send to its acknowledgement: {_span(run, 'timestamp')} ms"
    ),
    (Kind.CORRUPT, "timestamp_type"): (
        "its batch on disk has another timestamp type than the topic's message.timestamp.type"
    ),
    (Kind.CORRUPT, "time_reported"): lambda run: (
        f"its timestamp is not the one that the client set or the leader reported: {_span(run, 'timestamp')} ms"
    ),
    (Kind.CORRUPT, "time_back"): lambda run: (
        f"its batch is older than a batch before it in the log, which has {_span(run, 'timestamp')} ms"
    ),
    (Kind.CORRUPT, "codec"): "its batch on disk has another codec than the topic's compression.type",
    (Kind.WRONG_ACK_OFFSET, ""): lambda run: (
        f"the acknowledgement to the release's own client named {_span(run, 'offset')}"
    ),
    (Kind.MISROUTED, ""): lambda run: f"it was sent to {_span(run, 'partition')} of this topic or of another one",
    (Kind.PHANTOM, "never_sent"): "no producer reserved or sent this sequence number",
    (Kind.PHANTOM, "refused"): "its send was refused, so that no log may contain it",
    (Kind.VANISHED, "gone"): "a live reader received it, and after healing no record is at its offset",
    (Kind.VANISHED, "written_again"): lambda run: (
        f"a live reader received it from a batch that was truncated later; the batch there now has "
        f"{_span(run, 'leader epoch')}"
    ),
    (Kind.CONFLICTING, ""): "the read after healing returned another record at this offset",
    (Kind.CONFLICTING, AckedTwice.PROVEN): lambda run: (
        f"it is missing, and another record was acknowledged at its offset, too; acknowledgements named the offset for "
        f"up to {run['other_last']} records"
    ),
    (Kind.ABORTED_READ, "drain"): lambda run: (
        f"read_committed returned it, and its {_span(run, 'transaction')} was aborted"
    ),
    (Kind.ABORTED_READ, "reader"): "a read_committed reader received it, and its transaction was aborted",
    (Kind.TORN_TRANSACTION, "committed"): lambda run: (
        f"it is not visible, and other records of its committed {_span(run, 'transaction')} are"
    ),
    (Kind.TORN_TRANSACTION, "unknown"): lambda run: (
        f"it is not visible, and other records of its {_span(run, 'transaction')}, whose outcome is unknown, are"
    ),
    (Kind.TORN_TRANSACTION, "offsets"): (
        "the records and the offsets of one transaction had different outcomes, so the group's offset is wrong"
    ),
    (Kind.TORN_TRANSACTION, "unprocessed"): (
        "the group committed past it in a transaction, and no output of it from a transaction is visible"
    ),
    (Kind.TORN_TRANSACTION, "uncounted"): lambda run: (
        f"the group's committed offset is not past it, and its output is visible in {_where(run)} at "
        f"{_span(run, 'offset')}"
    ),
    (Kind.SKIPPED_READ, "never given"): "the share group has finished with it, and none of its members received it",
    (Kind.SKIPPED_READ, "unaccepted"): lambda run: (
        f"the share group has finished with it, and no member accepted or rejected it; it was delivered up to "
        f"{run['other_last']} times"
    ),
    (Kind.COMMIT_REGRESSED, "answered again"): (
        "the share group delivered it again after an accept or reject of it had been acknowledged"
    ),
    (Kind.SKIPPED_READ, "processed"): "the group committed past it, and no output of it is visible",
    (Kind.SKIPPED_READ, ""): "the reader went past it without receiving it, and it is in the log",
    (Kind.SKIPPED_READ, "from"): lambda run: f"a read that started at {_span(run, 'offset')} did not return it",
    (Kind.SKIPPED_READ, "denied"): lambda run: (
        f"the leader answered that it is out of range, and the log starts at {_span(run, 'offset')}"
    ),
    (Kind.COMMIT_REGRESSED, "behind"): lambda run: f"the group's offset is too low: {_last_commit(run)}",
    (Kind.COMMIT_REGRESSED, "nobody"): lambda run: f"no commit had this offset; {_last_commit(run)}",
    (Kind.COMMIT_REGRESSED, "deleted"): lambda run: (
        f"the group was deleted with its offsets, and has offset {run['offset_first']} again"
    ),
    (Kind.COMMIT_REGRESSED, "gone"): lambda run: f"the group has no offset; {_last_commit(run)}",
    (Kind.LOG_START, "replica"): lambda run: (
        f"the log starts at {_span(run, 'offset')}, further than retention, DeleteRecords and deletion permit"
    ),
    (Kind.LOG_START, "served"): lambda run: f"a reader received it, although the log started at {_span(run, 'offset')}",
    (Kind.OFFSET_LOOKUP, "late"): lambda run: (
        f"it is the first record of the requested time or later, and the leader answered {_span(run, 'offset')}"
    ),
    (Kind.OFFSET_LOOKUP, "none"): (
        "it is the first record of the requested time or later, and the leader answered that there is none"
    ),
    (Kind.OFFSET_LOOKUP, "early"): lambda run: (
        f"the leader answered with it, and it is older than the requested time, {_span(run, 'timestamp')} ms"
    ),
    (Kind.OFFSET_LOOKUP, "time"): lambda run: (
        f"the leader answered with it and with another timestamp than it has, {_span(run, 'timestamp')} ms"
    ),
    (Kind.EPOCH_LOOKUP, "short"): lambda run: (
        f"the leader answered that the epoch of this record ended before it, at {_span(run, 'offset')}"
    ),
    (Kind.EPOCH_LOOKUP, "beyond"): lambda run: (
        f"the leader answered that an earlier epoch ended after this record, at {_span(run, 'offset')}"
    ),
    (Kind.EPOCH_LOOKUP, "older"): lambda run: (
        f"the record has leader {_span(run, 'epoch')}; the leader was asked for it and named an older epoch"
    ),
    (Kind.EPOCH_LOOKUP, "none"): lambda run: (
        f"the record has leader {_span(run, 'epoch')}; the leader was asked for it and named no epoch"
    ),
    (
        Kind.REPLICA_DIVERGENCE,
        "missing",
    ): "the leader has this record below the high watermark, and the replica lacks it",
    (Kind.REPLICA_DIVERGENCE, "extra"): "the replica has this record, and the leader lacks it",
    (Kind.REPLICA_DIVERGENCE, "other"): "the replica has another record at this offset than the leader",
    (Kind.REPLICA_DIVERGENCE, "batch_differs"): "the batch at this offset differs between the disks of the replicas",
    (Kind.REPLICA_DIVERGENCE, "batch_missing"): (
        "the batch is below the high watermark and not on the disk of every replica"
    ),
    (Kind.REPLICA_DIVERGENCE, "batch_crc"): "the batch on this broker's disk fails its CRC",
    (Kind.REPLICA_DIVERGENCE, "hole"): "the offset is in no batch on this broker's disk, and another broker has it",
}

_PROMISES: Final[dict[str, str]] = {
    Kind.VANISHED: (
        "a record that a consumer received is below the high watermark and stays in the log (unclean elections aside)"
    ),
    Kind.CORRUPT: "a record is returned as it was sent, or not at all",
    Kind.WRONG_ACK_OFFSET: "an acknowledgement names the offset that the record has (RecordMetadata)",
    Kind.MISROUTED: "a record is in the partition that it was sent to, and in no other",
    Kind.PHANTOM: "a log contains what producers sent, and nothing else",
    Kind.CONFLICTING: "an offset below the high watermark always holds the same record",
    Kind.ABORTED_READ: "read_committed returns no record of an aborted transaction (KIP-98)",
    Kind.TORN_TRANSACTION: "a transaction is all or nothing, across its partitions and its offsets (KIP-98)",
    Kind.SKIPPED_READ: "a reader receives every record between two records that it received",
    Kind.COMMIT_REGRESSED: "an acknowledged commit stays until a later commit replaces it",
    Kind.LOG_START: "only retention by size or time, DeleteRecords and deletion move the start of a log",
    Kind.OFFSET_LOOKUP: (
        "a leader finds the first record of a time or later, on disk or in the remote tier (KIP-79, KIP-405)"
    ),
    Kind.EPOCH_LOOKUP: (
        "a leader knows where each leader epoch of its log ended, on disk or in the remote tier (KIP-101, KIP-405)"
    ),
    Kind.REPLICA_DIVERGENCE: "below the high watermark every replica in sync has the same log",
    Kind.HANGING_TRANSACTION: (
        "a transaction ends within transaction.timeout.ms and the coordinator's clean-up (KIP-98)"
    ),
    Kind.UNAVAILABLE: "a leader accepts writes while min.insync.replicas are in sync (Kafka documentation)",
    Kind.ADMIN_LOST: "the result of an acknowledged admin operation stays in the metadata log (KIP-500)",
    Kind.ADMIN_RESURRECTED: (
        "what an acknowledged admin operation deleted stays deleted until it is created again (KIP-500)"
    ),
    Kind.ADMIN_PHANTOM: "the metadata contains what was requested, and nothing else",
    Kind.METADATA_DIVERGENCE: "every node learns the metadata that the controllers committed, and reports it (KIP-500)",
    Kind.TIER_GAP: "a segment is deleted locally only when its remote copy is finished (KIP-405)",
    Kind.TIER_OBJECT: "a finished copy is complete, and stays unchanged until it is deleted (KIP-405)",
    Kind.TIER_STATE: "a remote copy is started, finished and deleted, in this order (KIP-405)",
    Kind.NOT_RECOVERED: "when every node is running again, ISRs become full and writes are acknowledged",
}


_ELSEWHERE: Final = "wrong_ack_offset: {records} records are at another offset than the acknowledged one ({places}); "
# Notes, by the kind of their rows, see engine/rows.py.
_NOTES: Final[dict[str, str]] = {
    WRONG_ACK_OFFSET_NOTE: _ELSEWHERE + "librdkafka was observed to report such offsets with correct brokers",
    WRONG_ACK_OFFSET_WEAK: _ELSEWHERE
    + "with less than acks=all the acknowledged copy may be lost, and an earlier copy of the record may stay",
    ACKED_TWICE_NOTE: (
        "conflicting: {records} missing records were acknowledged at the offset of another acknowledged record "
        "({places}); librdkafka was observed to report wrong offsets with correct brokers"
    ),
}
# Defects that a client of which nothing is known may have caused, by the kind of the finding that each would be.
_BY_WHOM: Final[dict[str, str]] = {
    Kind.DUPLICATED: "are second copies under another producer id or epoch, which no broker can recognise",
    Kind.REORDERED: "are out of order under another producer id or epoch, which no broker can recognise",
    Kind.WRONG_ACK_OFFSET: "are at another offset than the client reported as acknowledged",
    Kind.CONFLICTING: "are missing, and the client reported the offset of each as acknowledged for another one, too",
}
_DECLARE: Final = frozenset({Kind.DUPLICATED, Kind.REORDERED})


# Reasons that concern an application which reads and writes, and a share group.
_OF_APPLICATIONS: Final = frozenset({"processed", "unprocessed", "uncounted"})
_OF_SHARE_GROUPS: Final = frozenset({"never given", "unaccepted", "answered again"})


def seen(run: Run) -> str:
    """The observation, in one sentence; place and count of the records are not part of it."""
    found = _SEEN.get((run["kind"], str(run["reason"]).partition(" in ")[0]), str(run["reason"]))
    return found(run) if callable(found) else found


def note(kind: str, records: int, places: Sequence[str]) -> str:
    """The note about records with this kind of row."""
    return _NOTES[kind].format(records=records, places=", ".join(places))


def unattributed(kind: str, client: str, place: str, records: int) -> str:
    """Why it is unknown whether the release or a client caused what would be a finding of this kind."""
    text = f"{records} records of {place} from client {client!r} {_BY_WHOM[kind]}; the evidence does not show whether "
    text += "the release or the client caused it"
    declare = "; if the client sends records again so, declare new_epoch_retries in the contract of its producer"
    return text + (declare if kind in _DECLARE else "")


def promise(kind: str, topic: str | None, producer: str | None, contract: Contract, reason: str = "") -> str:
    """The promise that a finding of this kind breaks, with the settings that make it."""
    if reason.partition(" in ")[0] in _OF_APPLICATIONS:
        return "an application that commits offsets in its transactions processes each input once (KIP-98, KIP-447)"
    if reason in _OF_SHARE_GROUPS:
        return "a share group delivers each record until it is accepted, rejected or archived at its limit (KIP-932)"
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
    """A setting, followed by the values that declared steps gave it."""
    later = [c.config[key] for c in contract.changes or () if c.topic == topic.topic and key in c.config]
    return ", then ".join(map(str, (declared, *later)))


def _of_loss(topic: TopicContract | None, producer: ProducerContract | None, contract: Contract) -> str:
    acks = producer.acks if producer else "all"
    least = topic and _then(MIN_INSYNC, topic.min_insync_replicas, topic, contract)
    in_sync = f" with {MIN_INSYNC}={least}" if topic and acks == "all" else ""
    clean = " and no unclean election" if topic and not topic.unclean_election else ""
    if acks == "0":
        return "acks=0 promises nothing, and no excuse covers this loss"
    limits = [
        *(["those at or above the log end of the next leader after a leader change"] if acks == "1" else []),
        *(["those that an unclean election may lose"] if topic and topic.unclean_election else []),
    ]
    unless = f", except {' and '.join(limits)}" if limits else ""
    return f"acks={acks}{in_sync}{clean} keeps every acknowledged record{unless}"


def _of_idempotence(kind: str, producer: ProducerContract | None) -> str:
    idempotent = producer is None or producer.idempotent
    what = "writes each record once" if kind == Kind.DUPLICATED else "keeps the order of sends"
    return f"{'idempotence' if idempotent else 'a producer without retries'} {what} on a partition (KIP-98)"
