"""The settings of topics, producers and consumers that decide which records may be lost, duplicated or unavailable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from harness.model.contract.flushing import LONG_MAX, NEVER, flushed_within_ms
from harness.model.contract.kafka_defaults import DELETE_RETENTION_MS_DEFAULT, RETENTION_MS_DEFAULT
from harness.model.errors import BadInput
from harness.model.scenario.scenario import IN_FLIGHT_DEFAULT, RETRIES_MAX

Acks = Literal["0", "1", "all"]
Reset = Literal["earliest", "latest", "none"]  # auto.offset.reset, in Kafka's words
Isolation = Literal["read_committed", "read_uncommitted"]
# When a consumer commits records: automatically, by an application that processes each poll before the next one
# ("auto") or that polls ahead ("auto_ahead"); after or before it processes them; in the transaction of its output; or
# record by record in a share group.
Commits = Literal["auto", "auto_ahead", "after", "before", "transaction", "share"]

ACKS: Final[tuple[Acks, ...]] = ("0", "1", "all")
RESETS: Final[tuple[Reset, ...]] = ("earliest", "latest", "none")
ISOLATIONS: Final[tuple[Isolation, ...]] = ("read_committed", "read_uncommitted")
COMMITS: Final[tuple[Commits, ...]] = get_args(Commits)
# For an idempotent producer: brokers remember the last five batches of each (KIP-98).
IN_FLIGHT_MAX: Final = 5
# The largest numbers that Kafka's settings have.
_SHORT_MAX: Final = 2**15 - 1
_INT_MAX: Final = 2**31 - 1
AS_RETENTION: Final = -2  # value of local.retention.ms and local.retention.bytes: the same as without "local."


def _at_most(settings: Mapping[str, int], most: int) -> None:
    """BadInput on a number that is too large for the type of the setting in Kafka."""
    for name, value in settings.items():
        if value > most:
            raise BadInput(f"{name} is {value}; it must be at most {most}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Settings of a topic. -1 = never, or no limit. elr: eligible leader replicas (KIP-966), a feature of the cluster.

    The defaults are Kafka's own, except for the replication factor, which is 3, and for elr, which is on in clusters
    that were formatted by 4.1 or later.
    """

    replicas: int = 3
    min_isr: int = 1
    unclean: bool = False
    elr: bool = False
    flush_messages: int = -1
    flush_ms: int = -1
    flush_scheduler_ms: int = -1  # log.flush.scheduler.interval.ms: how often brokers check flush.ms
    retention_ms: int = RETENTION_MS_DEFAULT
    retention_bytes: int = -1
    deletes: bool = True  # cleanup.policy has "delete"
    compacted: bool = False
    delete_retention_ms: int = DELETE_RETENTION_MS_DEFAULT  # how long a tombstone stays
    compaction_lag_ms: int = 0  # how long a record stays after a newer one of its key
    tiered: bool = False  # remote.storage.enable
    local_retention_ms: int = AS_RETENTION
    local_retention_bytes: int = AS_RETENTION
    append_time: bool = False  # the leader sets the timestamp of a record, not the producer
    keeps_offsets: bool = False  # the topic is __consumer_offsets
    keeps_tier: bool = False  # the topic is __remote_log_metadata

    def __post_init__(self) -> None:
        for name, value in (("the replication factor", self.replicas), ("min.insync.replicas", self.min_isr)):
            if value < 1:
                raise BadInput(f"{name} is {value}; it must be 1 or more")
        _at_most({"the replication factor": self.replicas}, _SHORT_MAX)
        _at_most({"min.insync.replicas": self.min_isr}, _INT_MAX)
        limits = {
            "flush.messages": (self.flush_messages, 1),
            "flush.ms": (self.flush_ms, 0),
            "log.flush.scheduler.interval.ms": (self.flush_scheduler_ms, 0),
            "retention.ms": (self.retention_ms, 0),
            "retention.bytes": (self.retention_bytes, 0),
        }
        for name, (value, least) in limits.items():
            if value < least and value != NEVER:
                raise BadInput(f"{name} is {value}; it must be {least} or more, or {NEVER} for never or no limit")
        local = {"ms": self.local_retention_ms, "bytes": self.local_retention_bytes}
        for unit, value in local.items():
            if value < AS_RETENTION:
                raise BadInput(
                    f"local.retention.{unit} is {value}; it must be {AS_RETENTION} (the value of retention.{unit}) or "
                    "more"
                )
        whole = {"delete.retention.ms": self.delete_retention_ms, "min.compaction.lag.ms": self.compaction_lag_ms}
        for name, value in whole.items():
            if value < 0:
                raise BadInput(f"{name} is {value}; it must be 0 or more")
        numbers = {name: value for name, (value, _) in limits.items()} | whole
        _at_most(numbers | {f"local.retention.{unit}": value for unit, value in local.items()}, LONG_MAX)

    def __str__(self) -> str:
        effective = f" (effectively {self.needed})" if self.needed < self.min_isr else ""
        words = [f"{self.replicas} replica{'s' if self.replicas > 1 else ''}"]
        words.append(f"min.insync.replicas={self.min_isr}{effective}")
        words.append("unclean elections" if self.unclean else "clean elections only")
        words.append(f"ELR {'on' if self.elr else 'off'}")
        words += [f"flush.messages={self.flush_messages}"] if self.flush_messages > 0 else []
        if self.flushed_within_ms > 0:
            words.append(f"on disk within {self.flushed_within_ms} ms")
        elif self.flush_ms >= 0:
            words.append(f"flush.ms={self.flush_ms} without effect")
        kept_long = self.retention_ms == RETENTION_MS_DEFAULT
        words += [f"retention.ms={self.retention_ms}"] if self.deletes and not kept_long else []
        words += [f"retention.bytes={self.retention_bytes}"] if self.deletes and self.retention_bytes >= 0 else []
        words += ["message.timestamp.type=LogAppendTime"] if self.append_time else []
        words += [("compacted and deleted" if self.deletes else "compacted")] if self.compacted else []
        words += [f"local.retention.bytes={self.local_retention_bytes}"] if self.tiered else []
        by_time = self.tiered and self.local_retention_ms != AS_RETENTION
        words += [f"local.retention.ms={self.local_retention_ms}"] if by_time else []
        if self.compacted and self.delete_retention_ms != DELETE_RETENTION_MS_DEFAULT:
            words.append(f"delete.retention.ms={self.delete_retention_ms}")
        if self.compacted and self.compaction_lag_ms > 0:
            words.append(f"min.compaction.lag.ms={self.compaction_lag_ms}")
        return ", ".join(words)

    @property
    def needed(self) -> int:
        """How many replicas have to be in sync: at most the replication factor (KAFKA-15583).

        Before 3.7 the leader accepted no record with acks=all if min.insync.replicas was above the replication factor.
        """
        return min(self.min_isr, self.replicas)

    @property
    def keeps_local(self) -> bool:
        """Whether brokers keep the whole log on their own disks, in addition to the remote tier (KIP-405)."""
        by_time = self.local_retention_ms in (AS_RETENTION, self.retention_ms)
        return by_time and self.local_retention_bytes in (AS_RETENTION, self.retention_bytes)

    @property
    def remembers(self) -> bool:
        """Whether a replica that leaves the ISR when it falls below min.insync.replicas stays eligible (KIP-966)."""
        return self.elr and self.needed > 1

    @property
    def flushed_within_ms(self) -> int:
        """Within which time a record is flushed. -1 = not by time: flush.ms alone has no effect."""
        return flushed_within_ms(self.flush_ms, self.flush_scheduler_ms)

    @property
    def flushes_each(self) -> bool:
        """Whether every replica flushes each record before it acknowledges it."""
        return self.flush_messages == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Settings of a producer and of a consumer. retries = 0: the producer sends each record once.

    The producer's defaults are Kafka's own. Kafka's consumer would use read_uncommitted and commit automatically.
    """

    acks: Acks = "all"
    idempotent: bool = True
    retries: int = RETRIES_MAX
    in_flight: int = IN_FLIGHT_DEFAULT
    transactional: bool = False
    transaction_version: int = 2  # of the producer (KIP-890); below 2 its transactions share an epoch
    long_transactional_id_expiration: bool = (
        False  # transactional.id.expiration.ms is above the producer's longest pause
    )
    long_transaction_timeout: bool = False  # transaction.timeout.ms is above the producer's longest transaction
    long_producer_id_expiration: bool = False  # producer.id.expiration.ms is above its delivery.timeout.ms
    long_delivery_timeout: bool = False  # its delivery.timeout.ms is above the longest failover
    isolation: Isolation = "read_committed"
    commits: Commits = "after"
    reset: Reset = "latest"
    group_never_empty: bool = False  # the consumer's group always has a member
    reads_within_compaction_lag: bool = False  # a compacted topic is read within its min.compaction.lag.ms

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise BadInput(f"retries is {self.retries}; give --retries 0 or more")
        if self.in_flight < 1:
            raise BadInput(f"max.in.flight.requests.per.connection is {self.in_flight}; give --in-flight 1 or more")
        _at_most({"retries": self.retries, "max.in.flight.requests.per.connection": self.in_flight}, _INT_MAX)
        if self.transactional and not self.idempotent:
            raise BadInput("a transactional producer must be idempotent: leave out --no-idempotent")
        without = "no --transactional" if self.transactional else "--no-idempotent"
        if self.idempotent and self.acks != "all":
            raise BadInput(f"idempotence needs acks=all: give --acks all, or {without}")
        if self.idempotent and (self.retries == 0 or self.in_flight > IN_FLIGHT_MAX):
            raise BadInput(
                f"idempotence needs retries and at most {IN_FLIGHT_MAX} requests in flight: give --retries 1 or more "
                "and "
                f"--in-flight {IN_FLIGHT_MAX} or less, or {without}"
            )
        if self.commits == "transaction" and not self.transactional:
            raise BadInput("only a transactional producer commits offsets in a transaction: give --transactional")

    @property
    def consumer(self) -> str:
        """The consumer as text: what it does, after "a consumer that"."""
        how = {
            "auto": "commits automatically, processes each poll before the next one",
            "auto_ahead": "commits automatically, polls again while it processes",
            "transaction": "commits in its transactions",
            "share": "accepts each record that it processes in a share group",
        }
        return f"{how.get(self.commits, f'commits {self.commits} it processes')}, {self.isolation}"

    def __str__(self) -> str:
        words = [f"acks={self.acks}"]
        words.append("transactional" if self.transactional else "idempotent" if self.idempotent else "not idempotent")
        if not self.idempotent:
            words.append(f"{self.in_flight} in flight" if self.retries else "no retries")
        elif self.in_flight < IN_FLIGHT_MAX:
            words.append(f"{self.in_flight} in flight")
        return ", ".join(words)
