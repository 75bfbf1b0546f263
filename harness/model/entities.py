"""The metadata entities that an admin changes, and the states in which each may legally be found afterwards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from harness.model.outcome import Did, Outcome
from harness.model.scenario.scenario import Admin, Topic

# An operation without an answer may be carried out late. The broker that received it forwards it to the controller for
# up to 60 s, again whenever that one disconnects or changes (retryTimeoutMs in BrokerServer), and waits for an answer.
LATE_NS: Final = 70 * 10**9

MARK: Final = "delete.retention.ms"  # of a created topic: a number that no other operation uses
ALLOWED: Final = "allowed"  # the value of an ACL that exists
# Settings of topics without records, so that they have no effect. Each is a whole number.
TOPIC_KEYS: Final = (
    "delete.retention.ms",
    "flush.messages",
    "flush.ms",
    "max.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
    "segment.jitter.ms",
    "segment.ms",
)
# Dynamic settings of all brokers that have no effect on this load.
BROKER_KEYS: Final = (
    "log.cleaner.delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms",
    "max.connections.per.ip",
)
WORKS: Final = ("topics", "configs", "acls", "users", "reassignments")
REPLICAS: Final = 3  # of a created topic
FIRST_PAIR: Final = "1,2"  # replicas of a standing topic; a third broker is left to move to


class Sort(StrEnum):
    """The kind of an entity, which is the first word of its text."""

    TOPIC = "topic"
    TOPIC_CONFIG = "topic-config"
    BROKER_CONFIG = "broker-config"
    ACL = "acl"
    USER = "user"
    REPLICAS = "replicas"


@dataclass(frozen=True, slots=True)
class MetadataEntity:
    """An entity that is created, changed or deleted. name: the topic, user or resource. key: a setting or partition.

    Its value as text: the MARK of a topic, the value of a setting, ALLOWED for an ACL, the SCRAM-SHA-256 iterations of
    a user, the replicas that a partition has or moves to. None: it does not exist.
    """

    sort: Sort
    name: str
    key: str = ""

    @property
    def text(self) -> str:
        """The `entity` of the evidence."""
        if self.sort is Sort.ACL:
            return f"acl User:{self.name} ALLOW READ TOPIC LITERAL {self.name} from *"
        return " ".join(part for part in (self.sort.value, self.name or "all", self.key) if part)


def standing_topics(admin: Admin) -> list[Topic]:
    """Topics without records. Their settings and replicas are changed, and they are not deleted."""
    count = -(-admin.entities // len(TOPIC_KEYS))
    partitions = -(-admin.entities // count)
    pair = tuple(int(broker) for broker in FIRST_PAIR.split(","))
    return [
        Topic(
            name=f"{admin.name}-standing-{n}",
            partitions=partitions,
            replicas=len(pair),
            assignment=(pair,) * partitions,
            config={"min.insync.replicas": "1"},
        )
        for n in range(count)
    ]


def entities_of(admin: Admin) -> dict[str, list[MetadataEntity]]:
    """All entities that an admin changes, by the word in its `does`."""
    numbers, standing = range(admin.entities), standing_topics(admin)
    settings = [MetadataEntity(Sort.TOPIC_CONFIG, topic.name, key) for topic in standing for key in TOPIC_KEYS]
    moved = [MetadataEntity(Sort.REPLICAS, topic.name, str(p)) for topic in standing for p in range(topic.partitions)]
    known = {
        "topics": [MetadataEntity(Sort.TOPIC, f"{admin.name}-topic-{n}") for n in numbers],
        "configs": [*(MetadataEntity(Sort.BROKER_CONFIG, "", key) for key in BROKER_KEYS), *settings[: admin.entities]],
        "acls": [MetadataEntity(Sort.ACL, f"{admin.name}-acl-{n}") for n in numbers],
        "users": [MetadataEntity(Sort.USER, f"{admin.name}-user-{n}") for n in numbers],
        "reassignments": moved[: admin.entities],
    }
    return {work: known[work] for work in admin.does}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A row of `admin_ops`."""

    op: int
    writer: str
    kind: str
    entity: str
    value: str | None
    outcome: str
    called_ns: int
    returned_ns: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Legal:
    """The legal values of an entity. decisive: the last acknowledged operation that had ended before the question, if
    any.

    moving: an operation may be carried out at this moment, so two nodes may report different values.

    """

    values: frozenset[str | None]
    decisive: Operation | None
    moving: bool


def legal(
    ops: Iterable[Operation], before: Collection[str | None], asked_ns: int, at_ns: int, *, calm_ns: int = 0
) -> Legal:
    """The legal values of one entity, for a question from `asked_ns` to `at_ns`, by all operations on the entity.

    An operation takes effect at one moment. An acknowledged one does between call and answer. One without an answer
    does at any moment from the call until LATE_NS after it, or never. A paused broker may have requests in its queue,
    so the limit is LATE_NS after `calm_ns`, the end of the last fault, if that is later. A value is legal if its
    operation may have been the last to take effect: no acknowledged operation that ended before the question began
    after it. `before` are the values that the entity may have had at first. They are legal until an operation on it is
    acknowledged.
    """

    def latest(op: Operation) -> int:
        """The last moment at which it can take effect."""
        return op.returned_ns if op.outcome == Outcome.ACKED.value else max(op.called_ns, calm_ns) + LATE_NS

    tried = [op for op in ops if op.outcome != Outcome.REFUSED.value and op.called_ns <= at_ns]
    over = [op for op in tried if op.outcome == Outcome.ACKED.value and op.returned_ns <= asked_ns]
    decisive = max(over, key=lambda op: (op.called_ns, op.op), default=None)
    last = [op for op in tried if decisive is None or latest(op) >= decisive.called_ns]
    values = {op.value for op in last} | (set() if decisive else set(before))
    return Legal(frozenset(values), decisive, any(op not in over and latest(op) >= asked_ns for op in last))


def settled(ops: Sequence[Operation], did: Did) -> list[Operation]:
    """Acknowledged operations of a kind that were the last ones on their entities, in order."""
    last = {op.entity: op for op in ops if op.outcome != Outcome.REFUSED.value}
    found = [op for op in last.values() if op.kind == did.value and op.outcome == Outcome.ACKED.value]
    return sorted(found, key=lambda op: op.op)
