"""The contract of a scenario: what is promised per topic, producer and group. Excuses are derived from it.

It is derived from the scenario *as declared*, never from its negative control. Sources: KIP-98 (idempotence,
transactions), KIP-966 (ELR, last replica standing), the broker documentation of acks, min.insync.replicas,
unclean.leader.election.enable, retention.ms, retention.bytes, cleanup.policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, Final

from harness.model.contract.flushing import LONG_MAX, NEVER, flush_within_ms, unless_never
from harness.model.contract.internal_topics import OFFSETS, TIER_METADATA, InternalContract, internal_topics
from harness.model.errors import BadInput
from harness.model.scenario.scenario import (
    AUTO_AHEAD,
    JAVA,
    Config,
    ExactLoss,
    Processing,
    Producer,
    Scenario,
    Step,
    Topic,
)
from harness.model.scenario.tier_rules import DELETE_OBJECTS, is_tiered
from harness.model.version import numbers_of

# Kafka's defaults of settings that decide what is promised.
PRODUCER_EXPIRATION_MS_DEFAULT: Final = 24 * 3600 * 1000
PRODUCER_EXPIRATION: Final = "producer.id.expiration.ms"
OFFSETS_RETENTION: Final = "offsets.retention.minutes"
OFFSETS_RETENTION_DEFAULT: Final = 7 * 24 * 60
# From this version on, with this feature at level 2, the release's own client has an epoch for each transaction
# (KIP-890).
EPOCH_EACH_SINCE: Final = (4, 0)
TRANSACTION_VERSION: Final = "transaction.version"
DELETE_RETENTION: Final = "delete.retention.ms"
DELETE_RETENTION_MS_DEFAULT: Final = 24 * 3600 * 1000
# How often brokers write their log start offsets to disk.
START_CHECKPOINT: Final = "log.flush.start.offset.checkpoint.interval.ms"
START_CHECKPOINT_MS_DEFAULT: Final = 60_000
MIN_COMPACTION_LAG: Final = "min.compaction.lag.ms"
DELIVERY_LIMIT: Final = "share.delivery.count.limit"
DELIVERY_LIMIT_DEFAULT: Final = 5
LOCK: Final = "share.record.lock.duration.ms"
LOCK_MS_DEFAULT: Final = 30_000
RETENTION_MS_DEFAULT = 7 * 24 * 3600 * 1000
SEGMENT_BYTES_DEFAULT = 1 << 30

TIMESTAMP_TYPE: Final = "message.timestamp.type"
APPEND_TIME: Final = "append"  # how a contract names LogAppendTime
COMPRESSION_TYPE: Final = "compression.type"
PRODUCER_CODEC: Final = "producer"
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
    "unclean.leader.election.enable": ("true", "false"),
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
TIER_OFF: Final = "tier_off"  # takes a topic out of the remote tier
ALTER_TOPIC: Final = "alter_topic"  # changes settings, and so the promise, during the run

# The producer of the last record of each partition before the drain. No scenario names it; its promise is the
# strictest.
SENTINEL = "sentinel"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicContract:
    """The promise for a topic. retention_ms or retention_bytes of -1 means no limit, as in Kafka."""

    topic: str
    replicas: int
    min_insync_replicas: int
    unclean_election: bool
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    compacted: bool  # cleanup.policy has "compact"
    timestamp_type: str  # "create" | "append"
    delete_records: bool
    # Every replica flushes a record within so many records of its log, and within so long; -1 = never.
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    tiered: bool = False  # rolled segments move to the remote tier (KIP-405)
    tier_off: bool = False  # a step deletes the records that only the tier has (KIP-950)
    deletes: bool = True  # cleanup.policy has "delete"
    delete_retention_ms: int = DELETE_RETENTION_MS_DEFAULT  # how long a tombstone stays
    compaction_lag_ms: int = 0  # how long a record stays after a newer one of its key
    last_replica: bool = False  # the last in-sync replica may return without its tail (no ELR, KIP-966)
    codec: str = PRODUCER_CODEC  # of batches on disk; "producer" = as they were sent


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerContract:
    """The promise to a producer."""

    producer: str
    acks: str
    idempotent: bool
    transactional: bool
    backdated_ms: int = 0  # its records' timestamps are that long before the send
    epoch_each: bool = False  # it has an epoch for each of its transactions (KIP-890, transaction.version 2)
    retries: bool = True  # it retries requests without an answer
    one_in_flight: bool = False  # it waits for each request to a broker before the next one
    new_epoch_retries: bool = False  # its client may send a record again under a new producer id or epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderContract:
    """The promise to a reader in a group.

    at_most_once: a record may be committed before it is processed, and is skipped if the reader dies. reset: where the
    client begins if the group has no offset (auto.offset.reset); "" = it reads from the start.
    """

    reader: str
    group: str
    at_most_once: bool
    reset: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorContract:
    """The promise to a producer that writes one record for each it receives. commits: see
    `scenario.Processing`.
    """

    processor: str
    group: str
    commits: str
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsContract(InternalContract):
    """The promise for __consumer_offsets, and so for the offsets that groups commit."""

    retention_minutes: int = OFFSETS_RETENTION_DEFAULT  # of the offsets of a group without members


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareContract:
    """The promise to a share group (KIP-932): it receives every record of its topics at least once.

    limit: the number of deliveries after which a record that no member accepted is archived. lock_ms: how long a record
    that a member received is not delivered to another one.
    """

    group: str
    topics: tuple[str, ...]
    isolation: str
    limit: int
    lock_ms: int = LOCK_MS_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A step of the declared scenario that changes settings of a topic. Its row in steps.json says when."""

    step: str
    topic: str
    config: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The promises of a run, as they are at its beginning.

    changes: None = the bundle does not say which ones were declared. deletions: steps of the declared scenario that
    delete a topic: its records are not promised any more. producer_expiration_ms: how long brokers keep the state of
    a producer that writes nothing. start_checkpoint_ms: how often they write their log start offsets to disk.
    """

    topics: dict[str, TopicContract]
    producers: dict[str, ProducerContract]
    exact_losses: tuple[ExactLoss, ...] = ()
    changes: tuple[Change, ...] | None = None
    deletions: tuple[str, ...] = ()
    readers: dict[str, ReaderContract] = field(default_factory=dict)
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS_DEFAULT
    start_checkpoint_ms: int = START_CHECKPOINT_MS_DEFAULT
    processors: dict[str, ProcessorContract] = field(default_factory=dict)
    group_deletions: tuple[str, ...] = ()  # steps of the declared scenario that delete a group
    object_deletions: tuple[str, ...] = ()  # steps that delete objects of the remote tier
    offsets: OffsetsContract | None = None  # None = the bundle does not say, so no loss is permitted
    shares: dict[str, ShareContract] = field(default_factory=dict)
    tier: InternalContract | None = None  # for the metadata of the remote tier; None as for `offsets`

    def changed(self, topic: str, keys: Iterable[str]) -> bool:
        """Whether a declared step changes one of these settings of the topic."""
        return any(c.topic == topic and c.config.keys() & set(keys) for c in self.changes or ())

    @property
    def may_lose(self) -> bool:
        """Whether acknowledged records may be lost. Then a producer's sequences may get a gap, which is then legal."""
        set_by_step = any(self.changed(name, ("unclean.leader.election.enable",)) for name in self.topics)
        return set_by_step or any(topic.unclean_election or topic.last_replica for topic in self.topics.values())

    def may_jump(self, topic: str) -> bool:
        """Whether the position of a reader of the topic may be deleted or truncated."""
        contract = self.topics[topic]
        limited = contract.retention_bytes >= 0 or 0 <= contract.retention_ms < RETENTION_MS_DEFAULT
        limited = limited or self.changed(topic, ("retention.ms", "retention.bytes", "cleanup.policy"))
        limited = limited or contract.delete_records or contract.compacted or self.may_lose
        alone = min(contract.min_insync_replicas, contract.replicas) == 1
        return limited or (alone and any(loss.topic == topic for loss in self.exact_losses))

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for the bundle's run.json."""
        return asdict(self)


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
    allowed_anomalies = scenario.allowed_anomalies
    return Contract(
        topics={t.name: _topic_contract(t, scenario.shape.config, scenario) for t in scenario.topics},
        producers={p.name: _producer_contract(p, scenario) for p in scenario.producers},
        exact_losses=allowed_anomalies.exact_losses,
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
    )


