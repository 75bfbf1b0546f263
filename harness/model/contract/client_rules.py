"""Promises when something happens to producers or readers: rules with reason and source."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.model.contract.broker_rules import ALL, without_acks_all
from harness.model.contract.configuration import IN_FLIGHT_MAX, ClientSettings, TopicSettings
from harness.model.contract.effects import REFERENCE, Effect, Event, Promise, both, kept
from harness.model.scenario.scenario import RETRIES_MAX

_ATOMIC: Final = "offsets committed in the transaction of the output"


def idempotence(client: ClientSettings) -> list[str]:
    """The settings that make a producer idempotent, with those that exclude it today: it would refuse to start."""
    excluding = (
        (ALL, client.acks != "all"),
        (f"retries={RETRIES_MAX}", client.retries == 0),
        (f"max.in.flight.requests.per.connection={IN_FLIGHT_MAX}", client.in_flight > IN_FLIGHT_MAX),
    )
    return ["enable.idempotence=true", *(setting for setting, is_so in excluding if is_so)]


def answer_lost(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if client.acks == "0":
        return None
    if client.idempotent:
        return kept(event, "the broker recognizes the sequence of a retry", "KIP-98", "each record once, in order")
    if client.retries == 0:
        which = "the records of that request: they may be in the log or not"
        why, fix = (
            "with retries=0 the request is reported as failed, whatever the broker did",
            tuple(idempotence(client)),
        )
        return Promise(
            event=event, effects=(Effect.UNKNOWN,), which=which, why=why, source=f"{REFERENCE}, retries", fix=fix
        )
    return Promise(
        event=event,
        effects=(Effect.DUPLICATED, Effect.REORDERED) if client.in_flight > 1 else (Effect.DUPLICATED,),
        which="the records of the requests that are retried",
        why="without idempotence the broker appends a retry as new records",
        source="KIP-98; Kafka documentation, max.in.flight.requests.per.connection",
        fix=tuple(idempotence(client)),
    )


def answer_lost_leader_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A new leader knows the sequences: replicas learn them from the batches that they fetch."""
    if client.idempotent:
        why = "a new or restarted leader knows the producer's sequences from the batches in its log"
        return kept(event, why, "KIP-98", "each record once, in order")
    gone, reported = without_acks_all(event, topic, client), answer_lost(event, topic, client)
    return both(gone, reported) if reported else gone


