"""`contract` in run.json: what is promised per topic, producer and group. Excuses are derived from it.

harness.model.contract.contract derives it from a scenario. A record with a default was added later: bundles without it
promise what the default says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import field

from harness.model.contract.flushing import NEVER
from harness.model.contract.kafka_defaults import (
    DELETE_RETENTION_MS_DEFAULT,
    LOCK_MS_DEFAULT,
    OFFSETS_RETENTION_DEFAULT,
    PRODUCER_CODEC,
    PRODUCER_EXPIRATION_MS_DEFAULT,
    RETENTION_MS_DEFAULT,
    START_CHECKPOINT_MS_DEFAULT,
)
from harness.model.documents.record import Acks, Isolation, OfPlace, Record, meaning

TimestampType = Literal["create", "append"]
CommitsOfProcessor = Literal["transaction", "after", "before"]
ShareReset = Literal["earliest", "latest"]  # share.auto.offset.reset
Setting = Annotated[object, meaning("as the scenario writes it")]


class TopicContract(Record, frozen=True, kw_only=True):
    """The promise for a topic."""

    topic: Annotated[str, meaning("its name")]
    replicas: Annotated[int, meaning("how many replicas each partition has")]
    min_insync_replicas: Annotated[int, meaning("min.insync.replicas")]
    unclean_election: Annotated[bool, meaning("whether a replica that is not in sync may become the leader")]
    retention_ms: Annotated[int, meaning("retention.ms; -1 = no limit")]
    retention_bytes: Annotated[int, meaning("retention.bytes; -1 = no limit")]
    segment_bytes: Annotated[int, meaning("segment.bytes")]
    compacted: Annotated[bool, meaning('cleanup.policy has "compact"')]
    timestamp_type: Annotated[
        TimestampType,
        meaning("`create`: the producer sets timestamps (CreateTime); `append`: the broker (LogAppendTime)"),
    ]
    delete_records: Annotated[bool, meaning("the scenario deletes records on purpose")]
    flush_messages: Annotated[
        int, meaning("every replica flushes a record within so many records of its log; -1 = never")
    ] = NEVER
    flush_ms: Annotated[int, meaning("every replica flushes a record within so long; -1 = never")] = NEVER
    tiered: Annotated[bool, meaning("rolled segments move to the remote tier (KIP-405)")] = False
    tier_off: Annotated[bool, meaning("a step takes the topic out of the remote tier on purpose (KIP-950)")] = False
    deletes: Annotated[bool, meaning('cleanup.policy has "delete"')] = True
    delete_retention_ms: Annotated[int, meaning("how long a tombstone stays")] = DELETE_RETENTION_MS_DEFAULT
    compaction_lag_ms: Annotated[int, meaning("how long a record stays after a newer one of its key")] = 0
    last_replica: Annotated[
        bool,
        meaning(
            "records that the last replica in sync lost while it was down may be missing, on a cluster without ELR "
            "(KIP-966)"
        ),
    ] = False
    codec: Annotated[
        str, meaning("compression.type: batches on disk have this codec; `producer` = the one they were sent with")
    ] = PRODUCER_CODEC

    @property
    def lasting(self) -> bool:
        """Whether no election, no cleaner and no request removes a record that was acknowledged with acks=all."""
        return not (self.unclean_election or self.compacted or self.delete_records)


class ProducerContract(Record, frozen=True, kw_only=True):
    """The promise to a producer."""

    producer: Annotated[str, meaning("its name")]
    acks: Annotated[Acks, meaning("as in `reservations`")]
    idempotent: Annotated[bool, meaning("as in `reservations`")]
    transactional: Annotated[bool, meaning("as in `reservations`")]
    backdated_ms: Annotated[int, meaning("timestamps of its records are that long before the send")] = 0
    epoch_each: Annotated[
        bool, meaning("each of its transactions has a producer epoch of its own (KIP-890, transaction.version 2)")
    ] = False
    retries: Annotated[bool, meaning("it retries requests without an answer; false = it sends each record once")] = True
    one_in_flight: Annotated[bool, meaning("it waits for each request to a broker before the next one")] = False
    new_epoch_retries: Annotated[
        bool,
        meaning(
            "its client may send a record again under a new producer id or epoch; has no effect for the release's own "
            "client"
        ),
    ] = False


class ExactLosses(OfPlace, frozen=True, kw_only=True):
    """Exactly so many acked records are lost in one partition: those at or above the surviving log end."""

    count: Annotated[int, meaning("how many")]


class ReaderContract(Record, frozen=True, kw_only=True):
    """The promise to a reader in a group."""

    reader: Annotated[str, meaning("its name")]
    group: Annotated[str, meaning("its group")]
    at_most_once: Annotated[
        bool, meaning("a record may be committed before it is processed, and is skipped if the reader dies")
    ]
    reset: Annotated[
        str,
        meaning('where the client begins if the group has no offset (auto.offset.reset); `""` = from the start'),
    ] = ""


class ProcessorContract(Record, frozen=True, kw_only=True):
    """The promise to a producer that writes one record for each it receives."""

    processor: Annotated[str, meaning("its name")]
    group: Annotated[str, meaning("the group in which it reads")]
    commits: Annotated[
        CommitsOfProcessor,
        meaning("when it commits offsets: in the transaction of its output, after its output, or before it"),
    ]
    reads: Annotated[tuple[str, ...], meaning("the topics that it reads")]


class ShareContract(Record, frozen=True, kw_only=True):
    """The promise to a share group (KIP-932): it receives every record of its topics at least once, from where it
    begins."""

    group: Annotated[str, meaning("its name")]
    topics: Annotated[tuple[str, ...], meaning("its topics")]
    isolation: Annotated[Isolation, meaning("as in `observations`")]
    limit: Annotated[
        int, meaning("the number of deliveries after which a record that no member accepted or rejected is archived")
    ]
    lock_ms: Annotated[int, meaning("how long a record that a member received is not delivered to another one")] = (
        LOCK_MS_DEFAULT
    )
    reset: Annotated[
        ShareReset,
        meaning(
            "share.auto.offset.reset of the group; with `latest` it need not receive what was written before it began"
        ),
    ] = "earliest"


class InternalContract(Record, frozen=True, kw_only=True):
    """The promise for one of Kafka's own topics, and so for the state that brokers keep there."""

    partitions: Annotated[int, meaning("how many partitions it has")]
    replicas: Annotated[int, meaning("how many replicas each partition has")]
    min_insync_replicas: Annotated[int, meaning("min.insync.replicas")]
    unclean_election: Annotated[bool, meaning("whether a replica that is not in sync may become the leader")]


