"""What an admin works on, by name, and in which states each of it may be found afterwards. Pure functions of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from harness.model.outcome import Did, Outcome
from harness.model.scenario.scenario import Admin, Topic

# An operation without an answer may be carried out late. The broker that took it hands it on to the controller again
# and again for 60 s, whenever that one disconnects or is none any more (retryTimeoutMs in BrokerServer), and waits for
# the last answer.
LATE_NS: Final = 70 * 10**9

MARK: Final = "delete.retention.ms"  # of a topic that is made: a number that no other operation uses
ALLOWED: Final = "allowed"  # the value of an ACL that is there
# Settings of topics that nobody here compacts or fills, each of them a whole number.
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
# Settings of all brokers that can be changed while they run and that change nothing for this load.
BROKER_KEYS: Final = (
    "log.cleaner.delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms",
    "max.connections.per.ip",
)
WORKS: Final = ("topics", "configs", "acls", "users", "reassignments")
REPLICAS: Final = 3  # of a topic that is made
FIRST_PAIR: Final = "1,2"  # replicas of a standing topic, so that there is another broker to move to


class Sort(StrEnum):
    """What kind of thing it is; each is the first word of its text."""

    TOPIC = "topic"
    TOPIC_CONFIG = "topic-config"
    BROKER_CONFIG = "broker-config"
    ACL = "acl"
    USER = "user"
    REPLICAS = "replicas"


@dataclass(frozen=True, slots=True)
class MetadataEntity:
    """One thing that is made, changed or unmade. `name` is the topic, user or resource; `key` a setting or partition.

    Its value, as text: of a topic its MARK, of a setting what it is, of an ACL ALLOWED, of a user the iterations of
    SCRAM-SHA-256, of a partition the replicas that it has or is moving to. None: it is not there.
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
    """Topics that stay while settings and replicas of them are changed; nobody writes to them."""
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
    """Everything that an admin works on, by the word in its `does`."""
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
    """What an entity may be found as. decisive: the acknowledged operation that was over before the question, if any.

    moving: some operation may be carried out at this very moment, so that two who are asked may differ.
    """

    values: frozenset[str | None]
    decisive: Operation | None
    moving: bool


def legal(
    ops: Iterable[Operation], before: Collection[str | None], asked_ns: int, at_ns: int, *, calm_ns: int = 0
) -> Legal:
    """The legal values of one entity when it was asked about from `asked_ns` to `at_ns`, by all operations on it.

    An operation takes effect at one moment: of those acknowledged between call and answer, of those without an answer
    at any moment from the call until LATE_NS after it, or never; and as a broker that stands still may have a request
    lying before it, until LATE_NS after `calm_ns`, when the last fault was over. So a value is legal if its operation
    may have been the last to take effect: no acknowledged one, over before the question, began after that. `before`
    are the values that the entity may have had at first; they are legal until an operation on it is acknowledged.
    """

    def by(op: Operation) -> int:
        """When it has taken effect at the latest, if it does."""
        return op.returned_ns if op.outcome == Outcome.ACKED.value else max(op.called_ns, calm_ns) + LATE_NS

    tried = [op for op in ops if op.outcome != Outcome.REFUSED.value and op.called_ns <= at_ns]
    over = [op for op in tried if op.outcome == Outcome.ACKED.value and op.returned_ns <= asked_ns]
    decisive = max(over, key=lambda op: (op.called_ns, op.op), default=None)
    last = [op for op in tried if decisive is None or by(op) >= decisive.called_ns]
    values = {op.value for op in last} | (set() if decisive else set(before))
    return Legal(frozenset(values), decisive, any(op not in over and by(op) >= asked_ns for op in last))


def settled(ops: Sequence[Operation], did: Did) -> list[Operation]:
    """Acknowledged operations of a kind after which nobody tried anything on their entities, in order."""
    last = {op.entity: op for op in ops if op.outcome != Outcome.REFUSED.value}
    found = [op for op in last.values() if op.kind == did.value and op.outcome == Outcome.ACKED.value]
    return sorted(found, key=lambda op: op.op)
