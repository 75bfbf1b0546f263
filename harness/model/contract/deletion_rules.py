"""What is deleted by configuration: rules, each with its reason and its source."""

from __future__ import annotations

from harness.model.contract.broker_rules import ALL, THREE, without_acks_all
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import REFERENCE, Effect, Event, Promise, both, kept


def grows_old(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del client
    if not topic.deletes:
        return None
    if (topic.retention_ms, topic.retention_bytes) == (-1, -1):
        return kept(event, "no limit by age or size", f"{REFERENCE}, retention.ms, retention.bytes")
    limits = [f"older than retention.ms={topic.retention_ms}"] if topic.retention_ms >= 0 else []
    limits += [f"beyond retention.bytes={topic.retention_bytes}"] if topic.retention_bytes >= 0 else []
    which = f"whole segments {' or '.join(limits)}, read or not; by the records' own times with CreateTime"
    return Promise(
        event=event,
        effects=(Effect.DELETED,),
        which=which,
        why="retention does not ask who has read",
        source=f"{REFERENCE}, retention.ms, retention.bytes",
        mend=("retention.ms=-1", "retention.bytes=-1"),
    )


def born_old(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del client
    if not topic.deletes:
        return None
    source = f"{REFERENCE}, retention.ms, message.timestamp.type, log.retention.check.interval.ms; KIP-32"
    if topic.retention_ms < 0:
        return kept(event, "no limit by age", source)
    if topic.append_time:
        why = "with LogAppendTime a record is as old as it has been there, whatever its producer says"
        return kept(event, why, source, f"every acknowledged record, for retention.ms={topic.retention_ms}")
    return Promise(
        event=event,
        effects=(Effect.DELETED,),
        which=f"whole segments without a record younger than retention.ms={topic.retention_ms}, as soon as the broker "
        "looks, each log.retention.check.interval.ms (5 minutes by default)",
        why="with CreateTime a record is as old as its producer says",
        source=source,
        mend=("message.timestamp.type=LogAppendTime", "retention.ms=-1"),
    )


def deleted_and_killed(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if not topic.deletes:  # nobody may delete records of a topic that is compacted alone
        return None
    gone = without_acks_all(event, topic, client)
    source = f"KIP-107; {REFERENCE}, log.flush.start.offset.checkpoint.interval.ms"
    if topic.replicas == 1:
        returned = Promise(
            event=event,
            effects=(Effect.RETURNED,),
            which="what was deleted since the broker last wrote to disk where the log begins, once a minute",
            why="nobody else knows of it",
            source=source,
            mend=(THREE,) if client.acks == "all" else (THREE, ALL),
        )
        return both(gone, returned)
    return both(gone, _deleted(event, "the next leader knows where the log begins, and tells the others", source))


def deleted_and_restarted(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del client
    why = "a broker that ends in good order writes to disk where its logs begin"
    source = f"KIP-107; KAFKA-4586, its checkpoint of log starts; {REFERENCE}, graceful shutdown"
    return _deleted(event, why, source) if topic.deletes else None


def _deleted(event: Event, why: str, source: str) -> Promise:
    which = "what DeleteRecords was asked to take, and nothing else"
    return Promise(event=event, effects=(Effect.DELETED,), which=which, why=why, source=source)


def written_again(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A tombstone goes with time as well, and with it what a reader from the start knows the key is gone by. A lag
    puts that off and spares nothing: who reads within it is given all."""
    if not topic.compacted:
        return kept(event, "without compaction a key is nothing to a broker", f"{REFERENCE}, cleanup.policy")
    late = f"delete.retention.ms={topic.delete_retention_ms}"
    if topic.compaction_lag_ms > 0 and client.within_lag:
        which = f"every acknowledged record for so long; afterwards the newest of its key{_unless_old(topic)}"
        return kept(event, _lag(topic), "KIP-58", which)
    return Promise(
        event=event,
        effects=(Effect.DELETED,),
        which=f"earlier records of the key{_once_older(topic)}; its newest stays{_unless_old(topic)}, a tombstone for "
        f"{late}: who takes longer to read from the start may miss it, and take what is deleted for there",
        why="cleanup.policy=compact keeps the newest record of each key",
        source=f"{_lagging(topic)}{REFERENCE}, log compaction, delete.retention.ms",
    )


def _lag(topic: TopicSettings) -> str:
    return f"a record stays for min.compaction.lag.ms={topic.compaction_lag_ms}, whatever is written after it"


def _lagging(topic: TopicSettings) -> str:
    return "KIP-58; " if topic.compaction_lag_ms > 0 else ""


def _once_older(topic: TopicSettings) -> str:
    lag_ms = topic.compaction_lag_ms
    return f", once older than min.compaction.lag.ms={lag_ms}" if lag_ms > 0 else ""


def _unless_old(topic: TopicSettings) -> str:
    """Of compact,delete: retention takes the newest record of a key as it takes others."""
    limited = (topic.retention_ms, topic.retention_bytes) != (-1, -1)
    return " until retention takes it" if topic.deletes and limited else ""


def falls_behind_cleaner(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Compaction does not ask who has read: only who keeps up with the head of the log is given each record."""
    if not topic.compacted:
        why = "without compaction a key is nothing to a broker"
        return kept(event, why, f"{REFERENCE}, cleanup.policy", "what nobody has read")
    if topic.compaction_lag_ms > 0 and client.within_lag:
        return kept(event, _lag(topic), "KIP-58", "what nobody has read, for so long")
    late = f"delete.retention.ms={topic.delete_retention_ms}"
    return Promise(
        event=event,
        effects=(Effect.DELETED,),
        which=f"what was superseded before it was read{_once_older(topic)}: the newest record of each key is read"
        f"{', if retention left it' if _unless_old(topic) else ''}, but no tombstone that went after {late}; who has "
        "an older value of its key goes on having it",
        why="compaction does not ask who has read",
        source=f"{_lagging(topic)}{REFERENCE}, log compaction, delete.retention.ms",
        mend=("min.compaction.lag.ms above the longest time without a reader",),
    )