class OffsetsContract(InternalContract, frozen=True, kw_only=True):
    """The promise for __consumer_offsets, and so for the offsets that groups commit."""

    retention_minutes: Annotated[int, meaning("offsets.retention.minutes, of a group without members")] = (
        OFFSETS_RETENTION_DEFAULT
    )


class Change(Record, frozen=True, kw_only=True):
    """A step of the declared scenario that changes settings of a topic. Its row in steps.json says when."""

    step: Annotated[str, meaning("name of the step")]
    topic: Annotated[str, meaning("the topic")]
    config: Annotated[dict[str, Setting], meaning("its settings from then on")]


class Contract(Record, frozen=True, kw_only=True):
    """The promises of a run, as they are at its beginning."""

    topics: Annotated[dict[str, TopicContract], meaning("the topics by their names")]
    producers: Annotated[dict[str, ProducerContract], meaning("the producers by their names")]
    exact_losses: Annotated[
        tuple[ExactLosses, ...],
        meaning("exactly so many acked records are lost there: those at or above the surviving log end"),
    ]
    changes: Annotated[
        tuple[Change, ...] | None,
        meaning(
            "steps by which the declared scenario changes settings of a topic, see below; null = the bundle does not "
            "say which ones were declared"
        ),
    ] = None
    deletions: Annotated[
        tuple[str, ...], meaning("names of the steps by which the declared scenario deletes a topic")
    ] = ()
    group_deletions: Annotated[tuple[str, ...], meaning("names of those by which it deletes a group")] = ()
    object_deletions: Annotated[
        tuple[str, ...], meaning("names of those by which it deletes objects of the remote tier")
    ] = ()
    readers: Annotated[dict[str, ReaderContract], meaning("readers in groups, by their names")] = field(
        default_factory=dict
    )
    processors: Annotated[
        dict[str, ProcessorContract], meaning("producers that make their records of others, by their names")
    ] = field(default_factory=dict)
    shares: Annotated[dict[str, ShareContract], meaning("share groups by their names")] = field(default_factory=dict)
    offsets: Annotated[
        OffsetsContract | None,
        meaning("of `__consumer_offsets`; without it no committed offset may be lost"),
    ] = None
    tier: Annotated[
        InternalContract | None,
        meaning("of `__remote_log_metadata`; without it no metadata of a copy may be lost"),
    ] = None
    unclean_internal: Annotated[
        tuple[str, ...] | None,
        meaning(
            "those of Kafka's own topics on which a replica that is not in sync may lead; null = of topics "
            "without an entry above it is unknown"
        ),
    ] = None
    producer_expiration_ms: Annotated[
        int,
        meaning("producer.id.expiration.ms, after which brokers drop the state of a producer that wrote nothing"),
    ] = PRODUCER_EXPIRATION_MS_DEFAULT
    start_checkpoint_ms: Annotated[
        int,
        meaning("log.flush.start.offset.checkpoint.interval.ms, how often brokers write the log start offset to disk"),
    ] = START_CHECKPOINT_MS_DEFAULT

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
