"""What Kafka promises under a configuration when something happens: rules, each with its reason and its source.

A rule speaks of records that were acknowledged to a producer of that configuration. "lost" names which ones, so that
the number follows from what was written when.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from harness.model.configuration import ClientSettings, TopicSettings

REFERENCE: Final = "Kafka documentation"


class Effect(StrEnum):
    """What becomes of records, the worst first."""

    LOST = "lost"
    SKIPPED = "skipped"  # by an application that never saw them, though they are there
    UNAVAILABLE = "unavailable"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    SHOWN = "aborted records shown"
    UNTOLD = "outcome not told"
    DELETED = "deleted as configured"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a cluster or a client; `name` is how it is asked for."""

    name: str
    happens: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """effects: the worst first. which: the records, or for how long. mend: settings that would keep them."""

    event: Event
    effects: tuple[Effect, ...]
    which: str
    why: str
    source: str
    mend: tuple[str, ...] = ()

    @property
    def severity(self) -> int:
        """The higher, the worse."""
        return len(Effect) - min(list(Effect).index(effect) for effect in self.effects)


Rule = Callable[[Event, TopicSettings, ClientSettings], Promise | None]
_MIN_ISR: Final = "min.insync.replicas=2"
_ALL: Final = "acks=all"
_THREE: Final = "a replication factor of 3"
_CLEAN: Final = "unclean.leader.election.enable=false"


def promises(topic: TopicSettings, client: ClientSettings) -> list[Promise]:
    """What is promised at each event that concerns this configuration, the worst first."""
    found = (rule(event, topic, client) for event, rule in _RULES)
    return sorted((promise for promise in found if promise), key=lambda promise: -promise.severity)


def _kept(event: Event, why: str, source: str, which: str = "every acknowledged record") -> Promise:
    return Promise(event=event, effects=(Effect.KEPT,), which=which, why=why, source=source)


def _lost(event: Event, which: str, why: str, source: str, *mend: str) -> Promise:
    return Promise(event=event, effects=(Effect.LOST,), which=which, why=why, source=source, mend=mend)


def _away(event: Event, which: str, why: str, source: str, *mend: str) -> Promise:
    return Promise(event=event, effects=(Effect.UNAVAILABLE,), which=which, why=why, source=source, mend=mend)


