"""Reads the settings of topics of a user's cluster, and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ClusterMetadata, ResourceType, TopicMetadata  # type: ignore[attr-defined]

from harness.kafka.admin.features import elr_level, transaction_level
from harness.kafka.admin.live_client import ASK_S, ClusterSource
from harness.model.contract.configuration import TopicSettings
from harness.model.contract.internal_topics import OWN
from harness.model.contract.read_settings import topic_settings
from harness.model.errors import BadInput

DEADLINE_S: Final = 15.0
BATCH: Final = 500  # topics in one request
_TRY_S: Final = 1.0
_PAUSE_S: Final = 0.1
_WAIT_S: Final = ASK_S + _TRY_S  # longer than the client waits, because its own error is more precise
_PASSING: Final = frozenset({"_TIMED_OUT", "_TRANSPORT"})
_DELETED: Final = "UNKNOWN_TOPIC_OR_PART"
_DENIED: Final = "TOPIC_AUTHORIZATION_FAILED"
_NO_LEADER: Final = -1
_NAMED: Final = 8  # topics that are named in an error about all topics


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTopic:
    """isr: the number of in-sync replicas by partition. elr_known: whether a broker reported the level of ELR."""

    name: str
    internal: bool
    settings: TopicSettings
    isr: Mapping[int, int]
    elr_known: bool
    leaderless: Sequence[int] = ()

    @property
    def short(self) -> list[int]:
        """Partitions with too few in-sync replicas for acks=all. Without ELR the last one stays, and may be enough."""
        return sorted(partition for partition, size in self.isr.items() if size < self.settings.needed)

    @property
    def stopped(self) -> set[int]:
        """Partitions that accept no record with acks=all now."""
        return {*self.short, *self.leaderless}


@dataclass(frozen=True, slots=True)
class NotRead:
    """A topic with settings that could not be read: it was deleted meanwhile, or this client may not read them."""

    name: str
    error: KafkaError

    @property
    def why(self) -> str:
        return self.error.str()

    @property
    def deleted(self) -> bool:
        return self.error.name() == _DELETED

    @property
    def denied(self) -> bool:
        return self.error.name() == _DENIED


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """transaction_version: its finalized level (KIP-890); None when no broker reports it."""

    topics: Sequence[LiveTopic]
    not_read: Sequence[NotRead] = ()
    transaction_version: int | None = None


def live_cluster(bootstrap: str, client: ClusterSource, names: Sequence[str] = ()) -> LiveCluster:
    """All topics of a cluster, including internal ones, or these.

    BadInput when the cluster cannot be reached, when it lacks one of `names`, or when no settings can be read.
    """
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
    """Sentences about topics without readable settings: the reason, and how to fix it."""
    lines = []
    for why in dict.fromkeys(topic.why for topic in not_read):
        same = [topic for topic in not_read if topic.why == why]
        names = ", ".join(topic.name for topic in same[:most])
        names += " and others" if most is not None and len(same) > most else ""
        if same[0].deleted:
            lines.append(f"not explained, because they were deleted meanwhile: {names}")
        else:
            remedy = "; give the user DescribeConfigs on topics" if same[0].denied else ""
            lines.append(f"not explained, because their settings cannot be read ({why}): {names}{remedy}")
    return lines


def _reach(bootstrap: str, client: ClusterSource) -> ClusterMetadata:
    """The cluster's metadata. BadInput when no broker answers or lets this client in."""
    give_up_at, why = time.monotonic() + DEADLINE_S, "no answer"
    while time.monotonic() < give_up_at:
        try:
            metadata = client.metadata(_TRY_S)
        except KafkaException as refused:
            why = refused.args[0].str()
        else:
            if metadata.brokers:
                return metadata
            why = "the server that answers names no broker"
            time.sleep(_PAUSE_S)
        if refusal := client.refusal():
            raise BadInput(
                f"{bootstrap} does not let this client in ({refusal}); correct its settings in --command-config"
            )
    raise BadInput(
        f"no broker answers at {bootstrap} within {DEADLINE_S:g} s ({why}); check the address, or pass the settings "
        "that the cluster requires of clients by --command-config"
    )


def _broker(client: ClusterSource, broker: str) -> dict[str, str]:
    """The settings of one broker, which represent those of all."""
    reported, refused = _read(client, ResourceType.BROKER, [broker])
    if refused:
        raise BadInput(
            f"settings of broker {broker} cannot be read: {refused[0].why}; give the user DescribeConfigs on the "
            "cluster"
        )
    return reported[broker]


def _read(
    client: ClusterSource, kind: ResourceType, names: Sequence[str]
) -> tuple[dict[str, dict[str, str]], list[NotRead]]:
    """The settings by name, and the topics with settings that cannot be read."""
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
                    f"no broker returns settings within {DEADLINE_S:g} s ({silent[waiting[0]]}); try again when "
                    "every broker answers"
                )
            if silent:
                with suppress(KafkaException):
                    client.metadata(_TRY_S)  # finds the new controller, if the former one has just died
    return reported, not_read


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[at : at + BATCH] for at in range(0, len(names), BATCH))


def _answers(
    client: ClusterSource, kind: ResourceType, names: Sequence[str]
) -> Iterator[tuple[str, dict[str, str] | KafkaError]]:
    """The settings of each name, including empty ones, or the error."""
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


def _topic(
    name: str, topic: TopicMetadata, config: Mapping[str, str], broker: Mapping[str, str], elr: int | None
) -> LiveTopic:
    partitions = topic.partitions
    replicas = min(len(partition.replicas) for partition in partitions.values())  # of the partition with the fewest
    return LiveTopic(
        name=name,
        internal=name in OWN,
        settings=topic_settings(name, config, replicas, broker, elr=bool(elr)),
        isr={number: len(partition.isrs) for number, partition in partitions.items()},
        elr_known=elr is not None,
        leaderless=sorted(number for number, partition in partitions.items() if partition.leader == _NO_LEADER),
    )
