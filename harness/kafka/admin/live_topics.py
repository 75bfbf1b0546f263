"""The settings of topics of a cluster that somebody runs, read and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from harness.kafka.admin.features import elr_level, transaction_level
from harness.kafka.admin.live_client import ASK_S, Teller
from harness.model.contract.configuration import AS_RETENTION, TopicSettings
from harness.model.contract.contract import (
    APPEND_TIME,
    DELETE_RETENTION,
    DELETE_RETENTION_MS_DEFAULT,
    MIN_COMPACTION_LAG,
    MIN_INSYNC,
    TIMESTAMP_TYPE,
    timestamp_type,
)
from harness.model.contract.flushing import FLUSH_LOOKS, unless_never
from harness.model.contract.internal_topics import OFFSETS, OWN, TIER_METADATA
from harness.model.errors import BadInput

DEADLINE_S: Final = 15.0
BATCH: Final = 500  # topics that are asked about at once
_TRY_S: Final = 1.0
_PAUSE_S: Final = 0.1
_WAIT_S: Final = ASK_S + _TRY_S  # longer than the client, whose own word on a silent broker is the better one
_PASSING: Final = frozenset({"_TIMED_OUT", "_TRANSPORT"})
_GONE: Final = "UNKNOWN_TOPIC_OR_PART"
_DENIED: Final = "TOPIC_AUTHORIZATION_FAILED"
_NO_LEADER: Final = -1
_NAMED: Final = 8  # topics in the one sentence that is said where none can be told of


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTopic:
    """isr: by partition, how many replicas are in sync now. elr_known: whether anybody could tell about ELR."""

    name: str
    internal: bool
    settings: TopicSettings
    isr: Mapping[int, int]
    elr_known: bool
    leaderless: Sequence[int] = ()

    @property
    def short(self) -> list[int]:
        """Partitions with too few in sync for acks=all. Without ELR whoever was last stays, and may be enough."""
        return sorted(partition for partition, size in self.isr.items() if size < self.settings.needed)

    @property
    def stopped(self) -> set[int]:
        """Partitions that take no record with acks=all at this moment."""
        return {*self.short, *self.leaderless}


@dataclass(frozen=True, slots=True)
class NotRead:
    """A topic whose settings nobody told: it was deleted since its name was, or this client may not read them."""

    name: str
    error: KafkaError

    @property
    def why(self) -> str:
        return self.error.str()

    @property
    def gone(self) -> bool:
        return self.error.name() == _GONE

    @property
    def denied(self) -> bool:
        return self.error.name() == _DENIED


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """transaction_version: its level (KIP-890); None where nobody tells."""

    topics: Sequence[LiveTopic]
    not_read: Sequence[NotRead] = ()
    transaction_version: int | None = None


def live_cluster(bootstrap: str, client: Teller, names: Sequence[str] = ()) -> LiveCluster:
    """All topics of a cluster, internal ones included, or these. BadInput when it cannot be reached or lacks one, or
    when nobody tells the settings of any."""
    metadata = _reach(bootstrap, client)
    if missing := sorted(set(names) - metadata.topics.keys()):
        raise BadInput(f"{bootstrap} has no topic {', '.join(missing)}; leave out --topic to see all of them")
    chosen = {name: topic for name, topic in metadata.topics.items() if topic.partitions and name in (names or [name])}
    broker = _broker(client, str(next(iter(metadata.brokers))))
    configs, not_read = _read(client, ResourceType.TOPIC, sorted(chosen))
    if not_read and not configs:
        raise BadInput("; ".join(not_read_lines(not_read, most=_NAMED)))
    levels = client.levels((b.host or "", b.port) for b in metadata.brokers.values())
    elr = elr_level(levels)
    return LiveCluster(
        topics=[_topic(name, chosen[name], configs[name], broker, elr) for name in sorted(configs)],
        not_read=not_read,
        transaction_version=transaction_level(levels),
    )


def not_read_lines(not_read: Sequence[NotRead], most: int | None = None) -> list[str]:
    """Of topics whose settings nobody told: that nothing is said of them, why, and what mends it."""
    lines = []
    for why in dict.fromkeys(topic.why for topic in not_read):
        alike = [topic for topic in not_read if topic.why == why]
        names = ", ".join(topic.name for topic in alike[:most])
        names += " and others" if most is not None and len(alike) > most else ""
        if alike[0].gone:
            lines.append(f"deleted meanwhile, so that nothing is told of: {names}")
        else:
            mend = "; give the user DescribeConfigs on topics" if alike[0].denied else ""
            lines.append(f"settings cannot be read ({why}), so that nothing is told of: {names}{mend}")
    return lines


def _reach(bootstrap: str, client: Teller) -> Any:
    """All that brokers tell of topics and of themselves."""
    give_up_at, why = time.monotonic() + DEADLINE_S, "nothing came"
    while time.monotonic() < give_up_at:
        try:
            metadata = client.metadata(_TRY_S)
        except KafkaException as refused:
            why = refused.args[0].str()
        else:
            if metadata.brokers:
                return metadata
            why = "who answers there knows of no broker"
            time.sleep(_PAUSE_S)
        if refusal := client.refusal():
            raise BadInput(
                f"{bootstrap} does not let this client in ({refusal}); mend what --command-config says of it"
            )
    raise BadInput(
        f"no broker answers at {bootstrap} within {DEADLINE_S:g} s ({why}); check the address, or pass what the "
        "cluster asks of clients by --command-config"
    )


def _broker(client: Teller, broker: str) -> dict[str, str]:
    """The settings of one, which stand for those of all."""
    reported, refused = _read(client, ResourceType.BROKER, [broker])
    if refused:
        raise BadInput(
            f"settings of broker {broker} cannot be read: {refused[0].why}; give the user DescribeConfigs on the "
            "cluster"
        )
    return reported[broker]


def _read(client: Teller, kind: ResourceType, names: Sequence[str]) -> tuple[dict[str, dict[str, str]], list[NotRead]]:
    """The settings of those, and of which they cannot be had."""
    reported: dict[str, dict[str, str]] = {}
    not_read: list[NotRead] = []
    for batch in _batches(names):
        waiting, give_up_at = batch, time.monotonic() + DEADLINE_S
        while waiting:
            silent = {}
            for name, answer in _answers(client, kind, waiting):
                if not isinstance(answer, KafkaError):
                    reported[name] = answer
                elif answer.name() in _PASSING:
                    silent[name] = answer.str()
                else:
                    not_read.append(NotRead(name, answer))
            waiting = list(silent)
            if silent and time.monotonic() > give_up_at:
                raise BadInput(
                    f"nobody tells settings within {DEADLINE_S:g} s ({silent[waiting[0]]}); try again when every "
                    "broker answers"
                )
            if silent:
                with suppress(KafkaException):
                    client.metadata(_TRY_S)  # whom it took for the controller may have died just then
    return reported, not_read


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[at : at + BATCH] for at in range(0, len(names), BATCH))


def _answers(
    client: Teller, kind: ResourceType, names: Sequence[str]
) -> Iterator[tuple[str, dict[str, str] | KafkaError]]:
    """Each with its settings, empty ones included, or why not."""
    answers, until = client.settings(kind, names), time.monotonic() + _WAIT_S
    for name, answer in answers.items():
        try:
            entries = answer.result(max(0.0, until - time.monotonic()))
        except TimeoutError:
            yield name, KafkaError(KafkaError._TIMED_OUT)
        except KafkaException as refused:
            yield name, refused.args[0]
        else:
            yield name, {key: entry.value for key, entry in entries.items() if entry.value is not None}


def _topic(name: str, topic: Any, config: Mapping[str, str], broker: Mapping[str, str], elr: int | None) -> LiveTopic:
    partitions: Mapping[int, Any] = topic.partitions
    replicas = min(len(partition.replicas) for partition in partitions.values())  # of the one that has the fewest
    return LiveTopic(
        name=name,
        internal=name in OWN,
        settings=replace(
            _settings(config, replicas, broker, bool(elr)),
            keeps_offsets=name == OFFSETS,
            keeps_tier=name == TIER_METADATA,
        ),
        isr={number: len(partition.isrs) for number, partition in partitions.items()},
        elr_known=elr is not None,
        leaderless=sorted(number for number, partition in partitions.items() if partition.leader == _NO_LEADER),
    )


def _settings(config: Mapping[str, str], replicas: int, broker: Mapping[str, str], elr: bool) -> TopicSettings:
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
