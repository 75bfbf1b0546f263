"""The settings of topics of a cluster that somebody runs, read and nothing else.

By the ordinary client, which takes every way in that such clusters have (TLS, SASL); what it cannot ask, which features
are finalized, is asked past it where the way in is plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from harness.kafka.admin import AdminView
from harness.kafka.admin_features import elr_level
from harness.model.configuration import TopicSettings
from harness.model.contract import MIN_INSYNC, flush_within_ms, unless_never
from harness.model.errors import BadInput, HarnessFailure

DEADLINE_S: Final = 15.0
_PLAIN: Final = "plaintext"


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
        return sorted(partition for partition, size in self.isr.items() if size < self.settings.min_isr)


def live_topics(bootstrap: str, config: Mapping[str, str], names: Sequence[str] = ()) -> list[LiveTopic]:
    """All topics of a cluster, internal ones included, or these. BadInput when it cannot be reached or lacks one."""
    client, metadata = _reach(bootstrap, config)
    if missing := sorted(set(names) - metadata.topics.keys()):
        raise BadInput(f"{bootstrap} has no topic {', '.join(missing)}; leave out --topic to see all of them")
    chosen = {name: topic for name, topic in metadata.topics.items() if topic.partitions and name in (names or [name])}
    (broker,) = _configs(client, ResourceType.BROKER, [str(next(iter(metadata.brokers)))]).values()
    configs = _configs(client, ResourceType.TOPIC, sorted(chosen))
    plain = config.get("security.protocol", _PLAIN).lower() == _PLAIN
    level = _elr({b.id: (b.host or "", b.port) for b in metadata.brokers.values()}) if plain else None
    return [
        LiveTopic(
            name=name,
            internal=name.startswith("__"),
            settings=_settings(configs[name], _replicas(chosen[name]), broker, bool(level)),
            isr={number: len(partition.isrs) for number, partition in chosen[name].partitions.items()},
            elr_known=level is not None,
        )
        for name in sorted(chosen)
    ]


def _reach(bootstrap: str, config: Mapping[str, str]) -> tuple[AdminClient, Any]:
    """The client and all that brokers tell of topics and of themselves."""
    try:
        client = AdminClient({"log_level": 0, **config, "bootstrap.servers": bootstrap})
    except KafkaException as refused:
        raise BadInput(
            f"no client can be made: {refused.args[0].str()}; mend --bootstrap or --command-config"
        ) from refused
    try:
        return client, client.list_topics(timeout=DEADLINE_S)
    except KafkaException as refused:
        why = refused.args[0].str()
        raise BadInput(
            f"no broker answers at {bootstrap} within {DEADLINE_S:g} s ({why}); check the address, or pass what the "
            "cluster asks of clients by --command-config"
        ) from refused


def client_config(path: Path) -> dict[str, str]:
    """A file of client settings as `key=value` lines, in librdkafka's names. BadInput on anything else."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--command-config {path} cannot be read: {error}; give a file of key=value lines") from error
    stripped = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    settings = {}
    for number, line in stripped:
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise BadInput(f"--command-config {path}, line {number}: {line!r} is no key=value")
        settings[key.strip()] = value.strip()
    return settings


def _replicas(topic: Any) -> int:
    """Of the partition that has the fewest."""
    return min(len(partition.replicas) for partition in topic.partitions.values())


def _configs(client: AdminClient, kind: ResourceType, names: Iterable[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(kind, name) for name in names]
    asked = client.describe_configs(resources, request_timeout=DEADLINE_S) if resources else {}
    try:
        return {
            resource.name: {key: entry.value for key, entry in answer.result(DEADLINE_S).items() if entry.value}
            for resource, answer in asked.items()
        }
    except KafkaException as refused:
        raise BadInput(
            f"settings cannot be read: {refused.args[0].str()}; give the user DescribeConfigs on topics and the cluster"
        ) from refused


def _elr(brokers: Mapping[int, tuple[str, int]]) -> int | None:
    with AdminView(brokers) as admin, suppress(HarnessFailure):
        return elr_level(admin.features())
    return None


def _settings(config: Mapping[str, str], replicas: int, broker: dict[str, str], elr: bool) -> TopicSettings:
    policy = config.get("cleanup.policy", "delete")
    return TopicSettings(
        replicas=replicas,
        min_isr=int(config.get(MIN_INSYNC, "1")),
        unclean=config.get("unclean.leader.election.enable") == "true",
        elr=elr,
        flush_messages=unless_never(config.get("flush.messages", "")),
        flush_ms=flush_within_ms(config.get("flush.ms", ""), broker),
        retention_ms=int(config.get("retention.ms", "-1")),
        retention_bytes=int(config.get("retention.bytes", "-1")),
        deletes="delete" in policy,
        compacted="compact" in policy,
    )
