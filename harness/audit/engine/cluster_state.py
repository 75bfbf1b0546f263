"""The state of the cluster behind the last record of the metadata log, with the looks at its partitions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from harness.audit.look import CommitLook, RemoteSegment
from harness.audit.store.database import Database
from harness.audit.store.partitions import Offsets, PackedPartitions
from harness.audit.store.segments import RemoteSegments
from harness.model.history.changes import (
    AnyChange,
    BrokerChange,
    BrokerEvent,
    ConfigChange,
    FeatureChange,
    PartitionChange,
    Problem,
    ResourceKind,
    TopicChange,
    TopicEvent,
)
from harness.model.history.history import CLUSTER_DEFAULT, broker_keys
from harness.model.history.log import LogBatch, Snapshot
from harness.model.history.replay import Known, Replay

# Gets each change in the order of the log; see Rule.on_change.
Observer = Callable[[AnyChange, AnyChange | None], None]
EPOCHS_MAX: Final = 16  # of a partition; older ones say nothing that a rule asks
_SETTING: Final = "setting"
_BROKER: Final = "broker"
_FEATURE: Final = "feature"


class ClusterState:
    """Replays the metadata log and answers the questions of rules (`View`). It is used by one thread."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.packed: Final = PackedPartitions()
        self.replay: Final = Replay(self.packed, self._saw)
        self._ids: dict[str, str] = {}  # topic -> id
        self._replaced = Known()  # what was known before the snapshot that is being loaded
        self._entities: dict[tuple[str, str], str | None] = {}  # changed since they were saved
        self._chains: Callable[[str, int], Sequence[tuple[int, int]]] = lambda _topic_id, _partition: ()
        self.covered: set[str] = set()
        # Wall clock: what was committed by then is known. None = no metadata log is followed.
        self.known_ns: int | None = None
        self.static: Mapping[str, str] = {}  # settings in the files of the brokers, and Kafka's defaults
        self.segments: Final = RemoteSegments()
        self._commits: dict[tuple[str, str, int], CommitLook] = {}  # group, topic, partition
        self._new_chains: dict[tuple[str, int], Sequence[tuple[int, int]]] = {}  # that the database lacks

    # Records

    def apply(self, batches: Sequence[LogBatch]) -> None:
        for batch in batches:
            self.replay.replay(batch.entries)

    def load(self, snapshot: Snapshot) -> None:
        """Replaces the state by that of a snapshot. Settings that differ from the former state are changes."""
        self._replaced = self.replay.known
        self.replay.load(snapshot)
        self._replaced = Known()
        self.packed.end_replacement()

    def take_problems(self) -> list[Problem]:
        """What did not fit since the last call. Rows that only a history of a whole run needs are dropped."""
        problems = [*self.replay.problems]
        self.replay.problems.clear()
        self.replay.dropped.clear()
        self.replay.producer_ids.clear()
        return problems

    def take_entities(self) -> list[tuple[str, str, str | None]]:
        """(kind, name, value) of what has changed since the last call beside partitions, for the database."""
        changed = [(*entity, value) for entity, value in self._entities.items()]
        self._entities.clear()
        return changed

    def restore(self, database: Database) -> None:
        """Takes the state that the database has, and epochs of partitions from there from now on."""
        database.load(self.packed)
        known = self.replay.known
        for topic_id in self.packed.topic_ids():
            name = self.packed.topic(topic_id) or ""
            known.topics[topic_id] = name
            self._ids[name] = topic_id
        for name, value in database.entities(_SETTING).items():
            kind, of, key = json.loads(name)
            known.settings[ResourceKind(kind), of, key] = value
        for name, value in database.entities(_FEATURE).items():
            known.features[name] = int(value)
        for name, value in database.entities(_BROKER).items():
            known.brokers[int(name)] = _broker(json.loads(value))
        self._chains = database.chain

    def _saw(self, after: AnyChange, before: AnyChange | None) -> None:
        match after:
            case TopicChange():
                self._named(after)
            case ConfigChange():
                name = json.dumps([after.kind.value, after.name, after.key])
                self._entities[_SETTING, name] = after.value
                before = before or self._setting_before(after)
            case BrokerChange():
                gone = after.event is BrokerEvent.UNREGISTERED
                self._entities[_BROKER, str(after.broker)] = None if gone else json.dumps(asdict(after))
            case FeatureChange():
                self._entities[_FEATURE, after.feature] = str(after.level)
        self._observer(after, before)

    def _setting_before(self, after: ConfigChange) -> ConfigChange | None:
        """The setting in the state that a snapshot replaces: perhaps none, which is known, too."""
        if not after.from_snapshot or not self._was_known(after):
            return None
        value = self._replaced.settings.get((after.kind, after.name, after.key))
        return replace(after, value=value)

    def _was_known(self, after: ConfigChange) -> bool:
        """Whether the replaced state had the thing that a setting is about. A recreated topic is another one."""
        if after.kind is ResourceKind.TOPIC:
            return self._ids.get(after.name) in self._replaced.topics
        return bool(self._replaced.topics)

    def _named(self, change: TopicChange) -> None:
        if change.event is TopicEvent.CREATED:
            self._ids[change.topic] = change.topic_id
            return
        self.segments.remove_topic(change.topic_id)
        if self._ids.get(change.topic) == change.topic_id:
            del self._ids[change.topic]

    # The view of rules

    @property
    def now_ns(self) -> int:
        return time.time_ns()

    def covers(self, what: str) -> bool:
        return what in self.covered

    def partition(self, topic_id: str, partition: int) -> PartitionChange | None:
        return self.packed.get(topic_id, partition)

    def partitions(self, topic: str | None = None) -> Iterator[PartitionChange]:
        if topic is None:
            return iter(self.packed)
        return self.packed.of_topic(self._ids.get(topic, ""))

    def topic_id(self, topic: str) -> str | None:
        return self._ids.get(topic)

    def offsets(self, topic_id: str, partition: int) -> Offsets:
        return self.packed.offsets(topic_id, partition)

    def broker(self, broker: int) -> BrokerChange | None:
        return self.replay.known.brokers.get(broker)

    def own_setting(self, topic: str, key: str) -> str | None:
        return self.replay.known.settings.get((ResourceKind.TOPIC, topic, key))

    def setting(self, topic: str, key: str) -> str | None:
        own = self.own_setting(topic, key)
        if own is not None:
            return own
        settings = self.replay.known.settings
        for name in broker_keys(key):
            default = settings.get((ResourceKind.BROKER, CLUSTER_DEFAULT, name))
            if default is not None:
                return default
            if name in self.static:
                return self.static[name]
        return None

    def broker_setting(self, key: str, *, dynamic: bool = True) -> str | None:
        default = self.replay.known.settings.get((ResourceKind.BROKER, CLUSTER_DEFAULT, key)) if dynamic else None
        return self.static.get(key) if default is None else default

    def feature(self, name: str) -> int:
        return self.replay.known.features.get(name, 0)

    def epochs(self, topic_id: str, partition: int) -> Sequence[tuple[int, int]]:
        return self._new_chains.get((topic_id, partition)) or self._chains(topic_id, partition)

    def tier_bytes(self, topic_id: str, partition: int) -> int | None:
        return self.segments.bytes_of(topic_id, partition) if self.covers("tier") else None

    def tier_segments(self, topic_id: str, partition: int) -> Iterator[RemoteSegment]:
        return self.segments.of(self.packed.topic(topic_id) or "", topic_id, partition)

    def committed(self, group: str) -> Mapping[tuple[str, int], int]:
        return {(topic, p): look.offset for (of, topic, p), look in self._commits.items() if of == group}

    # Looks

    def put_commit(self, look: CommitLook) -> CommitLook | None:
        """Keeps a look at a group's offset. Returns the last one of the same group and partition."""
        place = look.group, look.topic, look.partition
        before = self._commits.get(place)
        self._commits[place] = look
        return before

    def put_epochs(self, topic_id: str, partition: int, epochs: Sequence[tuple[int, int]], log_start: int) -> None:
        """Adds the first offsets of leader epochs that a leader answered. What is known already stays.

        An epoch that begins at the log start offset began earlier: each replica moves it when it deletes records.
        """
        known = dict(self.epochs(topic_id, partition))
        new = {epoch: start for epoch, start in epochs if epoch not in known and start > log_start}
        if new:
            self._new_chains[topic_id, partition] = sorted({**known, **new}.items())[-EPOCHS_MAX:]

    def take_chains(self) -> dict[tuple[str, int], Sequence[tuple[int, int]]]:
        """The epochs of partitions that changed since the last call, for the database."""
        chains, self._new_chains = self._new_chains, {}
        return chains


def _broker(plain: dict[str, object]) -> BrokerChange:
    """A registration as the database keeps it."""
    lists = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    return BrokerChange(**{**lists, "event": BrokerEvent(str(plain["event"]))})  # type: ignore[arg-type]
