"""The settings of topics of a cluster that somebody runs, read and nothing else.

By the ordinary client, which takes every way in that such clusters have (TLS, SASL). What it cannot ask, which features
are finalized, is asked past it, before anybody logs in: brokers tell that to whoever may not come in yet, too (KIP-43).
"""

from __future__ import annotations

import ssl
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from harness.kafka.admin_features import elr_level
from harness.kafka.wire import ANSWER_S, Connection, metadata_offset
from harness.model.configuration import AS_RETENTION, TopicSettings
from harness.model.contract import (
    APPEND_TIME,
    DELETE_RETENTION,
    DELETE_RETENTION_MS_DEFAULT,
    FLUSH_LOOKS,
    MIN_COMPACTION_LAG,
    MIN_INSYNC,
    TIMESTAMP_TYPE,
    timestamp_type,
    unless_never,
)
from harness.model.errors import BadInput
from harness.model.internal_topics import OFFSETS, OWN, TIER_METADATA

DEADLINE_S: Final = 15.0
_TRY_S: Final = 1.0
_ASK_S: Final = 5.0
_PASSING: Final = frozenset({"_TIMED_OUT", "_TRANSPORT"})
# What another try does not mend: whom the client trusts, or who it says it is.
_REFUSALS: Final = frozenset({"_AUTHENTICATION", "_SSL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTopic:
    """isr: by partition, how many replicas are in sync now. elr_known: whether anybody could tell about ELR."""

    name: str
    internal: bool
    settings: TopicSettings
    isr: Mapping[int, int]
    elr_known: bool

    @property
    def short(self) -> list[int]:
        """Partitions that take no record with acks=all at this moment."""
        return sorted(partition for partition, size in self.isr.items() if size < self.settings.needed)


def live_topics(bootstrap: str, config: Mapping[str, str], names: Sequence[str] = ()) -> list[LiveTopic]:
    """All topics of a cluster, internal ones included, or these. BadInput when it cannot be reached or lacks one."""
    client, metadata = _reach(bootstrap, config)
    if missing := sorted(set(names) - metadata.topics.keys()):
        raise BadInput(f"{bootstrap} has no topic {', '.join(missing)}; leave out --topic to see all of them")
    chosen = {name: topic for name, topic in metadata.topics.items() if topic.partitions and name in (names or [name])}
    (broker,) = _configs(client, ResourceType.BROKER, [str(next(iter(metadata.brokers)))]).values()
    configs = _configs(client, ResourceType.TOPIC, sorted(chosen))
    level = _elr([(b.host or "", b.port) for b in metadata.brokers.values()], config)
    return [
        LiveTopic(
            name=name,
            internal=name in OWN,
            settings=replace(
                _settings(configs[name], _replicas(chosen[name]), broker, bool(level)),
                keeps_offsets=name == OFFSETS,
                keeps_tier=name == TIER_METADATA,
            ),
            isr={number: len(partition.isrs) for number, partition in chosen[name].partitions.items()},
            elr_known=level is not None,
        )
        for name in sorted(chosen)
    ]


def _reach(bootstrap: str, config: Mapping[str, str]) -> tuple[AdminClient, Any]:
    """The client and all that brokers tell of topics and of themselves."""
    errors: list[KafkaError] = []
    settings: dict[str, Any] = {"log_level": 0, **config, "bootstrap.servers": bootstrap, "error_cb": errors.append}
    try:
        client = AdminClient(settings)
    except KafkaException as refused:
        raise BadInput(
            f"no client can be made: {refused.args[0].str()}; mend --bootstrap or --command-config"
        ) from refused
    give_up_at, why = time.monotonic() + DEADLINE_S, "nothing came"
    while time.monotonic() < give_up_at:
        try:
            return client, client.list_topics(timeout=_TRY_S)
        except KafkaException as refused:
            why = refused.args[0].str()
        client.poll(0)
        if refusals := [error.str() for error in errors if error.name() in _REFUSALS]:
            raise BadInput(
                f"{bootstrap} does not let this client in ({refusals[-1]}); mend what --command-config says of it"
            )
    raise BadInput(
        f"no broker answers at {bootstrap} within {DEADLINE_S:g} s ({why}); check the address, or pass what the "
        "cluster asks of clients by --command-config"
    )


def _replicas(topic: Any) -> int:
    """Of the partition that has the fewest."""
    return min(len(partition.replicas) for partition in topic.partitions.values())


def _configs(client: AdminClient, kind: ResourceType, names: Iterable[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(kind, name) for name in names]
    give_up_at = time.monotonic() + DEADLINE_S
    while True:
        asked = client.describe_configs(resources, request_timeout=_ASK_S) if resources else {}
        try:
            return {
                resource.name: {key: entry.value for key, entry in answer.result(_ASK_S).items() if entry.value}
                for resource, answer in asked.items()
            }
        except KafkaException as refused:
            error = refused.args[0]
            if error.name() not in _PASSING or time.monotonic() > give_up_at:
                raise BadInput(
                    f"settings cannot be read: {error.str()}; give the user DescribeConfigs on topics and the cluster"
                ) from refused
        with suppress(KafkaException):
            client.list_topics(timeout=_TRY_S)  # whom it took for the controller may have died just then


def _elr(brokers: Iterable[tuple[str, int]], config: Mapping[str, str]) -> int | None:
    """The level of ELR by the broker with the newest metadata; None where nobody tells."""
    answers = []
    with suppress(OSError):  # stores that this cannot open, which the ordinary client could
        tls = _tls(config)
        for broker in brokers:
            with suppress(OSError, ValueError, IndexError, struct.error):
                connection = Connection(broker, time.monotonic() + ANSWER_S, tls)
                connection.close()
                answers.append(connection.told)
    if not answers:
        return None
    newest = max(answers, key=metadata_offset)
    return elr_level({feature.name: feature.max_version_level for feature in newest.finalized_features or ()})


def _tls(config: Mapping[str, str]) -> ssl.SSLContext | None:
    """As the ordinary client goes about it; None where that speaks plainly."""
    if "SSL" not in config.get("security.protocol", "").upper():
        return None
    context = ssl.create_default_context(cafile=config.get("ssl.ca.location"), cadata=config.get("ssl.ca.pem"))
    context.check_hostname = config.get("ssl.endpoint.identification.algorithm") != "none"
    if config.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if shown := config.get("ssl.certificate.location"):
        context.load_cert_chain(shown, config.get("ssl.key.location"), config.get("ssl.key.password"))
    return context


def _settings(config: Mapping[str, str], replicas: int, broker: dict[str, str], elr: bool) -> TopicSettings:
    policy = config.get("cleanup.policy", "delete")
    return TopicSettings(
        replicas=replicas,
        min_isr=int(config.get(MIN_INSYNC, "1")),
        unclean=config.get("unclean.leader.election.enable") == "true",
        elr=elr,
        flush_messages=_at_least(1, unless_never(config.get("flush.messages", ""))),  # 2.x let it be 0
        flush_ms=unless_never(config.get("flush.ms", "")),
        flush_scheduler_ms=unless_never(broker.get(FLUSH_LOOKS, "")),
        retention_ms=int(config.get("retention.ms", "-1")),
        retention_bytes=_at_least(0, int(config.get("retention.bytes", "-1"))),  # any number below 0 is no limit
        deletes="delete" in policy,
        compacted="compact" in policy,
        compaction_lag_ms=int(config.get(MIN_COMPACTION_LAG, 0)),
        tiered=config.get("remote.storage.enable") == "true",
        local_retention_ms=int(config.get("local.retention.ms", AS_RETENTION)),
        local_retention_bytes=int(config.get("local.retention.bytes", AS_RETENTION)),
        append_time=timestamp_type(config.get(TIMESTAMP_TYPE, "")) == APPEND_TIME,
        delete_retention_ms=int(config.get(DELETE_RETENTION, DELETE_RETENTION_MS_DEFAULT)),
    )


def _at_least(least: int, value: int) -> int:
    return max(least, value) if value >= 0 else -1
