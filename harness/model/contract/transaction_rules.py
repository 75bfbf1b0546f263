"""Promises about the end of a transaction. Its marker is a record in each partition, under that topic's settings."""

from __future__ import annotations

from harness.model.contract.broker_rules import CLEAN, eligible
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import REFERENCE, Effect, Event, Promise, away, kept, lost


def end_alone_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """The coordinator regards a marker as written once the ISR has it (acks=all), and completes the transaction.

    If a replica without the marker is elected then, the transaction stays open there.
    """
    if not client.transactional or topic.replicas == 1:
        return None
    if topic.needed > 1 and (topic.unclean or topic.remembers):
        why = (
            "a leader below min.insync.replicas acknowledges no marker, so the coordinator writes it to the next "
            "leader again"
        )
        return kept(event, why, "KIP-98; KIP-966", "every record of a committed transaction")
    if topic.unclean:
        which = (
            "records of the transaction: readers with read_committed stop before the first of them, and receive "
            "nothing "
            "that was written since, until an operator aborts the transaction there (kafka-transactions.sh abort)"
        )
        why = "its marker is lost with the only leader that had it, and the coordinator has completed the transaction"
        return lost(event, which, why, "KIP-98; KIP-664; KAFKA-20716", CLEAN, *eligible(topic))
    which = "reads and writes until the leader is back; the transaction then has the outcome that its client received"
    return away(
        event, which, "a replica that may lack the marker is not elected", "KIP-98; KIP-106; KIP-966", *eligible(topic)
    )


def times_out(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """An acknowledgement within a transaction says that the record is stored, not that it will be committed. Until
    KIP-939 no client keeps a transaction open for longer than its timeout."""
    del topic
    if not client.transactional:
        return None
    source = f"KIP-98; KIP-939; {REFERENCE}, transaction.timeout.ms"
    if client.long_transaction_timeout:
        why = "the coordinator aborts a transaction only after its transaction.timeout.ms"
        return kept(event, why, source, "every record of the transaction, which commits")
    which = "the records of that transaction, also those that were flushed: the application must send them again"
    return Promise(
        event=event,
        effects=(Effect.ABORTED, *((Effect.SHOWN,) if client.isolation == "read_uncommitted" else ())),
        which=which,
        why="the coordinator aborts the transaction and fences its producer, so the commit is refused",
        source=source,
        fix=("transaction.timeout.ms above the longest transaction",),
    )