def contract_from_dict(plain: dict[str, Any]) -> Contract:
    """The inverse of `Contract.as_dict`. Unknown keys are ignored. KeyError or TypeError on any other shape."""
    changes = plain.get("changes")
    return Contract(
        topics={name: TopicContract(**_known(TopicContract, topic)) for name, topic in plain["topics"].items()},
        producers={name: ProducerContract(**_known(ProducerContract, p)) for name, p in plain["producers"].items()},
        exact_losses=tuple(ExactLoss(**_known(ExactLoss, loss)) for loss in plain["exact_losses"]),
        deletions=tuple(plain.get("deletions") or ()),
        group_deletions=tuple(plain.get("group_deletions") or ()),
        object_deletions=tuple(plain.get("object_deletions") or ()),
        offsets=OffsetsContract(**_known(OffsetsContract, plain["offsets"])) if plain.get("offsets") else None,
        tier=InternalContract(**_known(InternalContract, plain["tier"])) if plain.get("tier") else None,
        readers={n: ReaderContract(**_known(ReaderContract, r)) for n, r in (plain.get("readers") or {}).items()},
        processors={
            n: ProcessorContract(**_known(ProcessorContract, p)) for n, p in (plain.get("processors") or {}).items()
        },
        shares={n: ShareContract(**_known(ShareContract, s)) for n, s in (plain.get("shares") or {}).items()},
        changes=None if changes is None else tuple(Change(**_known(Change, change)) for change in changes),
        producer_expiration_ms=int(plain.get("producer_expiration_ms", PRODUCER_EXPIRATION_MS_DEFAULT)),
        start_checkpoint_ms=int(plain.get("start_checkpoint_ms", START_CHECKPOINT_MS_DEFAULT)),
    )


