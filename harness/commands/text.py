"""Promises and settings as text and as plain JSON types, for a described topic and for the topics of a cluster."""

from __future__ import annotations

from dataclasses import asdict

from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import Promise
from harness.model.contract.promises import promises
from harness.model.scenario.scenario import RETRIES_MAX


def as_plain(topic: TopicSettings, client: ClientSettings) -> list[dict[str, object]]:
    """The promises of a configuration as plain JSON types."""
    return [asdict(promise) for promise in promises(topic, client)]


def producer(client: ClientSettings) -> str:
    """The settings of the producer, as asked for."""
    words = [str(client)]
    words += [f"retries={client.retries}"] if 0 < client.retries < RETRIES_MAX else []
    if client.transactional:
        words.append(f"transaction.version {client.transaction_version}")
        words += ["a transactional.id that outlives its pauses"] if client.long_transactional_id_expiration else []
        words += ["transaction.timeout.ms above its longest transaction"] if client.long_transaction_timeout else []
    words += ["delivery.timeout.ms above the longest failover"] if client.long_delivery_timeout else []
    words += ["producer.id.expiration.ms above delivery.timeout.ms"] if client.long_producer_id_expiration else []
    return ", ".join(words)


def consumer(client: ClientSettings) -> str:
    """The settings of the consumer, as asked for."""
    stays = "its group always has a member" if client.group_never_empty else "its group is empty at times"
    within = ", reads within min.compaction.lag.ms" if client.reads_within_compaction_lag else ""
    return f"{client.consumer}, auto.offset.reset={client.reset}, {stays}{within}"


def effects(promise: Promise) -> str:
    return " and ".join(effect.value for effect in promise.effects)


def reasons(promise: Promise, indent: str = "  ") -> list[str]:
    return [
        f"{indent}{promise.which}",
        f"{indent}because: {promise.why} ({promise.source})",
        *fixes(promise, indent),
    ]


def fixes(promise: Promise, indent: str) -> list[str]:
    return [f"{indent}how to fix: {', '.join(promise.fix)}"] if promise.fix else []
