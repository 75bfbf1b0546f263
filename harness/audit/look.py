"""Looks: what brokers, coordinators, logs and the remote tier showed at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.audit.store.partitions import UNKNOWN, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLook:
    """`offsets.leader_epoch` is that of the leader's answer. A refused look has no offsets, but Kafka's `error`.

    log_ends: log end of each replica, from its own broker; brokers that did not answer are absent.
    epochs: (leader epoch, its first offset) as the leader answered, the oldest first, without epochs that it does not
    know; empty if it was not asked. It was asked before `offsets.log_start`, up to which deletion moves them.
    young_from: retention by time may delete no record at or above this offset before this look was answered. An
    earlier look finds it: the first offset with a timestamp above that time minus retention.ms, which was `young_ms`.
    """

    topic: str
    topic_id: str
    partition: int
    asked_ns: int  # wall clock, before the request was sent
    answered_ns: int  # wall clock, after the answer
    offsets: Offsets = field(default_factory=Offsets)
    stable: int = UNKNOWN  # last stable offset
    log_ends: Mapping[int, int] = field(default_factory=dict)
    error: str | None = None
    epochs: Sequence[tuple[int, int]] = ()
    young_from: int = UNKNOWN
    young_ms: int = UNKNOWN
    size_bytes: int = UNKNOWN  # of the leader's log on its disks


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLook:
    """The committed offset of a group in one partition. A refused look makes no row, so UNKNOWN = there is none."""

    group: str
    topic: str
    topic_id: str
    partition: int
    answered_ns: int
    offset: int = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLook:
    """A transaction as its coordinator describes it. started_ms: the coordinator's clock; it identifies it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str  # Kafka's name, such as "Ongoing"
    timeout_ms: int
    started_ms: int
    answered_ns: int
    places: Sequence[tuple[str, int]] = ()  # its partitions, by the topic's name


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartReason:
    """A line of a broker's log that says why a log start offset moved.

    reason: the text behind "due to", such as "segment deletion". breach: what Kafka logged with it about the deleted
    segments, such as "retention time 1000ms breach"; "" if it logged nothing.
    """

    topic: str
    partition: int
    broker: int
    at_ns: int  # the broker's clock
    log_start: int
    reason: str
    breach: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """A segment in the remote tier, after a record of __remote_log_metadata. state: Kafka's name."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    state: str
    first_offset: int = UNKNOWN
    last_offset: int = UNKNOWN
    size_bytes: int = UNKNOWN
    at_ns: int = 0  # the broker's clock
    broker: int = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLook:
    """The object of a segment was missing in the storage, or is `back` after that.

    missing_ns: when. metadata_ns: up to this time __remote_log_metadata was read afterwards. state: of the segment by
    then; None if the metadata does not know the segment any more.
    """

    segment: RemoteSegment
    object_name: str
    missing_ns: int
    metadata_ns: int
    state: str | None
    back: bool = False
