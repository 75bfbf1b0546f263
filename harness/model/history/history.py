"""The history of a cluster, folded from its metadata log, and the questions that a judge asks of it.

A state "at a time" is the one after the last change, in the order of the log, with a time that is not later. Times are
the clock of the controller (see changes.py); where the order matters, ask by epoch or compare offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, Generic, TypeVar

from harness.model.history.changes import (
    NO_LEADER,
    AnyChange,
    BrokerChange,
    BrokerEvent,
    Change,
    ConfigChange,
    Dropped,
    FeatureChange,
    PartitionChange,
    Problem,
    ProblemKind,
    ProducerIdBlock,
    ResourceKind,
    TopicChange,
    TopicEvent,
    UnknownChange,
    Written,
)
from harness.model.history.elections import ElectedFrom, elected_from
from harness.model.history.snapshots import ComparedSnapshot, SnapshotDifference

CLUSTER_DEFAULT: Final = ""  # the name of the `broker` resource that holds for all brokers
_Row = TypeVar("_Row", bound=Change)
_OF_ONE_NODE: Final = (ProblemKind.TORN_END, ProblemKind.BAD_SNAPSHOT, ProblemKind.MISSING_VOTER)
# The names that brokers have for settings of topics. Those that are not listed have "log." before them.
_BROKER_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "compression.type": ("compression.type",),
    "min.insync.replicas": ("min.insync.replicas",),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
    "max.message.bytes": ("message.max.bytes",),
    "segment.ms": ("log.roll.ms",),
    "segment.jitter.ms": ("log.roll.jitter.ms",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """A partition got another leader. `before` is the state just before that; None if it is not known."""

    after: PartitionChange
    before: PartitionChange | None
    elected_from: ElectedFrom

    @property
    def unclean(self) -> bool:
        return self.elected_from is ElectedFrom.UNCLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLife:
    """A topic from its creation to its deletion. A topic of the same name that is created later has another id."""

    topic: str
    topic_id: str
    created: TopicChange
    deleted: TopicChange | None

    def existed_at(self, time_ns: int) -> bool:
        return self.created.time_ns <= time_ns and (self.deleted is None or time_ns < self.deleted.time_ns)


class _Series(Generic[_Row]):
    """The changes of one thing in the order of the log, with a search by time."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self.rows = rows
        # The lowest time from each row on never falls, although times may. So it can be searched.
        self._floors = list(accumulate(reversed([row.time_ns for row in rows]), min))[::-1]

    def at(self, time_ns: int) -> _Row | None:
        found = bisect_right(self._floors, time_ns)
        return self.rows[found - 1] if found else None

    def until(self, time_ns: int) -> Sequence[_Row]:
        return self.rows[: bisect_right(self._floors, time_ns)]


