"""Configurations in words, for `durability contract`: what each may lose when, why, and which setting mends it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, replace
from typing import Any, Final

from harness.commands import contract_live as of_cluster
from harness.commands.text import as_plain, consumer, effects, producer, reasons
from harness.kafka.admin.client_config import client_config
from harness.kafka.admin.live_client import OrdinaryClient
from harness.kafka.admin.live_topics import live_cluster
from harness.model.contract.configuration import AS_RETENTION, IN_FLIGHT_MAX, ClientSettings, TopicSettings
from harness.model.contract.effects import Promise
from harness.model.contract.flushing import NEVER
from harness.model.contract.promises import promises
from harness.model.errors import BadInput
from harness.model.scenario.scenario import RETRIES_MAX

_CLIENT: Final = frozenset(field.name for field in fields(ClientSettings))
# Settings of a topic that have an option of their name; what the others are made of.
_MADE: Final = frozenset({"deletes", "compacted", "compaction_lag_ms", "append_time", "keeps_offsets", "keeps_tier"})
_SAME: Final = frozenset(field.name for field in fields(TopicSettings)) - _MADE
_MAKE: Final = frozenset({"cleanup_policy", "compacted", "min_compaction_lag_ms", "timestamp_type"})
_OF_TRANSACTIONS: Final = frozenset({"transaction_version", "id_outlives", "isolation"})
_OF_GROUPS: Final = frozenset({"reset", "stays"})
_OF_DELETION: Final = frozenset({"retention_ms", "retention_bytes"})
_OF_TIERS: Final = frozenset({"local_retention_ms", "local_retention_bytes"})
_OF_COMPACTION: Final = frozenset({"delete_retention_ms", "min_compaction_lag_ms"})
_ELR_OFF: Final = "with ELR, which is on by default in clusters formatted by 4.1 or later (--elr)"
_ELR_ON: Final = "without ELR, as in clusters formatted before 4.1 that did not turn it on"


def answer(given: Mapping[str, Any], said: Set[str], *, as_json: bool) -> list[str]:
    """What the command's options ask for, by their names. `said`: those that were not left to their defaults."""
    client = _client(given, said)
    bootstrap, config_file = given["bootstrap"], given["command_config"]
    if bootstrap is None:
        if foreign := sorted(said & {"topic", "command_config"}):
            raise BadInput(f"{_options(foreign)}: which cluster? say --bootstrap HOST:PORT")
        topic = _topic(given, said)
        return [json.dumps(as_plain(topic, client), indent=1)] if as_json else explained(topic, client)
    if foreign := sorted(said & (_SAME | _MAKE)):
        raise BadInput(f"{_options(foreign)}: with --bootstrap the cluster tells; leave it out")
    teller = OrdinaryClient(bootstrap, {} if config_file is None else client_config(config_file))
    cluster = live_cluster(bootstrap, teller, given["topic"])
    if "transaction_version" not in said:
        client = of_cluster.as_finalized(client, cluster)
    if as_json:
        return [json.dumps(of_cluster.cluster_as_plain(cluster, client), indent=1)]
    return of_cluster.live_explained(bootstrap, cluster, client)


def _client(given: Mapping[str, Any], said: Set[str]) -> ClientSettings:
    idempotent = given["idempotent"]
    if idempotent is None:
        idempotent = _left_idempotent(given)
    _refuse_idle(said & _OF_TRANSACTIONS, given["transactional"], "say --transactional, too")
    remembers = idempotent and not given["transactional"]
    _refuse_idle(said & {"remembered"}, remembers, "say --idempotent, without --transactional")
    again = given["acks"] != "0" and given["retries"] == RETRIES_MAX and not given["transactional"]
    _refuse_idle(said & {"patient"}, again, "say --acks 1 or all, without --retries and --transactional")
    _refuse_idle(said & _OF_GROUPS, given["commits"] != "share", "say --commits of a group that is no share group")
    return ClientSettings(**{**{name: given[name] for name in _CLIENT}, "idempotent": idempotent})