def request_fails(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A broker may refuse one request and append the next one, which was sent before the refusal arrived."""
    del topic
    if client.acks == "0":  # it gets no answers
        return None
    source = f"{REFERENCE}, max.in.flight.requests.per.connection"
    if client.idempotent:
        why = "a broker appends a sequence only after the one before it, and the producer retries all of them in order"
        return kept(event, why, "KIP-98", "each record once, in order")
    if client.retries == 0:
        return Promise(
            event=event,
            effects=(Effect.UNKNOWN,),
            which="the records of that request: they are reported as failed, and they are not in the log",
            why="with retries=0 a failed request is reported as failed and not retried",
            source=f"{REFERENCE}, retries",
            fix=tuple(idempotence(client)),
        )
    if client.in_flight == 1:
        return kept(event, "the producer sends a request only after the answer to the one before it", source)
    return Promise(
        event=event,
        effects=(Effect.REORDERED,),
        which="the records of later requests in flight: they are in the log before those of the failed request",
        why="the failed request is retried after later ones were appended",
        source=source,
        fix=(*idempotence(replace(client, in_flight=1)), "max.in.flight.requests.per.connection=1"),
    )


def gives_up(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """The producer continues with the next records; an idempotent one with a new epoch (KIP-360). With acks=0 it does
    not wait. A transaction in which a send has failed cannot commit.
    """
    if client.transactional:
        why = "after a failed send commitTransaction fails too, so the transaction can only abort"
        return _aborted(
            event, client, why, "KIP-98; KIP-91", "every record of a committed transaction, and none of an aborted one"
        )
    gone = without_acks_all(event, topic, client)
    if client.acks == "0":
        return gone
    again = not client.idempotent and client.retries > 0
    moved = (Effect.REORDERED,) if client.in_flight > 1 else ()
    limited = client.retries < RETRIES_MAX
    if client.long_delivery_timeout and not limited:
        return _waited_for(event, client, gone, moved)
    after = f"delivery.timeout.ms, or after {_sent_again(client.retries)}," if limited else "delivery.timeout.ms"
    which, why = (
        "records that the producer gives up may be in the log or not",
        f"after {after} a record is reported as failed",
    )
    fix = ["delivery.timeout.ms above the longest failover"]
    if client.retries == 0:
        why = "with retries=0 the first error is final, and the record is reported as failed"
    if limited:
        fix.insert(0, f"retries={RETRIES_MAX}")
    if not client.idempotent:
        fix = [*idempotence(client), *fix]
    if again:
        which += ", and those that it retried before may be there twice"
    return both(
        gone,
        Promise(
            event=event,
            effects=(Effect.DUPLICATED, *moved, Effect.UNKNOWN) if again else (Effect.UNKNOWN,),
            which=which if gone else f"{which}; every acknowledged record is in the log",
            why=f"{why}, whatever the broker did with it",
            source=f"KIP-91; KIP-360{f'; {REFERENCE}, retries' if limited else ''}",
            fix=tuple(dict.fromkeys(fix)),
        ),
    )


def _waited_for(event: Event, client: ClientSettings, gone: Promise | None, moved: tuple[Effect, ...]) -> Promise:
    """The promise of a producer that retries until it has an answer."""
    why = "the producer waits longer than a failover lasts, and retries requests without an answer"
    if client.idempotent:
        return kept(event, why, "KIP-91; KIP-98", "each record once, in order")
    which = "records that were retried may be in the log twice"
    effects = (Effect.DUPLICATED, *moved)
    again = Promise(
        event=event, effects=effects, which=which, why=why, source="KIP-91; KIP-98", fix=tuple(idempotence(client))
    )
    return both(gone, again)


def _sent_again(times: int) -> str:
    return f"{times} retries" if times > 1 else "1 retry"


def expires(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if not client.idempotent or client.transactional:
        return None
    why = "a broker accepts any sequence of a producer whose state it no longer has"
    return kept(
        event,
        why,
        "KIP-360; KIP-854",
        "each record once, in order, because every request had been answered before the pause",
    )


def expires_unanswered(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if not client.idempotent or client.transactional:
        return None
    if client.long_producer_id_expiration:
        why = "the producer gives up a request before the broker drops the state by which it recognizes a retry"
        return kept(event, why, "KIP-91; KIP-854", "each acknowledged record once, in order")
    return Promise(
        event=event,
        effects=(Effect.DUPLICATED,),
        which="the records of requests that were appended, not answered, and retried after that time; this needs a "
        "delivery.timeout.ms above producer.id.expiration.ms, and by default they are 2 minutes and 1 day",
        why="the broker has dropped the state by which it recognizes a retry",
        source="KIP-854; Kafka documentation, producer.id.expiration.ms",
        fix=("producer.id.expiration.ms above delivery.timeout.ms",),
    )


def transactional_id_expires(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Committed transactions stay in the log. Without the id the coordinator refuses the next one."""
    del topic
    if not client.transactional:
        return None
    source = f"KIP-98; {REFERENCE}, transactional.id.expiration.ms"
    if client.long_transactional_id_expiration:
        why = "the coordinator keeps id and epoch for transactional.id.expiration.ms after the last transaction"
        return kept(event, why, source, "every record of the next transaction, which commits")
    return Promise(
        event=event,
        effects=(Effect.UNKNOWN,),
        which="the records of the next transaction, which fails; the application must repeat it, and earlier commits "
        "stay",
        why="the coordinator has dropped the id and its epoch (INVALID_PRODUCER_ID_MAPPING)",
        source=source,
        fix=("transactional.id.expiration.ms above the longest pause",),
    )


def reader_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise:
    del topic
    source = f"{REFERENCE}, delivery semantics"
    if client.commits == "transaction":
        if client.isolation == "read_committed":
            why = "the offsets are committed in the transaction of the output, or not at all"
            return kept(event, why, "KIP-98; KIP-447", "each record has its effect once")
        which, why = (
            "output of an aborted attempt, in addition to that of the attempt that committed",
            "read_uncommitted also returns aborted records",
        )
        return Promise(
            event=event, effects=(Effect.SHOWN,), which=which, why=why, source="KIP-98", fix=("read_committed",)
        )
    if client.commits == "share":
        return Promise(
            event=event,
            effects=(Effect.DUPLICATED,),
            which="records that the member had received and not acknowledged: another member receives them again",
            why="the member's locks end with its connection, or after share.record.lock.duration.ms: at least once",
            source="KIP-932",
            fix=("a consumer group", _ATOMIC),
        )
    if client.commits == "before":
        which, why = "records committed and not yet processed", "offsets are committed before processing: at most once"
        return Promise(
            event=event,
            effects=(Effect.SKIPPED,),
            which=which,
            why=why,
            source=source,
            fix=("commit after processing",),
        )
    effects: tuple[Effect, ...] = (Effect.DUPLICATED,)
    which, fix = "records processed and not yet committed: they are delivered again", [_ATOMIC]
    why = "offsets are committed after processing: at least once"
    if client.commits == "auto":
        which = "records processed since the last commit, at most auto.commit.interval.ms ago: they are delivered again"
        why = "with enable.auto.commit, poll() commits the records that earlier polls returned: at least once"
    if client.commits == "auto_ahead":
        effects, fix = (Effect.SKIPPED, Effect.DUPLICATED), ["commit after processing", _ATOMIC]
        which = (
            "records that earlier polls returned and that are not processed are skipped; processed ones that are "
            "not committed are delivered again"
        )
        why = "with enable.auto.commit, poll() commits the records that earlier polls returned, processed or not"
    return Promise(event=event, effects=effects, which=which, why=why, source=source, fix=tuple(fix))


def reader_fails(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """With committed offsets it depends on the application, which stops at the record or skips it."""
    del topic
    if client.commits != "share":
        return None
    return Promise(
        event=event,
        effects=(Effect.ARCHIVED, Effect.DUPLICATED),
        which="the record on which it fails, delivered as often as share.delivery.count.limit allows; other records "
        "are not delayed by it",
        why="a released record is delivered again, and the group archives it at the limit",
        source="KIP-932; KIP-1240",
        fix=(
            "share.delivery.count.limit above the number of deliveries on which the application fails",
            "a reader in no share group",
        ),
    )


def end_comes_late(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """The request that ends a transaction is retried because its answer was lost, and arrives twice."""
    del topic
    if not client.transactional:
        return None
    if client.transaction_version > 1:
        why = "each transaction has an epoch of its own, and brokers refuse an older one"
        return kept(event, why, "KIP-890", "each transaction, with the outcome that its client received")
    return Promise(
        event=event,
        effects=(Effect.LOST, Effect.SHOWN),
        which="records that the next transaction had written by then: an old abort hides them although it commits, "
        "and an "
        "old commit shows them although it aborts",
        why="the producer's transactions share one epoch, so a broker cannot know which of them to end",
        source="KIP-890",
        fix=("transaction.version=2 (from 4.0), and a client that speaks it",),
    )


def id_taken(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Of two running producers with one id the later one works, and the earlier one is fenced."""
    if not client.transactional:
        return None
    why = "the later producer gets a newer epoch; the open transaction of the earlier one is aborted, and it is fenced"
    fenced = kept(
        event,
        why,
        f"KIP-98, fencing; {REFERENCE}, transactional.id",
        "each transaction, with the outcome that its client received",
    )
    shown = aborts(event, topic, client) if client.isolation == "read_uncommitted" else None
    return shown or fenced


def aborts(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if not client.transactional:
        return None
    return _aborted(
        event,
        client,
        "read_committed returns only records of committed transactions",
        "KIP-98",
        "no record of the aborted transaction is returned",
    )


def _aborted(event: Event, client: ClientSettings, why: str, source: str, which: str) -> Promise:
    """The promise about a transaction that aborts. why, source, which: for readers with read_committed."""
    if client.isolation == "read_committed":
        return kept(event, why, source, which)
    which, why = (
        "records of the aborted transaction",
        "read_uncommitted returns records of open and aborted transactions",
    )
    return Promise(event=event, effects=(Effect.SHOWN,), which=which, why=why, source="KIP-98", fix=("read_committed",))
