"""Metadata logs by hand: records of few fields, batches of one record, and logs of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.model.history.log import Entry, LogBatch, NodeLog, Record, Snapshot, Value

TOPIC, TOPIC_ID = "orders", "orders-id"
MS: Final = 1_000  # the time of the record at offset 0; each later one is 10 ms younger


def record(kind: str, **fields: Value) -> Record:
    """A record without a place; `batches` gives it one."""
    return Record(-1, -1, -1, f"{kind}Record" if kind != "LeaderChangeMessage" else kind, 0, fields)


def batches(*records: Record, first: int = 0, epoch: int = 1) -> tuple[LogBatch, ...]:
    """One batch for each record, from offset `first` on."""
    return tuple(batch(at, epoch, kept) for at, kept in enumerate(records, first))


def batch(offset: int, epoch: int, kept: Entry, digest: int = 0) -> LogBatch:
    if isinstance(kept, Record):
        kept = Record(offset, epoch, time_ms(offset), kept.kind, kept.version, kept.fields)
    return LogBatch(offset, offset, epoch, digest, (kept,))


def time_ms(offset: int) -> int:
    return MS + 10 * offset


def time_ns(offset: int) -> int:
    return time_ms(offset) * 1_000_000


def snapshot(end: int, *records: Record, epoch: int = 1, problem: str | None = None) -> Snapshot:
    placed = tuple(Record(at, epoch, 0, kept.kind, 0, kept.fields) for at, kept in enumerate(records))
    return Snapshot(end, epoch, time_ms(end - 1), placed, problem)


def node(number: int, kept: Sequence[LogBatch] = (), *snapshots: Snapshot) -> NodeLog:
    return NodeLog(number, tuple(kept), snapshots)


def noop() -> Record:
    return record("NoOp")


def topic(name: str = TOPIC, topic_id: str = TOPIC_ID) -> Record:
    return record("Topic", Name=name, TopicId=topic_id)


def removed(topic_id: str = TOPIC_ID) -> Record:
    return record("RemoveTopic", TopicId=topic_id)


def partition(isr: tuple[int, ...] = (1, 2, 3), leader: int = 1, number: int = 0, **fields: Value) -> Record:
    given: dict[str, Value] = {
        "PartitionId": number,
        "TopicId": TOPIC_ID,
        "Replicas": (1, 2, 3),
        "Isr": isr,
        "RemovingReplicas": (),
        "AddingReplicas": (),
        "Leader": leader,
        "LeaderRecoveryState": 0,
        "LeaderEpoch": 0,
        "PartitionEpoch": 0,
        "Directories": ("d1", "d2", "d3"),
    }
    return record("Partition", **(given | fields))


def change(number: int = 0, **fields: Value) -> Record:
    given: dict[str, Value] = {
        "PartitionId": number,
        "TopicId": TOPIC_ID,
        "Isr": None,
        "Leader": -2,
        "Replicas": None,
        "RemovingReplicas": None,
        "AddingReplicas": None,
        "LeaderRecoveryState": -1,
        "Directories": None,
        "EligibleLeaderReplicas": None,
        "LastKnownElr": None,
    }
    return record("PartitionChange", **(given | fields))


def config(key: str, value: str | None, name: str = TOPIC, kind: int = 2) -> Record:
    return record("Config", ResourceType=kind, ResourceName=name, Name=key, Value=value)


def broker(number: int, epoch: int, **fields: Value) -> Record:
    given: dict[str, Value] = {
        "BrokerId": number,
        "BrokerEpoch": epoch,
        "IncarnationId": f"process-{epoch}",
        "Rack": None,
        "Fenced": True,
        "InControlledShutdown": False,
        "LogDirs": ("d1",),
    }
    return record("RegisterBroker", **(given | fields))


def registration(number: int, epoch: int, **fields: Value) -> Record:
    given: dict[str, Value] = {
        "BrokerId": number,
        "BrokerEpoch": epoch,
        "Fenced": 0,
        "InControlledShutdown": 0,
        "LogDirs": (),
        "CordonedLogDirs": None,
    }
    return record("BrokerRegistrationChange", **(given | fields))