def _nothing_breaks(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if client.acks == "all" and topic.min_isr > topic.replicas:
        return _away(
            event,
            "no record with acks=all is ever accepted",
            f"min.insync.replicas={topic.min_isr} is more than the {topic.replicas} replicas there are",
            f"{REFERENCE}, min.insync.replicas",
            f"min.insync.replicas={max(1, topic.replicas - 1)}",
        )
    return None


def _without_acks_all(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """What a leader that goes takes with it where nobody waits for followers."""
    source, mend = f"{REFERENCE}, acks", _missing(topic, client)
    if client.acks == "0":
        which = "what was sent and had not reached the next leader; nobody counts it"
        return _lost(event, which, "acks=0 does not wait for any broker", source, *mend)
    if client.acks == "1" and topic.replicas > 1:
        which = "acknowledged records at or above the log end of the next leader"
        return _lost(event, which, "acks=1 answers before any follower has the record", source, *mend)
    return None


def _missing(topic: TopicSettings, client: ClientSettings) -> list[str]:
    """Of what together lets a record outlive the broker that acknowledged it."""
    # Two replicas that both have to be in sync take no record while one is down.
    alone = topic.replicas == 1 or (topic.replicas == 2 and topic.min_isr == 1)
    wanted = ((_THREE, alone), (_ALL, client.acks != "all"), (_MIN_ISR, topic.min_isr == 1))
    return [setting for setting, lacks in wanted if lacks]


def _leader_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if promise := _without_acks_all(event, topic, client):
        return promise
    if topic.replicas == 1:
        which = "reads and writes until it is back; what it had written to its files is there then"
        why, mend = "there is no other replica to lead", _missing(topic, client)
        return _away(event, which, why, f"{REFERENCE}, replication", *mend)
    return _kept(event, "every replica in sync has what acks=all acknowledged", f"{REFERENCE}, acks; KIP-101")


def _leader_moves(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if topic.replicas == 1:
        return None
    if promise := _without_acks_all(event, topic, client):
        return promise
    return _kept(event, "the next leader is in sync and has what acks=all acknowledged", "KIP-101")


def _replica_down(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if topic.replicas == 1 or client.acks != "all" or topic.min_isr > topic.replicas:
        return None
    source = f"{REFERENCE}, min.insync.replicas"
    if topic.min_isr == topic.replicas:
        which = "writes with acks=all until it is back and has caught up; reads go on"
        why = f"fewer are in sync than min.insync.replicas={topic.min_isr}"
        fewer = f"min.insync.replicas={topic.min_isr - 1}"
        return _away(event, which, why, source, _THREE if topic.replicas == 2 else fewer)
    why = f"as many are in sync as min.insync.replicas={topic.min_isr} asks for"
    return _kept(event, why, source, "every acknowledged record; writes go on once it has left the ISR")


def _last_in_sync_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del client
    if topic.replicas == 1:
        return None
    if topic.unclean:
        which = "acknowledged records at or above the log end of the replica that is elected"
        why = "an unclean election makes a replica the leader that was not in sync, and everybody cuts to its log"
        return _lost(event, which, why, "KIP-106; KIP-966", _CLEAN, *_in_sync(topic))
    which = "reads and writes until one of them is back; nothing of what they have is lost"
    return _away(event, which, "nobody who may lack a record is elected", "KIP-106; KIP-966", *_in_sync(topic))


def _in_sync(topic: TopicSettings) -> list[str]:
    return [] if topic.min_isr > 1 else [_MIN_ISR]


def _returns_short(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if client.acks == "0":
        return None
    source, mend = "KIP-966, last replica standing", _missing(topic, client)
    if topic.flushes_each:
        return _kept(event, "flush.messages=1: it has nothing that its disk has not", f"{REFERENCE}, flush.messages")
    if client.acks == "all" and topic.replicas > 1 and topic.min_isr > 1 and topic.elr:
        why = "who left the ISR when it fell below min.insync.replicas is eligible still, has it all, and is elected"
        return _kept(event, why, source)
    which = "acknowledged records above what it had flushed"
    elr = () if topic.elr else ("eligible.leader.replicas.version=1 (from 4.0)",)
    if mend:
        return _lost(event, which, "it may have acknowledged them alone", source, *mend, *elr)
    why = "as the last one in the ISR it leads again, and the others cut their logs to its own"
    return _lost(event, which, why, source, *elr)


def _power_of_one(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if topic.replicas == 1:
        if topic.flushes_each and client.acks != "0":
            return _kept(event, "flush.messages=1: it is on its disk", f"{REFERENCE}, flush.messages")
        mend = _missing(topic, client)
        return _lost(event, _unflushed(topic), "nobody else has it", f"{REFERENCE}, flush.messages", *mend)
    if promise := _without_acks_all(event, topic, client):
        return promise
    return _kept(event, "the others in sync have it, and kept their power", f"{REFERENCE}, replication")


def _power_of_all(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if client.acks == "0" or topic.flushes_each:
        kept = _kept(event, "flush.messages=1: each has it on its disk", f"{REFERENCE}, flush.messages")
        return _without_acks_all(event, topic, client) or kept
    why = "an acknowledged record is in the memory of each machine, and on its disk when the system writes it there"
    mend = ("replicas on power supplies of their own", "flush.messages=1")
    return _lost(event, _unflushed(topic), why, f"{REFERENCE}, flush.messages", *mend)


def _unflushed(topic: TopicSettings) -> str:
    if topic.flush_ms > 0:
        return f"acknowledged records of the last {topic.flush_ms} ms"
    if topic.flush_messages > 1:
        return f"at most {topic.flush_messages} acknowledged records of each partition"
    return "acknowledged records that the operating system had not written to a disk"


def _disk_of_one(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if topic.replicas == 1:
        why, mend = "nobody else has it", _missing(topic, client)
        return _lost(event, "all of the partition", why, f"{REFERENCE}, replication", *mend)
    if promise := _without_acks_all(event, topic, client):
        return promise
    return _kept(event, "the others in sync have it; it fetches all of it anew", f"{REFERENCE}, replication")


def _answer_lost(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if client.acks == "0":
        return None
    if client.idempotent:
        return _kept(
            event, "the broker knows the sequence of what is sent again", "KIP-98", "each record once, in order"
        )
    if client.retries == 0:
        which = "the records of that request may be there or not"
        why, mend = "what is not sent again is reported as failed, whatever the broker did", "enable.idempotence=true"
        return Promise(
            event=event, effects=(Effect.UNTOLD,), which=which, why=why, source=f"{REFERENCE}, retries", mend=(mend,)
        )
    return Promise(
        event=event,
        effects=(Effect.DUPLICATED, Effect.REORDERED) if client.in_flight > 1 else (Effect.DUPLICATED,),
        which="the records of the requests that are sent again",
        why="without idempotence the broker takes what is sent again for new records",
        source="KIP-98; Kafka documentation, max.in.flight.requests.per.connection",
        mend=("enable.idempotence=true",),
    )


def _answer_lost_leader_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Whoever is elected knows the sequences: replicas learn them from the batches that they fetch."""
    if promise := _without_acks_all(event, topic, client):
        return promise
    if client.idempotent:
        why = "the next leader has the producer's sequences from the batches in its log"
        return _kept(event, why, "KIP-98", "each record once, in order")
    return _answer_lost(event, topic, client)


def _gives_up(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """The producer goes on with what comes next; an idempotent one under a new epoch of its id (KIP-360)."""
    if promise := _without_acks_all(event, topic, client):
        return promise
    again = not client.idempotent and client.retries > 0
    which = "what is given up on may be there or not; every acknowledged record is" + (
        ", and what was sent again before may be there twice" if again else ""
    )
    return Promise(
        event=event,
        effects=(Effect.DUPLICATED, Effect.UNTOLD) if again else (Effect.UNTOLD,),
        which=which,
        why="after delivery.timeout.ms a record is reported as failed, whatever a broker did with it",
        source="KIP-91; KIP-360",
        mend=("delivery.timeout.ms above the longest failover",),
    )


def _expires(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if not client.idempotent or client.transactional:
        return None
    why = "of a producer that it does not know a broker takes whatever sequence comes next"
    return _kept(event, why, "KIP-360; KIP-854", "each record once, in order: all that was sent had been answered")


def _expires_unanswered(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if not client.idempotent or client.transactional:
        return None
    return Promise(
        event=event,
        effects=(Effect.DUPLICATED,),
        which="the records of requests that were written, not answered, and sent again after that time",
        why="the broker has forgotten the sequences by which it would know them",
        source="KIP-854; Kafka documentation, producer.id.expiration.ms",
        mend=("producer.id.expiration.ms above delivery.timeout.ms",),
    )


def _grows_old(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del client
    if not topic.deletes:
        return None
    if (topic.retention_ms, topic.retention_bytes) == (-1, -1):
        return _kept(event, "no limit by age or size", f"{REFERENCE}, retention.ms, retention.bytes")
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


def _written_again(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del client
    if not topic.compacted:
        return _kept(event, "without compaction a key is nothing to a broker", f"{REFERENCE}, cleanup.policy")
    return Promise(
        event=event,
        effects=(Effect.DELETED,),
        which="earlier records of the key; its newest stays, a tombstone for delete.retention.ms",
        why="cleanup.policy=compact keeps the newest record of each key",
        source=f"{REFERENCE}, log compaction",
    )


def _reader_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise:
    del topic
    source = f"{REFERENCE}, delivery semantics"
    if client.commits == "transaction":
        if client.isolation == "read_committed":
            why = "offsets are committed in the transaction of what was written from them, or not at all"
            return _kept(event, why, "KIP-98; KIP-447", "each record has its effect once")
        which, why = "what an aborted attempt wrote, beside the attempt that counts", "read_uncommitted hides nothing"
        return Promise(
            event=event, effects=(Effect.SHOWN,), which=which, why=why, source="KIP-98", mend=("read_committed",)
        )
    if client.commits == "before":
        which, why = "what was committed and not processed", "it was committed before it was processed: at most once"
        return Promise(
            event=event,
            effects=(Effect.SKIPPED,),
            which=which,
            why=why,
            source=source,
            mend=("commit after processing",),
        )
    effects: tuple[Effect, ...] = (Effect.DUPLICATED,)
    which, why = "what was processed and not committed is delivered again", "at least once"
    if client.commits == "auto":
        effects = (Effect.SKIPPED, Effect.DUPLICATED)
        which = "what the last polls gave: delivered again, or skipped where it is processed after the next poll"
        why = "enable.auto.commit commits in poll() what earlier polls gave, processed or not"
    mend = "offsets in the transaction of what is written"
    return Promise(event=event, effects=effects, which=which, why=why, source=source, mend=(mend,))


def _aborts(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if not client.transactional:
        return None
    if client.isolation == "read_uncommitted":
        which, why = "records of the aborted transaction", "read_uncommitted gives records before they are decided"
        return Promise(
            event=event, effects=(Effect.SHOWN,), which=which, why=why, source="KIP-98", mend=("read_committed",)
        )
    return _kept(event, "read_committed gives decided records only", "KIP-98", "none of it is shown")


_RULES: Final[tuple[tuple[Event, Rule], ...]] = (
    (Event("nothing_breaks", "everything is up"), _nothing_breaks),
    (Event("leader_dies", "the leader's process dies, the others are in sync"), _leader_dies),
    (Event("leader_moves", "the leader moves as planned, followers are slow"), _leader_moves),
    (Event("replica_down", "one replica is down"), _replica_down),
    (Event("last_in_sync_dies", "all replicas in sync are down, another one is up"), _last_in_sync_dies),
    (Event("returns_short", "the last replica in sync returns without what it had not flushed"), _returns_short),
    (Event("power_of_one", "the leader's machine loses its power, the others are in sync"), _power_of_one),
    (Event("power_of_all", "all machines lose their power at once"), _power_of_all),
    (Event("disk_of_one", "the leader's disk is lost, the others are in sync"), _disk_of_one),
    (Event("answer_lost", "the answer to a request of the producer is lost"), _answer_lost),
    (
        Event("answer_lost_leader_dies", "an answer is lost, and the leader dies before its request is sent again"),
        _answer_lost_leader_dies,
    ),
    (Event("gives_up", "a failover lasts longer than the producer waits (delivery.timeout.ms)"), _gives_up),
    (Event("producer_expires", "an idempotent producer pauses longer than producer.id.expiration.ms"), _expires),
    (
        Event(
            "producer_expires_unanswered",
            "answers to an idempotent producer are lost for longer than producer.id.expiration.ms",
        ),
        _expires_unanswered,
    ),
    (Event("transaction_aborts", "a transaction aborts"), _aborts),
    (Event("reader_dies", "a consumer dies between two commits"), _reader_dies),
    (Event("grows_old", "records grow old, or the log grows long"), _grows_old),
    (Event("written_again", "a key is written again"), _written_again),
)
EVENTS: Final = tuple(event for event, _ in _RULES)
