"""Promises about records that are deleted as configured: rules with reason and source."""

from __future__ import annotations

from harness.model.contract.broker_rules import ALL, THREE, without_acks_all
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import REFERENCE, Effect, Event, Promise, both, kept


def grows_old(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del client
    if not topic.deletes:
        return None
    if (topic.retention_ms, topic.retention_bytes) == (-1, -1):
        return kept(event, "the topic has no retention limit", f"{REFERENCE}, retention.ms, retention.bytes")
    limits = [f"older than retention.ms={topic.retention_ms}"] if topic.retention_ms >= 0 else []
    limits += [f"beyond retention.bytes={topic.retention_bytes}"] if topic.retention_bytes >= 0 else []
    which = (
        f"whole segments {' or '.join(limits)}, read or not; with CreateTime the age is that of the records' timestamps"
    )
    return Promise(
        event=event,
        effects=(Effect.DELETED,),
        which=which,
        why="retention does not depend on readers",
        source=f"{REFERENCE}, retention.ms, retention.bytes",
        fix=("retention.ms=-1", "retention.bytes=-1"),
    )


def born_old(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del client
    if not topic.deletes:
        return None
    source = f"{REFERENCE}, retention.ms, message.timestamp.type, log.retention.check.interval.ms; KIP-32"
    if topic.retention_ms < 0:
        return kept(event, "the topic has no limit by age", source)
    if topic.append_time:
        why = "with LogAppendTime the broker sets the timestamp when it appends the record"
        return kept(event, why, source, f"every acknowledged record, for retention.ms={topic.retention_ms}")
    return Promise(
        event=event,
        effects=(Effect.DELETED,),
        which=f"whole segments without a record younger than retention.ms={topic.retention_ms}, at the broker's next "
        "check, every log.retention.check.interval.ms (5 minutes by default)",
        why="with CreateTime the producer sets the timestamp",
        source=source,
        fix=("message.timestamp.type=LogAppendTime", "retention.ms=-1"),
    )


def deleted_and_killed(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if not topic.deletes:  # brokers refuse DeleteRecords for a topic that is only compacted
        return None
    gone = without_acks_all(event, topic, client)
    source = f"KIP-107; {REFERENCE}, log.flush.start.offset.checkpoint.interval.ms"
    if topic.replicas == 1:
        returned = Promise(
            event=event,
            effects=(Effect.RETURNED,),
            which="records deleted since the broker last wrote the log start offset to disk, which it does once a "
            "minute",
            why="no other replica knows the new log start offset",
            source=source,
            fix=(THREE,) if client.acks == "all" else (THREE, ALL),
        )
        return both(gone, returned)
    return both(
        gone, _deleted(event, "the next leader knows the log start offset, and its followers take it over", source)
    )


def deleted_and_restarted(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del client
    why = "a broker writes its log start offsets to disk when it is shut down in an orderly way"
    source = f"KIP-107; KAFKA-4586, its checkpoint of log starts; {REFERENCE}, graceful shutdown"
    return _deleted(event, why, source) if topic.deletes else None


def _deleted(event: Event, why: str, source: str) -> Promise:
    which = "the records below the offset of DeleteRecords, and no others"
    return Promise(event=event, effects=(Effect.DELETED,), which=which, why=why, source=source)


def written_again(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Tombstones are deleted too, after a time, and then a reader that began earlier does not learn of the deletion. A
    compaction lag delays this and prevents nothing, except for readers that read within the lag."""
    if not topic.compacted:
        return kept(event, "without compaction brokers do not look at keys", f"{REFERENCE}, cleanup.policy")
    late = f"delete.retention.ms={topic.delete_retention_ms}"
    if topic.compaction_lag_ms > 0 and client.reads_within_compaction_lag:
        which = f"every acknowledged record during the lag; afterwards the newest one of each key{_unless_old(topic)}"
        return kept(event, _lag(topic), "KIP-58", which)
    return Promise(
        event=event,
        effects=(Effect.DELETED,),
        which=f"earlier records of the key{_once_older(topic)}; the newest stays{_unless_old(topic)}, a tombstone for "
        f"{late}: a reader that takes longer to read from the start may miss it, and keep a value that was deleted",
        why="cleanup.policy=compact keeps the newest record of each key",
        source=f"{_lagging(topic)}{REFERENCE}, log compaction, delete.retention.ms",
    )


def _lag(topic: TopicSettings) -> str:
    return f"a record stays for min.compaction.lag.ms={topic.compaction_lag_ms}, even if its key is written again"


def _lagging(topic: TopicSettings) -> str:
    return "KIP-58; " if topic.compaction_lag_ms > 0 else ""


def _once_older(topic: TopicSettings) -> str:
    lag_ms = topic.compaction_lag_ms
    return f", once older than min.compaction.lag.ms={lag_ms}" if lag_ms > 0 else ""


def _unless_old(topic: TopicSettings) -> str:
    """With compact,delete retention also deletes the newest record of a key."""
    limited = (topic.retention_ms, topic.retention_bytes) != (-1, -1)
    return " until retention deletes it" if topic.deletes and limited else ""


def falls_behind_cleaner(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Compaction does not depend on readers: only a reader that keeps up with the head of the log gets each record."""
    if not topic.compacted:
        why = "without compaction brokers do not look at keys"
        return kept(event, why, f"{REFERENCE}, cleanup.policy", "every record that was not read yet")
    if topic.compaction_lag_ms > 0 and client.reads_within_compaction_lag:
        return kept(event, _lag(topic), "KIP-58", "every record that was not read yet, during the lag")
    late = f"delete.retention.ms={topic.delete_retention_ms}"
    return Promise(
        event=event,
        effects=(Effect.DELETED,),
        which=f"records superseded before they were read{_once_older(topic)}: the newest record of each key is read"
        f"{', if retention left it' if _unless_old(topic) else ''}, but no tombstone deleted after {late}; a reader "
        "that "
        "has an older value of the key keeps it",
        why="compaction does not depend on readers",
        source=f"{_lagging(topic)}{REFERENCE}, log compaction, delete.retention.ms",
        fix=("min.compaction.lag.ms above the longest time without a reader",),
    )
