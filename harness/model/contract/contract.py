"""The contract of a scenario: how its promises follow from its settings and steps.

It is derived from the scenario *as declared*, never from its negative control. Sources: KIP-98 (idempotence,
transactions), KIP-966 (ELR, last replica standing), the broker documentation of acks, min.insync.replicas,
unclean.leader.election.enable, retention.ms, retention.bytes, cleanup.policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

from msgspec.structs import asdict

from harness.model.contract.flushing import LONG_MAX, flush_within_ms, unless_never
from harness.model.contract.internal_topics import OFFSETS, OWN, TIER_METADATA, internal_topics
from harness.model.contract.kafka_defaults import (
    DELETE_RETENTION_MS_DEFAULT,
    DELIVERY_LIMIT_DEFAULT,
    LOCK_MS_DEFAULT,
    OFFSETS_RETENTION_DEFAULT,
    PRODUCER_CODEC,
    PRODUCER_EXPIRATION_MS_DEFAULT,
    RETENTION_MS_DEFAULT,
    SEGMENT_BYTES_DEFAULT,
    START_CHECKPOINT_MS_DEFAULT,
)
from harness.model.documents.contract import (
    Change,
    CommitsOfProcessor,
    Contract,
    ExactLosses,
    InternalContract,
    OffsetsContract,
    ProcessorContract,
    ProducerContract,
    ReaderContract,
    ShareContract,
    ShareReset,
    TimestampType,
    TopicContract,
)
from harness.model.documents.record import Acks, Isolation
from harness.model.errors import BadInput
from harness.model.scenario.scenario import (
    AUTO_AHEAD,
    JAVA,
    SHARE_RESET,
    Config,
    Processing,
    Producer,
    Reader,
    Scenario,
    Step,
    Topic,
)
from harness.model.scenario.tier_rules import DELETE_OBJECTS, is_tiered
from harness.model.version import numbers_of

# Settings on which promises depend.
PRODUCER_EXPIRATION: Final = "producer.id.expiration.ms"
OFFSETS_RETENTION: Final = "offsets.retention.minutes"
# From this version on, with this feature at level 2, the release's own client has an epoch for each transaction
# (KIP-890).
EPOCH_EACH_SINCE: Final = (4, 0)
TRANSACTION_VERSION: Final = "transaction.version"
DELETE_RETENTION: Final = "delete.retention.ms"
# How often brokers write their log start offsets to disk.
START_CHECKPOINT: Final = "log.flush.start.offset.checkpoint.interval.ms"
MIN_COMPACTION_LAG: Final = "min.compaction.lag.ms"
DELIVERY_LIMIT: Final = "share.delivery.count.limit"
LOCK: Final = "share.record.lock.duration.ms"

TIMESTAMP_TYPE: Final = "message.timestamp.type"
APPEND_TIME: Final = "append"  # how a contract names LogAppendTime
COMPRESSION_TYPE: Final = "compression.type"
UNCLEAN: Final = "unclean.leader.election.enable"
MIN_INSYNC: Final = "min.insync.replicas"

_INT_MAX: Final = (1 << 31) - 1
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
# The values that brokers accept for settings on which a promise depends. Some broker settings have "log." before the
# name.
_NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    MIN_INSYNC: (1, _INT_MAX),
    "retention.ms": (-1, LONG_MAX),
    "retention.bytes": (-1, LONG_MAX),
    "segment.bytes": (14, _INT_MAX),
    "flush.messages": (1, LONG_MAX),
    "flush.ms": (0, LONG_MAX),
    "flush.interval.messages": (1, LONG_MAX),
    "flush.interval.ms": (0, LONG_MAX),
    "flush.scheduler.interval.ms": (1, LONG_MAX),
    PRODUCER_EXPIRATION: (1, _INT_MAX),
    OFFSETS_RETENTION: (1, _INT_MAX),
    START_CHECKPOINT.removeprefix("log."): (0, _INT_MAX),
    DELETE_RETENTION: (0, LONG_MAX),
    f"cleaner.{DELETE_RETENTION}": (0, LONG_MAX),
    MIN_COMPACTION_LAG: (0, LONG_MAX),
    f"cleaner.{MIN_COMPACTION_LAG}": (0, LONG_MAX),
}
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    UNCLEAN: ("true", "false"),
    TIMESTAMP_TYPE: ("CreateTime", "LogAppendTime"),
    "cleanup.policy": ("delete", "compact", "delete,compact", "compact,delete"),
}

# Kinds of steps on which promises depend.
ELECT_UNCLEAN: Final = "elect_unclean"  # an operator has a replica elected that is not in sync
ID_FORGOTTEN: Final = "wait_transactional_id_expired"
ABORT_TRANSACTION: Final = "abort_transaction"  # an operator aborts a hanging transaction
READER_AWAY: Final = "reader_away"  # a group has no member for a while
DELETE_GROUP: Final = "delete_group"
RECREATE_TOPIC: Final = "recreate_topic"
DELETE_RECORDS: Final = "delete_records"
TIER_OFF: Final = "tier_off"  # takes a topic out of the remote tier
ALTER_TOPIC: Final = "alter_topic"  # changes settings, and so the promise, during the run

# The producer of the last record of each partition before the drain. No scenario names it; its promise is the
# strictest.
SENTINEL = "sentinel"


def sentinel_back_s(scenario: Scenario) -> int:
    """How far the sentinel backdates its records. As far as a producer of the scenario, so that the segment with the
    latest record need not be the newest; not at all where records expire, because the last ones must not."""
    expire = any("retention.ms" in topic.config for topic in scenario.topics)
    return 0 if expire else max((producer.backdated_s for producer in scenario.producers), default=0)


def promised(key: str) -> bool:
    """Whether the promise for records depends on this setting of a topic or of brokers. The size of segments does not
    matter."""
    name = key.removeprefix("log.")
    return name in {*_NUMBERS, *_WORDS} - {"segment.bytes"}


def check_config(config: Config, where: str) -> None:
    """BadInput on a value that no broker would accept, for settings on which a promise depends."""
    for key, text in config.items():
        name = key.removeprefix("log.")
        if name in _NUMBERS:
            lowest, highest = _NUMBERS[name]
            if not _WHOLE.fullmatch(text) or not lowest <= int(text) <= highest:
                raise BadInput(f"{where}: {key} = {text!r}; give a whole number from {lowest} to {highest}")
        elif name in _WORDS and text.replace(" ", "") not in _WORDS[name]:
            raise BadInput(f"{where}: {key} = {text!r}; it is one of {'; '.join(_WORDS[name])}")


def contract_of(scenario: Scenario) -> Contract:
    """The contract of a scenario as its author declared it. `check_config` has checked its settings before."""
    allowed_anomalies, producers = scenario.allowed_anomalies, scenario.producers
    if back_s := sentinel_back_s(scenario):
        producers += (Producer(name=SENTINEL, topics=(), backdated_s=back_s),)
    return Contract(
        topics={t.name: _topic_contract(t, scenario.shape.config, scenario) for t in scenario.topics},
        producers={p.name: _producer_contract(p, scenario) for p in producers},
        exact_losses=tuple(
            ExactLosses(topic=loss.topic, partition=loss.partition, count=loss.count)
            for loss in allowed_anomalies.exact_losses
        ),
        changes=tuple(_change(step) for step in scenario.steps if step.do == ALTER_TOPIC),
        deletions=tuple(step.name for step in scenario.steps if step.do == RECREATE_TOPIC),
        group_deletions=tuple(step.name for step in scenario.steps if step.do == DELETE_GROUP),
        object_deletions=tuple(step.name for step in scenario.steps if step.do == DELETE_OBJECTS),
        readers={
            r.name: ReaderContract(
                reader=r.name, group=r.group, at_most_once=r.commits in ("before", AUTO_AHEAD), reset=r.reset
            )
            for r in scenario.readers
            if r.group is not None and not r.shares
        },
        producer_expiration_ms=int(scenario.shape.config.get(PRODUCER_EXPIRATION, PRODUCER_EXPIRATION_MS_DEFAULT)),
        start_checkpoint_ms=int(scenario.shape.config.get(START_CHECKPOINT, START_CHECKPOINT_MS_DEFAULT)),
        processors={p.name: _processor_contract(p.name, p.processes) for p in scenario.producers if p.processes},
        offsets=OffsetsContract(
            **asdict(_internal_contract(scenario, OFFSETS)),
            retention_minutes=int(scenario.shape.config.get(OFFSETS_RETENTION, OFFSETS_RETENTION_DEFAULT)),
        ),
        shares={group: _share_contract(scenario, group) for group in scenario.share_groups},
        tier=_internal_contract(scenario, TIER_METADATA) if scenario.shape.tier else None,
        unclean_internal=tuple(
            name
            for name in OWN
            if scenario.shape.config.get(UNCLEAN, "false") == "true" or _elected_by_hand(scenario, name)
        ),
    )


def _change(step: Step) -> Change:
    config = step.args.get("config")
    return Change(
        step=step.name, topic=str(step.args.get("topic", "")), config=dict(config) if isinstance(config, dict) else {}
    )


def _topic_contract(topic: Topic, broker: Config, scenario: Scenario) -> TopicContract:
    def setting(name: str, broker_name: str, default: str) -> str:
        return topic.config.get(name, broker.get(broker_name, default))

    unclean = setting(UNCLEAN, UNCLEAN, "false") == "true"
    policy = setting("cleanup.policy", "log.cleanup.policy", "delete")
    return TopicContract(
        topic=topic.name,
        replicas=topic.replicas,
        min_insync_replicas=int(setting(MIN_INSYNC, MIN_INSYNC, "2")),
        unclean_election=unclean or _elected_by_hand(scenario, topic.name),
        retention_ms=int(setting("retention.ms", "log.retention.ms", str(RETENTION_MS_DEFAULT))),
        retention_bytes=int(setting("retention.bytes", "log.retention.bytes", "-1")),
        segment_bytes=int(setting("segment.bytes", "log.segment.bytes", str(SEGMENT_BYTES_DEFAULT))),
        compacted="compact" in policy,
        deletes="delete" in policy,
        delete_retention_ms=int(
            setting(DELETE_RETENTION, f"log.cleaner.{DELETE_RETENTION}", str(DELETE_RETENTION_MS_DEFAULT))
        ),
        compaction_lag_ms=int(setting(MIN_COMPACTION_LAG, f"log.cleaner.{MIN_COMPACTION_LAG}", "0")),
        timestamp_type=timestamp_type(setting(TIMESTAMP_TYPE, f"log.{TIMESTAMP_TYPE}", "CreateTime")),
        delete_records=scenario.allowed_anomalies.delete_records
        and _named(scenario, DELETE_RECORDS, topic.name, without=True),
        flush_messages=unless_never(setting("flush.messages", "log.flush.interval.messages", str(LONG_MAX))),
        flush_ms=flush_within_ms(setting("flush.ms", "log.flush.interval.ms", ""), broker),
        tiered=is_tiered(topic),
        tier_off=any(step.do == TIER_OFF and step.args.get("topic") == topic.name for step in scenario.steps),
        last_replica=scenario.allowed_anomalies.last_replica,
        codec=setting(COMPRESSION_TYPE, COMPRESSION_TYPE, PRODUCER_CODEC),
    )


def _internal_contract(scenario: Scenario, name: str) -> InternalContract:
    topic = next(topic for topic in internal_topics(scenario.shape) if topic.name == name)
    promised = _topic_contract(topic, scenario.shape.config, scenario)
    return InternalContract(
        partitions=topic.partitions,
        replicas=promised.replicas,
        min_insync_replicas=promised.min_insync_replicas,
        unclean_election=promised.unclean_election,
    )


def _elected_by_hand(scenario: Scenario, topic: str) -> bool:
    """Whether a step forces an unclean election on the topic, and the scenario permits it."""
    return scenario.allowed_anomalies.unclean_election and _named(scenario, ELECT_UNCLEAN, topic)


def _named(scenario: Scenario, do: str, topic: str, *, without: bool = False) -> bool:
    """Whether a step of this kind names the topic, or every topic. without: the answer for a scenario without such a
    step, in which a client may do the same."""
    on = [step.args.get("on") for step in scenario.steps if step.do == do]
    return any(not places or topic in topics_in(places) for places in on) if on else without


def topics_in(places: object) -> set[str]:
    """The topics of an argument that names places: "plain/0", or a list of such texts."""
    named = places if isinstance(places, list | tuple) else [places] if isinstance(places, str) else []
    return {str(place).rpartition("/")[0] for place in named}


def timestamp_type(kafka_name: str) -> TimestampType:
    """How a contract names a value of message.timestamp.type."""
    return APPEND_TIME if kafka_name == "LogAppendTime" else "create"


def _processor_contract(name: str, plan: Processing) -> ProcessorContract:
    return ProcessorContract(
        processor=name, group=plan.group, commits=cast("CommitsOfProcessor", plan.commits), reads=plan.reads
    )


def _share_contract(scenario: Scenario, group: str) -> ShareContract:
    members = scenario.share_groups[group]

    def setting(name: str, default: int) -> int:
        return int(members[0].group_config.get(name) or scenario.shape.config.get(f"group.{name}") or default)

    return ShareContract(
        group=group,
        topics=tuple(dict.fromkeys(topic for member in members for topic in member.topics)),
        isolation=cast("Isolation", members[0].isolation),
        limit=setting(DELIVERY_LIMIT, DELIVERY_LIMIT_DEFAULT),
        lock_ms=setting(LOCK, LOCK_MS_DEFAULT),
        reset=cast("ShareReset", share_reset(members)),
    )


def share_reset(members: Sequence[Reader]) -> str:
    """Where a share group with these members begins. The harness sets it in every group, because Kafka's default is
    `latest`."""
    return members[0].group_config.get(SHARE_RESET, "earliest")


def has_epoch_each(producer: Producer, scenario: Scenario) -> bool:
    """Whether each of its transactions has an epoch (transaction.version 2, KIP-890): the release's own client, from
    4.0 on.
    """
    speaks = producer.client == JAVA and numbers_of(scenario.since or "0") >= EPOCH_EACH_SINCE
    return producer.transactions is not None and speaks and scenario.shape.features.get(TRANSACTION_VERSION, 2) > 1


def _producer_contract(producer: Producer, scenario: Scenario) -> ProducerContract:
    return ProducerContract(
        producer=producer.name,
        acks=cast("Acks", producer.acks),
        idempotent=producer.idempotent or producer.transactions is not None,
        transactional=producer.transactions is not None,
        backdated_ms=producer.backdated_s * 1000,
        epoch_each=has_epoch_each(producer, scenario),
        retries=producer.retries > 0,
        one_in_flight=producer.in_flight == 1,
    )