def _left_idempotent(given: Mapping[str, Any]) -> bool:
    """What a producer is that says nothing of enable.idempotence (KIP-679): acks and retries that exclude it turn it
    off; more requests in flight than it takes do not any more (from 4.0), and a transactional.id does not let them."""
    excluded = given["acks"] != "all" or given["retries"] == 0
    return not excluded or given["in_flight"] > IN_FLIGHT_MAX or given["transactional"]


def _topic(given: Mapping[str, Any], said: Set[str]) -> TopicSettings:
    if {"compacted", "cleanup_policy"} <= said:
        raise BadInput("--compacted is --cleanup-policy compact: say one of them")
    policy = "compact" if given["compacted"] else given["cleanup_policy"]
    _refuse_idle(said & _OF_DELETION, "delete" in policy, "say --cleanup-policy compact,delete, too")
    _refuse_idle(said & _OF_COMPACTION, "compact" in policy, "say --cleanup-policy compact, too")
    _refuse_idle(said & _OF_TIERS, given["tiered"], "say --tiered, too")
    lags = "compact" in policy and given["min_compaction_lag_ms"] > 0
    _refuse_idle(said & {"within_lag"}, lags, "say --cleanup-policy compact and --min-compaction-lag-ms, too")
    _refuse_idle(said & {"flush_scheduler_ms"}, given["flush_ms"] != NEVER, "leave out --flush-ms -1")
    if given["tiered"]:
        _refuse_tier(given, policy)
    # Kafka's own default of log.flush.interval.ms.
    flush_ms = given["flush_scheduler_ms"] if given["flush_ms"] is None else given["flush_ms"]
    return TopicSettings(
        **{**{name: given[name] for name in _SAME}, "flush_ms": flush_ms},
        deletes="delete" in policy,
        compacted="compact" in policy,
        compaction_lag_ms=given["min_compaction_lag_ms"],
        append_time=given["timestamp_type"] == "LogAppendTime",
    )


def _refuse_tier(given: Mapping[str, Any], policy: str) -> None:
    """Settings with which no broker takes a topic into the remote tier."""
    if "compact" in policy:
        raise BadInput("Kafka keeps no compacted topic in the remote tier (KIP-405, KAFKA-19273): leave out --tiered")
    for unit in ("ms", "bytes"):
        whole, local = given[f"retention_{unit}"], given[f"local_retention_{unit}"]
        if whole != NEVER and (local == NEVER or local > whole):
            raise BadInput(
                f"brokers keep no more themselves than there is: local.retention.{unit} is at most "
                f"retention.{unit}={whole}, or {AS_RETENTION}, and not {local}"
            )


def _refuse_idle(said: Set[str], effective: bool, instead: str) -> None:
    """Options that would change nothing."""
    if said and not effective:
        raise BadInput(f"{_options(sorted(said))}: it changes nothing here; {instead}")


def _options(names: Sequence[str]) -> str:
    return ", ".join("--rf" if name == "replicas" else f"--{name.replace('_', '-')}" for name in names)


def explained(topic: TopicSettings, client: ClientSettings) -> list[str]:
    """Lines about one configuration, the worst that can happen first."""
    lines = [f"{topic}; a producer with {producer(client)}; a consumer that {consumer(client)}"]
    turned = {p.event: p for p in promises(replace(topic, elr=not topic.elr), client)}
    for promise in promises(topic, client):
        lines += ["", f"{effects(promise)}: {promise.event.happens}", *reasons(promise)]
        lines += _otherwise(promise, turned.get(promise.event), topic)
    return lines


def _otherwise(promise: Promise, turned: Promise | None, topic: TopicSettings) -> list[str]:
    """Where eligible leader replicas decide."""
    if turned is None or turned.effects == promise.effects:
        return []
    return [f"  {_ELR_ON if topic.elr else _ELR_OFF}: {effects(turned)}"]
