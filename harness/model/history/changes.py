"""The changes in a cluster's history, one row each.

`offset` is the offset of the record in the metadata log. The log is totally ordered, so the order of the rows is exact.
`time_ns` is the clock of the controller that wrote the record. Clocks of different controllers may differ, so a time
may be lower than the one before it, and a broker applies a record only later than that.

Rows with `from_snapshot` describe the state that a snapshot contains. The changes that led to it are not known; offset
and time of these rows are those of the last record in the snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from harness.model.history.log import Fields

NO_LEADER: Final = -1
HIDDEN: Final = "[hidden]"  # in place of a value that may be a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    time_ns: int
    offset: int
    controller_epoch: int  # the epoch of the quorum's leader that wrote the record
    from_snapshot: bool = False


class TopicEvent(StrEnum):
    CREATED = "created"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange(Change):
    event: TopicEvent
    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange(Change):
    """The whole state of a partition after the change. `created` marks the first row of a partition."""

    topic: str
    topic_id: str
    partition: int
    leader: int  # NO_LEADER if it has none
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]  # eligible leader replicas (KIP-966)
    last_known_elr: tuple[int, ...]
    recovering: bool  # the leader recovery state (KIP-704): the leader was elected uncleanly and still recovers
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    directories: tuple[str, ...]  # of the replicas, in their order (KIP-858); empty if they are not known
    created: bool = False


class BrokerEvent(StrEnum):
    REGISTERED = "registered"
    FENCED = "fenced"
    UNFENCED = "unfenced"
    SHUTTING_DOWN = "shutting_down"  # in controlled shutdown
    DIRECTORIES = "directories"  # its log directories changed
    UNREGISTERED = "unregistered"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange(Change):
    """The whole registration of a broker after the event. A record with two effects makes two rows."""

    event: BrokerEvent
    broker: int
    broker_epoch: int
    incarnation: str  # of the process
    fenced: bool
    shutting_down: bool
    rack: str | None
    directories: tuple[str, ...]  # the log directories that are online
    cordoned: tuple[str, ...] = ()  # log directories that take no new replicas


class ControllerEvent(StrEnum):
    REGISTERED = "registered"
    UNREGISTERED = "unregistered"
    LEADS = "leads"  # it was elected leader of the quorum, and is the active controller
    VOTERS = "voters"  # the set of voters changed (KIP-853)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerChange(Change):
    event: ControllerEvent
    controller: int  # -1 for `voters`
    incarnation: str | None = None  # of a registered controller
    voters: tuple[int, ...] = ()  # those of a new leader, or the new set


class ResourceKind(StrEnum):
    TOPIC = "topic"
    BROKER = "broker"  # without a name: the default of all brokers
    BROKER_LOGGER = "broker_logger"
    CLIENT_METRICS = "client_metrics"
    GROUP = "group"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange(Change):
    """A dynamic setting. `value` None = it was removed; HIDDEN = it may be a secret."""

    kind: ResourceKind
    name: str  # of the topic, broker or group; "" with the kind `broker` is the default of all brokers
    key: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureChange(Change):
    """The finalized level of a feature; 0 = it was removed. `kraft.version` is the version of the quorum."""

    feature: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherChange(Change):
    """A record that the history does not need: quotas, credentials, access rules, producer ids. Only its kind is kept,
    because its content may be a secret."""

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock(Change):
    """A block of producer ids for one broker (KIP-730). `next_id` is the first one behind the block.

    broker: -1 = no broker has these ids; the clusters of the harness begin with such a record.
    """

    broker: int
    next_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownChange(Change):
    """A committed record that this harness cannot decode. The history may be wrong from here on."""

    frame: int | None
    key: int | None
    version: int | None
    why: str


AnyChange: TypeAlias = (
    TopicChange
    | PartitionChange
    | BrokerChange
    | ControllerChange
    | ConfigChange
    | FeatureChange
    | OtherChange
    | UnknownChange
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A record that a node has written and that is not known to be committed. It took no effect on any broker."""

    node: int
    offset: int
    epoch: int
    time_ns: int
    kind: str
    fields: Fields  # empty for kinds with content that may be a secret, and for unreadable records


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A committed record without effect, because its metadata transaction was aborted or has no end (KIP-868)."""

    offset: int
    epoch: int
    time_ns: int
    kind: str
    aborted: bool  # False: the transaction has no end


class ProblemKind(StrEnum):
    TORN_END = "torn_end"  # the files of a node have bytes behind the last batch that can be read
    BAD_SNAPSHOT = "bad_snapshot"  # a snapshot that cannot be used
    MISSING_VOTER = "missing_voter"  # the log of a voter was not given
    MISSING_RECORDS = "missing_records"  # committed records that no node has kept and that no snapshot covers
    MISSING_END = "missing_end"  # no log reaches the reported high watermark
    CONFLICT = "conflict"  # two nodes have different committed records at one offset
    IMPOSSIBLE = "impossible"  # a record that does not fit the state before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that makes the history incomplete or doubtful."""

    kind: ProblemKind
    node: int | None
    offset: int
    detail: str
