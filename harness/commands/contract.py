"""The command `contract`: what a configuration may lose at which event, why, and which setting fixes it."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from dataclasses import fields, replace
from typing import Final

from msgspec import convert

from harness.commands import contract_live as of_cluster
from harness.commands.contract_options import Given
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

# Topic settings that are derived from options of other names; all others have an option of their own name.
_MADE: Final = frozenset({"deletes", "compacted", "compaction_lag_ms", "append_time", "keeps_offsets", "keeps_tier"})
_SAME: Final = frozenset(field.name for field in fields(TopicSettings)) - _MADE
_MAKE: Final = frozenset({"cleanup_policy", "compacted", "min_compaction_lag_ms", "timestamp_type"})
_OF_TRANSACTIONS: Final = frozenset(
    {"transaction_version", "long_transactional_id_expiration", "long_transaction_timeout", "isolation"}
)
_OF_GROUPS: Final = frozenset({"reset", "group_never_empty"})
_OF_DELETION: Final = frozenset({"retention_ms", "retention_bytes"})
_OF_TIERS: Final = frozenset({"local_retention_ms", "local_retention_bytes"})
_OF_COMPACTION: Final = frozenset({"delete_retention_ms", "min_compaction_lag_ms"})
_ELR_OFF: Final = "with ELR, the default in clusters formatted by 4.1 or later (--elr)"
_ELR_ON: Final = "without ELR, the default in clusters formatted before 4.1"


def answer(given: Given, said: Set[str], *, as_json: bool) -> list[str]:
    """Returns the lines of the answer. given: options by name. said: the options that the user gave."""
    client = _client(given, said)
    bootstrap, config_file = given["bootstrap"], given["command_config"]
    if bootstrap is None:
        if foreign := sorted(said & {"topic", "command_config"}):
            raise BadInput(f"{_options(foreign)} needs a cluster; add --bootstrap HOST:PORT")
        topic = _topic(given, said)
        return [json.dumps(as_plain(topic, client), indent=1)] if as_json else explained(topic, client)
    if foreign := sorted(said & (_SAME | _MAKE)):
        raise BadInput(f"{_options(foreign)}: with --bootstrap this is read from the cluster; leave the option out")
    teller = OrdinaryClient(bootstrap, {} if config_file is None else client_config(config_file))
    cluster = live_cluster(bootstrap, teller, given["topic"])
    if "transaction_version" not in said:
        client = of_cluster.as_finalized(client, cluster)
    if as_json:
        return [json.dumps(of_cluster.cluster_as_plain(cluster, client), indent=1)]
    return of_cluster.live_explained(bootstrap, cluster, client)


def _client(given: Given, said: Set[str]) -> ClientSettings:
    idempotent = given["idempotent"]
    if idempotent is None:
        idempotent = _left_idempotent(given)
    _refuse_idle(said & _OF_TRANSACTIONS, given["transactional"], "add --transactional")
    keeps_state = idempotent and not given["transactional"]
    _refuse_idle(said & {"long_producer_id_expiration"}, keeps_state, "use --idempotent without --transactional")
    retried = given["acks"] != "0" and given["retries"] == RETRIES_MAX and not given["transactional"]
    _refuse_idle(
        said & {"long_delivery_timeout"}, retried, "use --acks 1 or all, without --retries and --transactional"
    )
    _refuse_idle(said & _OF_GROUPS, given["commits"] != "share", "use a value of --commits other than share")
    return convert({**given, "idempotent": idempotent}, ClientSettings)


def _left_idempotent(given: Given) -> bool:
    """Whether a producer that does not set enable.idempotence is idempotent (KIP-679).

    Values of acks and retries that exclude idempotence turn it off. Too many requests in flight do not (from 4.0 on);
    they are refused, and so are excluding values with a transactional.id.
    """
    excluded = given["acks"] != "all" or given["retries"] == 0
    return not excluded or given["in_flight"] > IN_FLIGHT_MAX or given["transactional"]


def _topic(given: Given, said: Set[str]) -> TopicSettings:
    if {"compacted", "cleanup_policy"} <= said:
        raise BadInput("--compacted and --cleanup-policy set the same thing; use one of them")
    policy = "compact" if given["compacted"] else given["cleanup_policy"]
    _refuse_idle(said & _OF_DELETION, "delete" in policy, "add --cleanup-policy compact,delete")
    _refuse_idle(said & _OF_COMPACTION, "compact" in policy, "add --cleanup-policy compact")
    _refuse_idle(said & _OF_TIERS, given["tiered"], "add --tiered")
    lags = "compact" in policy and given["min_compaction_lag_ms"] > 0
    _refuse_idle(
        said & {"reads_within_compaction_lag"}, lags, "add --cleanup-policy compact and --min-compaction-lag-ms"
    )
    _refuse_idle(said & {"flush_scheduler_ms"}, given["flush_ms"] != NEVER, "leave out --flush-ms -1")
    if given["tiered"]:
        _refuse_tier(given, policy)
    # By default log.flush.interval.ms is log.flush.scheduler.interval.ms.
    flush_ms = given["flush_scheduler_ms"] if given["flush_ms"] is None else given["flush_ms"]
    derived = {
        "flush_ms": flush_ms,
        "deletes": "delete" in policy,
        "compacted": "compact" in policy,
        "compaction_lag_ms": given["min_compaction_lag_ms"],
        "append_time": given["timestamp_type"] == "LogAppendTime",
    }
    return convert({**given, **derived}, TopicSettings)


def _refuse_tier(given: Given, policy: str) -> None:
    """Refuses settings with which no broker accepts a tiered topic."""
    if "compact" in policy:
        raise BadInput("a compacted topic cannot be tiered (KIP-405, KAFKA-19273); leave out --tiered")
    limits = {
        "ms": (given["retention_ms"], given["local_retention_ms"]),
        "bytes": (given["retention_bytes"], given["local_retention_bytes"]),
    }
    for unit, (whole, local) in limits.items():
        if whole != NEVER and (local == NEVER or local > whole):
            raise BadInput(
                f"local.retention.{unit}={local} exceeds retention.{unit}={whole}; give at most {whole}, or "
                f"{AS_RETENTION} for the same value"
            )


def _refuse_idle(said: Set[str], effective: bool, instead: str) -> None:
    """Refuses options that have no effect here."""
    if said and not effective:
        raise BadInput(f"{_options(sorted(said))} has no effect here; {instead}")


def _options(names: Sequence[str]) -> str:
    return ", ".join("--rf" if name == "replicas" else f"--{name.replace('_', '-')}" for name in names)


def explained(topic: TopicSettings, client: ClientSettings) -> list[str]:
    """Returns lines about one configuration, the worst event first."""
    lines = [f"{topic}; a producer with {producer(client)}; a consumer that {consumer(client)}"]
    switched = {p.event: p for p in promises(replace(topic, elr=not topic.elr), client)}
    for promise in promises(topic, client):
        lines += ["", f"{effects(promise)}: {promise.event.happens}", *reasons(promise)]
        lines += _otherwise(promise, switched.get(promise.event), topic)
    return lines


def _otherwise(promise: Promise, switched: Promise | None, topic: TopicSettings) -> list[str]:
    """The result with ELR switched, if it differs."""
    if switched is None or switched.effects == promise.effects:
        return []
    return [f"  {_ELR_ON if topic.elr else _ELR_OFF}: {effects(switched)}"]
