"""Promises and settings as lines of text, and as plain JSON types: what is told alike of one topic and of a cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import Promise
from harness.model.contract.promises import promises
from harness.model.scenario.scenario import RETRIES_MAX


def as_plain(topic: TopicSettings, client: ClientSettings) -> list[dict[str, Any]]:
    """What is promised, as plain JSON types."""
    return [asdict(promise) for promise in promises(topic, client)]


def producer(client: ClientSettings) -> str:
    """All that was asked of who writes."""
    words = [str(client)]
    words += [f"retries={client.retries}"] if 0 < client.retries < RETRIES_MAX else []
    if client.transactional:
        words.append(f"transaction.version {client.transaction_version}")
        words += ["an id that outlives its pauses"] if client.id_outlives else []
    words += ["patient for longer than any failover lasts"] if client.patient else []
    words += ["remembered for longer than it waits"] if client.remembered else []
    return ", ".join(words)


def consumer(client: ClientSettings) -> str:
    """All that was asked of who reads."""
    stays = "with a group that somebody is always in" if client.stays else "with a group that is left at times"
    within = ", within min.compaction.lag.ms" if client.within_lag else ""
    return f"{client.consumer}, auto.offset.reset={client.reset}, {stays}{within}"


def effects(promise: Promise) -> str:
    return " and ".join(effect.value for effect in promise.effects)


def reasons(promise: Promise, indent: str = "  ") -> list[str]:
    return [
        f"{indent}{promise.which}",
        f"{indent}because: {promise.why} ({promise.source})",
        *mended(promise, indent),
    ]


def mended(promise: Promise, indent: str) -> list[str]:
    return [f"{indent}mend by: {', '.join(promise.fix)}"] if promise.fix else []
