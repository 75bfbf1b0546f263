"""What is promised when something happens to who writes or reads: rules, each with its reason and its source."""

from __future__ import annotations

from typing import Final

from harness.model.contract.broker_rules import without_acks_all
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import REFERENCE, Effect, Event, Promise, both, kept
from harness.model.contract.request_rules import idempotence
from harness.model.scenario.scenario import RETRIES_MAX

_ATOMIC: Final = "offsets in the transaction of what is written"


def answer_lost(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if client.acks == "0":
        return None
    if client.idempotent:
        return kept(
            event, "the broker knows the sequence of what is sent again", "KIP-98", "each record once, in order"
        )
    if client.retries == 0:
        which = "the records of that request may be there or not"
        why, mend = "what is not sent again is reported as failed, whatever the broker did", tuple(idempotence(client))
        return Promise(
            event=event, effects=(Effect.UNTOLD,), which=which, why=why, source=f"{REFERENCE}, retries", mend=mend
        )
    return Promise(
        event=event,
        effects=(Effect.DUPLICATED, Effect.REORDERED) if client.in_flight > 1 else (Effect.DUPLICATED,),
        which="the records of the requests that are sent again",
        why="without idempotence the broker takes what is sent again for new records",
        source="KIP-98; Kafka documentation, max.in.flight.requests.per.connection",
        mend=tuple(idempotence(client)),
    )


def answer_lost_leader_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Whoever is elected knows the sequences: replicas learn them from the batches that they fetch."""
    if client.idempotent:
        why = "whoever leads next has the producer's sequences from the batches in its log"
        return kept(event, why, "KIP-98", "each record once, in order")
    gone, reported = without_acks_all(event, topic, client), answer_lost(event, topic, client)
    return both(gone, reported) if reported else gone


def gives_up(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """The producer goes on with what comes next; an idempotent one under a new epoch of its id (KIP-360). With acks=0
    it waits for nobody. A transaction in which a send has failed does not commit."""
    if client.transactional:
        why = "after a send that failed commitTransaction fails, too, and all that is left is to abort"
        return _aborted(event, client, why, "KIP-98; KIP-91", "every record of a committed transaction; none of others")
    gone = without_acks_all(event, topic, client)
    if client.acks == "0":
        return gone
    again = not client.idempotent and client.retries > 0
    moved = (Effect.REORDERED,) if client.in_flight > 1 else ()
    limited = client.retries < RETRIES_MAX
    if client.patient and not limited:
        return _waited_for(event, client, gone, moved)
    after = f"delivery.timeout.ms, or after {_sent_again(client.retries)}," if limited else "delivery.timeout.ms"
    which, why = "what is given up on may be there or not", f"after {after} a record is reported as failed"
    mend = ["delivery.timeout.ms above the longest failover"]
    if client.retries == 0:
        why = "with retries=0 the first error is the last, and a record is reported as failed"
    if limited:
        mend.insert(0, f"retries={RETRIES_MAX}")
    if not client.idempotent:
        mend = [*idempotence(client), *mend]
    if again:
        which += ", and what was sent again before may be there twice"
    return both(
        gone,
        Promise(
            event=event,
            effects=(Effect.DUPLICATED, *moved, Effect.UNTOLD) if again else (Effect.UNTOLD,),
            which=which if gone else f"{which}; every acknowledged record is",
            why=f"{why}, whatever a broker did with it",
            source=f"KIP-91; KIP-360{f'; {REFERENCE}, retries' if limited else ''}",
            mend=tuple(dict.fromkeys(mend)),
        ),
    )


def _waited_for(event: Event, client: ClientSettings, gone: Promise | None, moved: tuple[Effect, ...]) -> Promise:
    """What is sent until an answer comes: once where the producer is idempotent."""
    why = "it waits for longer than a failover lasts, and sends again what was not answered"
    if client.idempotent:
        return kept(event, why, "KIP-91; KIP-98", "each record once, in order")
    which = "what was sent again may be there twice"
    effects = (Effect.DUPLICATED, *moved)
    again = Promise(
        event=event, effects=effects, which=which, why=why, source="KIP-91; KIP-98", mend=tuple(idempotence(client))
    )
    return both(gone, again)


def _sent_again(times: int) -> str:
    return f"{times} retries" if times > 1 else "1 retry"


def expires(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if not client.idempotent or client.transactional:
        return None
    why = "of a producer that it does not know a broker takes whatever sequence comes next"
    return kept(event, why, "KIP-360; KIP-854", "each record once, in order: all that was sent had been answered")


def expires_unanswered(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if not client.idempotent or client.transactional:
        return None
    if client.remembered:
        why = "the producer gives a request up before the broker forgets the sequences by which it would know it"
        return kept(event, why, "KIP-91; KIP-854", "each acknowledged record once, in order")
    return Promise(
        event=event,
        effects=(Effect.DUPLICATED,),
        which="the records of requests that were written, not answered, and sent again after that time: never where "
        "delivery.timeout.ms is below it, as by default (2 minutes, and a day)",
        why="the broker has forgotten the sequences by which it would know them",
        source="KIP-854; Kafka documentation, producer.id.expiration.ms",
        mend=("producer.id.expiration.ms above delivery.timeout.ms",),
    )


def transactional_id_expires(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """What it has committed is in the log for good; the coordinator knows of the id alone what comes next."""
    del topic
    if not client.transactional:
        return None
    source = f"KIP-98; {REFERENCE}, transactional.id.expiration.ms"
    if client.id_outlives:
        why = "its coordinator keeps id and epoch for transactional.id.expiration.ms after its last transaction"
        return kept(event, why, source, "every record of its next transaction, which commits")
    return Promise(
        event=event,
        effects=(Effect.UNTOLD,),
        which="the records of its next transaction, which fails; it has to begin anew, and what it committed stays",
        why="no coordinator knows its id and epoch any more (INVALID_PRODUCER_ID_MAPPING)",
        source=source,
        mend=("transactional.id.expiration.ms above the longest pause",),
    )


def reader_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise:
    del topic
    source = f"{REFERENCE}, delivery semantics"
    if client.commits == "transaction":
        if client.isolation == "read_committed":
            why = "offsets are committed in the transaction of what was written from them, or not at all"
            return kept(event, why, "KIP-98; KIP-447", "each record has its effect once")
        which, why = "what an aborted attempt wrote, beside the attempt that counts", "read_uncommitted hides nothing"
        return Promise(
            event=event, effects=(Effect.SHOWN,), which=which, why=why, source="KIP-98", mend=("read_committed",)
        )
    if client.commits == "share":
        return Promise(
            event=event,
            effects=(Effect.DUPLICATED,),
            which="what its member was given and had not acknowledged is given again, to whoever is there",
            why="its locks end with its connection, or after share.record.lock.duration.ms: at least once",
            source="KIP-932",
            mend=("a consumer group", _ATOMIC),
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
    which, why, mend = "what was processed and not committed is delivered again", "at least once", [_ATOMIC]
    if client.commits == "auto":
        which = "what was processed since the last commit, auto.commit.interval.ms ago at most, is delivered again"
        why = "enable.auto.commit commits in poll() what earlier polls gave: at least once"
    if client.commits == "auto_ahead":
        effects, mend = (Effect.SKIPPED, Effect.DUPLICATED), ["commit after processing", _ATOMIC]
        which = "what earlier polls gave and was not processed is skipped; what was and is not committed comes again"
        why = "enable.auto.commit commits in poll() what earlier polls gave, processed or not"
    return Promise(event=event, effects=effects, which=which, why=why, source=source, mend=tuple(mend))


def reader_fails(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Of who commits offsets it depends on the application, which stops there or passes it over."""
    del topic
    if client.commits != "share":
        return None
    return Promise(
        event=event,
        effects=(Effect.ARCHIVED, Effect.DUPLICATED),
        which="that record, given as often as share.delivery.count.limit says; the others are not held up by it",
        why="who releases it has it given again, and at the limit the group gives it up",
        source="KIP-932; KIP-1240",
        mend=("share.delivery.count.limit above the longest failure", "a reader in no share group"),
    )


def end_comes_late(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """An end that is sent again because nobody answered it, and arrives twice."""
    del topic
    if not client.transactional:
        return None
    if client.transaction_version > 1:
        why = "each transaction has an epoch of its own, and what comes of an older one is refused"
        return kept(event, why, "KIP-890", "each transaction as its client was told")
    return Promise(
        event=event,
        effects=(Effect.LOST, Effect.SHOWN),
        which="what the next transaction had written by then: an old abort drops it, though it commits; an old commit "
        "keeps it, though it aborts",
        why="its transactions share one epoch, so that a broker cannot tell which of them is to end",
        source="KIP-890",
        mend=("transaction.version=2 (from 4.0), and a client that speaks it",),
    )


def id_taken(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Of two that live with one id the later one works, and the earlier one is a zombie."""
    if not client.transactional:
        return None
    why = "who comes later gets a newer epoch: what the earlier one has open is aborted, and it is fenced"
    fenced = kept(
        event, why, f"KIP-98, fencing; {REFERENCE}, transactional.id", "each transaction as its client was told"
    )
    shown = aborts(event, topic, client) if client.isolation == "read_uncommitted" else None
    return shown or fenced


def aborts(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del topic
    if not client.transactional:
        return None
    return _aborted(event, client, "read_committed gives decided records only", "KIP-98", "none of it is shown")


def _aborted(event: Event, client: ClientSettings, why: str, source: str, which: str) -> Promise:
    """What is seen of a transaction that aborts. why, source, which: where it is read as read_committed."""
    if client.isolation == "read_committed":
        return kept(event, why, source, which)
    which, why = "records of the aborted transaction", "read_uncommitted gives records before they are decided"
    return Promise(
        event=event, effects=(Effect.SHOWN,), which=which, why=why, source="KIP-98", mend=("read_committed",)
    )