class History:
    """The decisions of the controllers, in the order of the metadata log.

    `changes` are committed. `written` may never have taken effect. A history with `unknown` records or with `gaps` is
    incomplete.
    """

    def __init__(
        self,
        *,
        nodes: Iterable[int],
        voters: Iterable[int],
        start: int,
        end: int,
        high_watermark: int | None = None,
        changes: Iterable[AnyChange] = (),
        written: Iterable[Written] = (),
        dropped: Iterable[Dropped] = (),
        problems: Iterable[Problem] = (),
        snapshots: Iterable[ComparedSnapshot] = (),
        differences: Iterable[SnapshotDifference] = (),
        producer_ids: Iterable[ProducerIdBlock] = (),
    ) -> None:
        self.nodes: Final = tuple(nodes)
        self.voters: Final = tuple(voters)
        self.start: Final = start  # from this offset on all records are known, not only their effect in a snapshot
        self.end: Final = end  # behind the last committed offset
        self.high_watermark: Final = high_watermark
        self.changes: Final = tuple(changes)
        self.written: Final = tuple(written)
        self.dropped: Final = tuple(dropped)
        self.problems: Final = tuple(problems)
        self.snapshots: Final = tuple(snapshots)  # those that were compared with the log
        self.differences: Final = tuple(differences)  # of these snapshots
        self.producer_ids: Final = tuple(producer_ids)  # the blocks that the controllers gave to brokers
        self._partitions = _by_key(self.of(PartitionChange), lambda row: (row.topic_id, row.partition))
        self._brokers = _by_key(self.of(BrokerChange), lambda row: row.broker)
        self._configs = _by_key(self.of(ConfigChange), lambda row: (row.kind, row.name))
        self._features = _Series(self.of(FeatureChange))
        self._topics = _lives(self.of(TopicChange))

    def of(self, kind: type[_Row]) -> tuple[_Row, ...]:
        """The changes of one kind."""
        return tuple(change for change in self.changes if isinstance(change, kind))

    @property
    def unknown(self) -> tuple[UnknownChange, ...]:
        return self.of(UnknownChange)

    @property
    def gaps(self) -> tuple[Problem, ...]:
        """The problems that may hide committed records.

        Damaged files of one node hide none if the other logs reach the high watermark that the quorum reported.
        """
        reached = self.high_watermark is not None and self.end >= self.high_watermark
        return tuple(problem for problem in self.problems if not reached or problem.kind not in _OF_ONE_NODE)

    @property
    def whole(self) -> bool:
        """Whether a change that the history does not have did not happen."""
        return not self.gaps and not self.unknown

    @property
    def topics(self) -> tuple[TopicLife, ...]:
        """All topics that ever existed, in the order of their creation."""
        return self._topics

    def topic_at(self, topic: str, time_ns: int) -> TopicLife | None:
        """The topic that had this name at a time."""
        alive = [life for life in self._topics if life.topic == topic and life.existed_at(time_ns)]
        return alive[-1] if alive else None

    def partition(self, topic_id: str, partition: int) -> tuple[PartitionChange, ...]:
        """All states of a partition."""
        series = self._partitions.get((topic_id, partition))
        return tuple(series.rows) if series else ()

    def partition_at(self, topic_id: str, partition: int, time_ns: int) -> PartitionChange | None:
        """The state of a partition at a time; None before its creation and after the deletion of its topic."""
        life = next((life for life in self._topics if life.topic_id == topic_id), None)
        if life is not None and life.deleted is not None and life.deleted.time_ns <= time_ns:
            return None
        series = self._partitions.get((topic_id, partition))
        return series.at(time_ns) if series else None

    def partition_in_epoch(self, topic_id: str, partition: int, leader_epoch: int) -> tuple[PartitionChange, ...]:
        """The states that a partition had in a leader epoch, the first of them with the election."""
        return tuple(state for state in self.partition(topic_id, partition) if state.leader_epoch == leader_epoch)

    def leader_of(self, topic_id: str, partition: int, leader_epoch: int) -> int | None:
        """The leader of an epoch, NO_LEADER if the partition had none in it; None if the epoch is not known."""
        states = self.partition_in_epoch(topic_id, partition, leader_epoch)
        return states[0].leader if states else None

    def elections(self, topic_id: str | None = None, partition: int | None = None) -> tuple[Election, ...]:
        """Every election of these partitions, in the order of the log. The first leader of a new partition is none."""
        if topic_id is not None and partition is not None:
            return tuple(self._elections_of(self.partition(topic_id, partition)))
        found = [
            election
            for (of_topic, number), series in self._partitions.items()
            if topic_id in (None, of_topic) and partition in (None, number)
            for election in self._elections_of(series.rows)
        ]
        return tuple(sorted(found, key=lambda election: election.after.offset))

    def _elections_of(self, states: Sequence[PartitionChange]) -> Iterator[Election]:
        for before, after in pairwise(states):
            if after.leader == NO_LEADER or after.leader_epoch == before.leader_epoch:
                continue
            if after.from_snapshot:
                yield Election(after=after, before=None, elected_from=ElectedFrom.UNKNOWN)
            elif after.leader != before.leader:
                yield Election(after=after, before=before, elected_from=self._elected_from(before, after))

    def _elected_from(self, before: PartitionChange, after: PartitionChange) -> ElectedFrom:
        return elected_from(before, after, lambda broker: self._returns(broker, after))

    def _returns(self, broker: int, change: PartitionChange) -> bool:
        """Whether the change is the one by which a broker that ended uncleanly leaves the ELR.

        The controller writes it in one batch with the new registration of the broker, just before it, and the same
        change may elect the last known leader (`ClusterControlManager`).
        """
        series = self._brokers.get(broker)
        later = next((row for row in series.rows if row.offset > change.offset), None) if series else None
        return (
            broker not in change.elr
            and later is not None
            and later.event is BrokerEvent.REGISTERED
            and later.time_ns == change.time_ns
        )

    def broker_at(self, broker: int, time_ns: int) -> BrokerChange | None:
        """The registration of a broker at a time; None if it had none."""
        series = self._brokers.get(broker)
        found = series.at(time_ns) if series else None
        return None if found is None or found.event is BrokerEvent.UNREGISTERED else found

    def features_at(self, time_ns: int) -> dict[str, int]:
        """The finalized feature levels at a time."""
        levels = {row.feature: row.level for row in self._features.until(time_ns)}
        return {feature: level for feature, level in levels.items() if level}

    def config_at(self, kind: ResourceKind, name: str, time_ns: int) -> dict[str, str]:
        """The dynamic settings of a topic, broker, group or (with CLUSTER_DEFAULT) of all brokers at a time."""
        series = self._configs.get((kind, name))
        settings: dict[str, str] = {}
        for row in series.until(time_ns) if series else ():
            if row.value is None:
                settings.pop(row.key, None)
            else:
                settings[row.key] = row.value
        return settings

    def topic_setting(
        self, topic: str, key: str, time_ns: int, *, broker: int, static: Mapping[str, str] | None = None
    ) -> str | None:
        """The value of a topic's setting on a broker at a time, as brokers choose it; None = Kafka's default.

        The topic's own value counts first, then the broker's dynamic one, then the dynamic default of all brokers, then
        `static`: the settings in the broker's own file.
        """
        if (own := self.config_at(ResourceKind.TOPIC, topic, time_ns).get(key)) is not None:
            return own
        of_broker = self.config_at(ResourceKind.BROKER, str(broker), time_ns)
        of_cluster = self.config_at(ResourceKind.BROKER, CLUSTER_DEFAULT, time_ns)
        for name in broker_keys(key):
            for source in (of_broker, of_cluster, static or {}):
                if name in source:
                    return source[name]
        return None


def broker_keys(key: str) -> tuple[str, ...]:
    """The names that brokers have for a setting of topics; the first that is set decides."""
    return _BROKER_KEYS.get(key, (f"log.{key}",))


_Key = TypeVar("_Key")


def _by_key(rows: Iterable[_Row], key: Callable[[_Row], _Key]) -> dict[_Key, _Series[_Row]]:
    groups: defaultdict[_Key, list[_Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return {name: _Series(found) for name, found in groups.items()}


def _lives(changes: Iterable[TopicChange]) -> tuple[TopicLife, ...]:
    """A snapshot names topics again that are known already; their first row counts."""
    created: dict[str, TopicChange] = {}
    deleted: dict[str, TopicChange] = {}
    for change in changes:
        (created if change.event is TopicEvent.CREATED else deleted).setdefault(change.topic_id, change)
    return tuple(
        TopicLife(topic=change.topic, topic_id=topic_id, created=change, deleted=deleted.get(topic_id))
        for topic_id, change in created.items()
    )
