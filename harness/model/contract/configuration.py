"""A configuration of topic, producer and consumer, as far as it decides what may be lost, repeated or refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from harness.model.contract.contract import DELETE_RETENTION_MS_DEFAULT, RETENTION_MS_DEFAULT
from harness.model.contract.flushing import LONG_MAX, NEVER, flushed_within_ms
from harness.model.errors import BadInput
from harness.model.scenario.scenario import IN_FLIGHT_DEFAULT, RETRIES_MAX

Acks = Literal["0", "1", "all"]
Reset = Literal["earliest", "latest", "none"]  # auto.offset.reset, in Kafka's words
Isolation = Literal["read_committed", "read_uncommitted"]
# When a consumer commits what it was given: its client does (processing each poll before the next, or polling ahead),
# when it is done with it, before that, in the transaction of what it writes, or record by record in a share group.
Commits = Literal["auto", "auto_ahead", "after", "before", "transaction", "share"]

ACKS: Final[tuple[Acks, ...]] = ("0", "1", "all")
RESETS: Final[tuple[Reset, ...]] = ("earliest", "latest", "none")
ISOLATIONS: Final[tuple[Isolation, ...]] = ("read_committed", "read_uncommitted")
COMMITS: Final[tuple[Commits, ...]] = get_args(Commits)
# Of a producer with idempotence (KIP-98; brokers remember the last five batches of each).
IN_FLIGHT_MAX: Final = 5
# The largest numbers that Kafka's settings have.
_SHORT_MAX: Final = 2**15 - 1
_INT_MAX: Final = 2**31 - 1
AS_RETENTION: Final = -2  # of local.retention.ms and local.retention.bytes: brokers have all that the log has


def _at_most(settings: Mapping[str, int], most: int) -> None:
    """BadInput on a number that Kafka could not hold. Below 0 others have looked."""
    for name, value in settings.items():
        if value > most:
            raise BadInput(f"{name} is at most {most}, and not {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """-1 = never, or without limit. elr: eligible leader replicas are remembered (KIP-966), a feature of the cluster.

    The defaults are Kafka's own but for the replication factor, which is that of a topic worth asking about, and for
    elr, which is on in clusters that 4.1 or later formatted.
    """

    replicas: int = 3
    min_isr: int = 1
    unclean: bool = False
    elr: bool = False
    flush_messages: int = -1
    flush_ms: int = -1
    flush_scheduler_ms: int = -1  # log.flush.scheduler.interval.ms of its brokers: nobody looks for flush.ms in between
    retention_ms: int = RETENTION_MS_DEFAULT
    retention_bytes: int = -1
    deletes: bool = True  # cleanup.policy has "delete"
    compacted: bool = False
    delete_retention_ms: int = DELETE_RETENTION_MS_DEFAULT  # of tombstones
    compaction_lag_ms: int = 0  # for so long a record stays that was written again
    tiered: bool = False  # remote.storage.enable
    local_retention_ms: int = AS_RETENTION
    local_retention_bytes: int = AS_RETENTION
    append_time: bool = False  # records bear the time at which their leader got them, and not the producer's
    keeps_offsets: bool = False  # is __consumer_offsets
    keeps_tier: bool = False  # is __remote_log_metadata

    def __post_init__(self) -> None:
        if self.replicas < 1 or self.min_isr < 1:
            raise BadInput("a topic has a replication factor and a min.insync.replicas of 1 or more")
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
                raise BadInput(f"{name} is {least} or more, or {NEVER} for never or without limit, and not {value}")
        local = {"ms": self.local_retention_ms, "bytes": self.local_retention_bytes}
        for unit, value in local.items():
            if value < AS_RETENTION:
                raise BadInput(
                    f"local.retention.{unit} is {AS_RETENTION}, for as retention.{unit}, or more, and not {value}"
                )
        whole = {"delete.retention.ms": self.delete_retention_ms, "min.compaction.lag.ms": self.compaction_lag_ms}
        for name, value in whole.items():
            if value < 0:
                raise BadInput(f"{name} is 0 or more, and not {value}")
        numbers = {name: value for name, (value, _) in limits.items()} | whole
        _at_most(numbers | {f"local.retention.{unit}": value for unit, value in local.items()}, LONG_MAX)

    def __str__(self) -> str:
        words = [f"{self.replicas} replica{'s' if self.replicas > 1 else ''}", f"min.insync.replicas={self.min_isr}"]
        words += (
            [f"of which {self.needed} count{'s' if self.needed == 1 else ''}"] if self.needed < self.min_isr else []
        )
        words.append("unclean elections" if self.unclean else "clean elections only")
        words.append(f"ELR {'on' if self.elr else 'off'}")
        words += [f"flush.messages={self.flush_messages}"] if self.flush_messages > 0 else []
        if self.flushed_within_ms > 0:
            words.append(f"on disk within {self.flushed_within_ms} ms")
        elif self.flush_ms >= 0:
            words.append(f"flush.ms={self.flush_ms}, for which nobody looks")
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
        """How many replicas have to be in sync: since 3.7 no more than there are (KAFKA-15583), before it no record
        with acks=all was taken where min.insync.replicas was more."""
        return min(self.min_isr, self.replicas)

    @property
    def keeps_local(self) -> bool:
        """Whether brokers themselves have all of a log that the remote tier has, too (KIP-405)."""
        by_time = self.local_retention_ms in (AS_RETENTION, self.retention_ms)
        return by_time and self.local_retention_bytes in (AS_RETENTION, self.retention_bytes)

    @property
    def remembers(self) -> bool:
        """Whether who leaves the ISR when it falls below min.insync.replicas may be elected still (KIP-966)."""
        return self.elr and self.needed > 1

    @property
    def flushed_within_ms(self) -> int:
        """-1 = nobody flushes by time: flush.ms alone makes nobody flush."""
        return flushed_within_ms(self.flush_ms, self.flush_scheduler_ms)

    @property
    def flushes_each(self) -> bool:
        """Whether every replica has a record on its disk before it counts."""
        return self.flush_messages == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Of who writes and who reads. retries = 0: a producer that sends each record once.

    The producer's defaults are Kafka's own; its consumer would read_uncommitted and commit automatically.
    """

    acks: Acks = "all"
    idempotent: bool = True
    retries: int = RETRIES_MAX
    in_flight: int = IN_FLIGHT_DEFAULT
    transactional: bool = False
    transaction_version: int = 2  # that the producer speaks (KIP-890); below 2 its transactions share an epoch
    id_outlives: bool = False  # transactional.id.expiration.ms is above the producer's longest pause
    remembered: bool = False  # producer.id.expiration.ms is above its delivery.timeout.ms
    patient: bool = False  # its delivery.timeout.ms is above the longest failover
    isolation: Isolation = "read_committed"
    commits: Commits = "after"
    reset: Reset = "latest"
    stays: bool = False  # somebody is in the consumer's group all the while
    within_lag: bool = False  # whoever reads a compacted topic does so within its min.compaction.lag.ms

    def __post_init__(self) -> None:
        if self.retries < 0 or self.in_flight < 1:
            raise BadInput("a producer has 0 retries or more, and 1 request in flight or more")
        _at_most({"retries": self.retries, "max.in.flight.requests.per.connection": self.in_flight}, _INT_MAX)
        if self.transactional and not self.idempotent:
            raise BadInput("a transactional producer is idempotent: leave out --no-idempotent")
        without = "no --transactional" if self.transactional else "--no-idempotent"
        if self.idempotent and self.acks != "all":
            raise BadInput(f"idempotence needs acks=all: say --acks all, or {without}")
        if self.idempotent and (self.retries == 0 or self.in_flight > IN_FLIGHT_MAX):
            needs = f"idempotence needs retries and at most {IN_FLIGHT_MAX} requests in flight"
            raise BadInput(f"{needs}: change these, or say {without}")
        if self.commits == "transaction" and not self.transactional:
            raise BadInput("offsets are committed in a transaction by a transactional producer: say --transactional")

    @property
    def consumer(self) -> str:
        """In words, what reads."""
        how = {
            "auto": "commits automatically, processes what a poll gave before the next",
            "auto_ahead": "commits automatically, polls on while it processes",
            "transaction": "commits in its transactions",
            "share": "accepts what it processes in a share group",
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