def _change(step: Step) -> Change:
    return Change(step=step.name, topic=str(step.args.get("topic", "")), config=dict(step.args.get("config") or {}))


def _known(kind: type, plain: dict[str, Any]) -> dict[str, Any]:
    """The keys of a dataclass. One with a default may be missing, because older bundles do not have it."""
    return {f.name: plain[f.name] for f in fields(kind) if f.name in plain or f.default is MISSING}


def _topic_contract(topic: Topic, broker: Config, scenario: Scenario) -> TopicContract:
    def setting(name: str, broker_name: str, default: str) -> str:
        return topic.config.get(name, broker.get(broker_name, default))

    unclean = setting("unclean.leader.election.enable", "unclean.leader.election.enable", "false") == "true"
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
        delete_records=scenario.allowed_anomalies.delete_records,
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
    on = [step.args.get("on") or () for step in scenario.steps if step.do == ELECT_UNCLEAN]
    named = any(not places or topic in {place.rpartition("/")[0] for place in places} for places in on)
    return scenario.allowed_anomalies.unclean_election and named


def timestamp_type(kafka_name: str) -> str:
    return APPEND_TIME if kafka_name == "LogAppendTime" else "create"


def _processor_contract(name: str, plan: Processing) -> ProcessorContract:
    return ProcessorContract(processor=name, group=plan.group, commits=plan.commits, reads=plan.reads)


def _share_contract(scenario: Scenario, group: str) -> ShareContract:
    members = scenario.share_groups[group]

    def setting(name: str, default: int) -> int:
        return int(members[0].group_config.get(name) or scenario.shape.config.get(f"group.{name}") or default)

    return ShareContract(
        group=group,
        topics=tuple(dict.fromkeys(topic for member in members for topic in member.topics)),
        isolation=members[0].isolation,
        limit=setting(DELIVERY_LIMIT, DELIVERY_LIMIT_DEFAULT),
        lock_ms=setting(LOCK, LOCK_MS_DEFAULT),
    )


def has_epoch_each(producer: Producer, scenario: Scenario) -> bool:
    """Whether each of its transactions has an epoch (transaction.version 2, KIP-890): the release's own client, from
    4.0 on.
    """
    speaks = producer.client == JAVA and numbers_of(scenario.since or "0") >= EPOCH_EACH_SINCE
    return producer.transactions is not None and speaks and scenario.shape.features.get(TRANSACTION_VERSION, 2) > 1


def _producer_contract(producer: Producer, scenario: Scenario) -> ProducerContract:
    return ProducerContract(
        producer=producer.name,
        acks=producer.acks,
        idempotent=producer.idempotent or producer.transactions is not None,
        transactional=producer.transactions is not None,
        backdated_ms=producer.backdated_s * 1000,
        epoch_each=has_epoch_each(producer, scenario),
        retries=producer.retries > 0,
        one_in_flight=producer.in_flight == 1,
    )
