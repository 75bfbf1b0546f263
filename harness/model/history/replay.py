"""Replays records of the metadata log: the state after them, and a row for each change of it.

The replay follows that of Kafka's own controller: a partition change carries only what changed, each change raises
the partition epoch, a change that names a leader raises the leader epoch, and the deletion of a topic removes its
settings. A record that does not fit the state before it is a problem and never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeAlias, TypedDict

from harness.model.clock import NS_PER_MS
from harness.model.history.changes import (
    HIDDEN,
    AnyChange,
    BrokerChange,
    BrokerEvent,
    ConfigChange,
    ControllerChange,
    ControllerEvent,
    Dropped,
    FeatureChange,
    OtherChange,
    PartitionChange,
    Problem,
    ProblemKind,
    ProducerIdBlock,
    ResourceKind,
    TopicChange,
    TopicEvent,
    UnknownChange,
)
from harness.model.history.log import Entry, Record, Snapshot, Unreadable, Value, WrongFieldError
from harness.model.history.snapshots import DIRECTORIES, SETTING, State

BEGIN: Final = "BeginTransactionRecord"
END: Final = "EndTransactionRecord"
ABORT: Final = "AbortTransactionRecord"
NO_CHANGE: Final = -2  # of a leader
KRAFT_VERSION: Final = "kraft.version"
UNASSIGNED: Final = "AAAAAAAAAAAAAAAAAAAAAA"  # the directory of a replica that its broker has not placed yet
VOTERS: Final = "VotersRecord"
_NO_EFFECT: Final = frozenset({"NoOpRecord", "SnapshotHeaderRecord", "SnapshotFooterRecord", BEGIN, END, ABORT})
OTHERS: Final = frozenset(
    {
        "AccessControlEntryRecord",
        "ClientQuotaRecord",
        "DelegationTokenRecord",
        "ProducerIdsRecord",
        "RemoveAccessControlEntryRecord",
        "RemoveDelegationTokenRecord",
        "RemoveUserScramCredentialRecord",
        "UserScramCredentialRecord",
        "ZkMigrationStateRecord",
    }
)
# The fields that name the entity of a record in `OTHERS`.
_KEYS: Final = {
    "AccessControlEntry": ("Id",),
    "ClientQuota": ("Entity", "Key"),
    "DelegationToken": ("TokenId",),
    "UserScramCredential": ("Name", "Mechanism"),
}
_HIDDEN: Final = frozenset({"DelegationToken", "UserScramCredential"})  # their values are secrets
_CONTROL: Final = frozenset({"LeaderChangeMessage", "KRaftVersionRecord", VOTERS})
# The ids of ConfigResource.Type.
_RESOURCES: Final = {
    2: ResourceKind.TOPIC,
    4: ResourceKind.BROKER,
    8: ResourceKind.BROKER_LOGGER,
    16: ResourceKind.CLIENT_METRICS,
    32: ResourceKind.GROUP,
}
_SECRETS: Final = ("password", "jaas.config", "keystore.key", "secret", "credential")
# The fields of a state that do not depend on how it came about.
_OF_PARTITION: Final = (
    *("leader", "leader_epoch", "partition_epoch", "isr", "elr", "last_known_elr", "recovering"),
    *("replicas", "adding", "removing"),
)
_OF_BROKER: Final = ("broker_epoch", "incarnation", "fenced", "shutting_down", "rack", "directories", "cordoned")


class _Place(TypedDict):
    """The fields of `Change`."""

    time_ns: int
    offset: int
    controller_epoch: int
    from_snapshot: bool


class PartitionStates(Protocol):
    """The state of every partition, by the topic's id. A long-lived process keeps them in less memory than objects."""

    def get(self, topic_id: str, partition: int) -> PartitionChange | None: ...
    def put(self, state: PartitionChange) -> None: ...
    def remove_topic(self, topic_id: str) -> None: ...
    def clear(self) -> None: ...
    def __iter__(self) -> Iterator[PartitionChange]: ...


class PartitionObjects:
    """`PartitionStates` as objects in memory."""

    def __init__(self) -> None:
        self._states: dict[str, dict[int, PartitionChange]] = {}

    def get(self, topic_id: str, partition: int) -> PartitionChange | None:
        return self._states.get(topic_id, {}).get(partition)

    def put(self, state: PartitionChange) -> None:
        self._states.setdefault(state.topic_id, {})[state.partition] = state

    def remove_topic(self, topic_id: str) -> None:
        self._states.pop(topic_id, None)

    def clear(self) -> None:
        self._states.clear()

    def __iter__(self) -> Iterator[PartitionChange]:
        for partitions in self._states.values():
            yield from partitions.values()


@dataclass(slots=True)
class Known:
    """Everything but the partitions that decides how later records are replayed."""

    topics: dict[str, str] = field(default_factory=dict)  # id -> name
    brokers: dict[int, BrokerChange] = field(default_factory=dict)
    settings: dict[tuple[ResourceKind, str, str], str | None] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)


# Gets each change, and the same thing before the change; None if it was not there or is not known.
Listener: TypeAlias = Callable[[AnyChange, AnyChange | None], None]


class Replay:
    """The state after the records so far, and a row for each change of it.

    partitions: where the states of partitions are kept. listener: gets the rows in place of `changes`.
    """

    def __init__(self, partitions: PartitionStates | None = None, listener: Listener | None = None) -> None:
        self.changes: list[AnyChange] = []
        self._listener: Listener = listener or (lambda change, _: self.changes.append(change))
        self.dropped: list[Dropped] = []
        self.problems: list[Problem] = []
        self.producer_ids: list[ProducerIdBlock] = []
        self.known = Known()
        self._partitions = PartitionObjects() if partitions is None else partitions
        self._next_producer_id: Value = None
        self._others: dict[tuple[str, ...], str] = {}  # entities of records in `OTHERS`, with their values
        self._open: list[Entry] | None = None  # the records of a transaction that has no end yet
        self._snapshot: Snapshot | None = None  # the one that is being replayed
        self._handlers: Mapping[str, Callable[[Record], None]] = {
            "RegisterBrokerRecord": self._register_broker,
            "UnregisterBrokerRecord": self._unregister_broker,
            "FenceBrokerRecord": lambda record: self._fence(record, fenced=True),
            "UnfenceBrokerRecord": lambda record: self._fence(record, fenced=False),
            "BrokerRegistrationChangeRecord": self._change_broker,
            "TopicRecord": self._topic,
            "RemoveTopicRecord": self._remove_topic,
            "PartitionRecord": self._partition,
            "PartitionChangeRecord": self._change_partition,
            "ClearElrRecord": self._clear_elr,
            "ConfigRecord": self._config,
            "FeatureLevelRecord": lambda record: self._feature(
                record, record.text("Name"), record.integer("FeatureLevel")
            ),
            "KRaftVersionRecord": lambda record: self._feature(record, KRAFT_VERSION, record.integer("KRaftVersion")),
            "RegisterControllerRecord": self._register_controller,
            "UnregisterControllerRecord": self._unregister_controller,
            "LeaderChangeMessage": self._leads,
            VOTERS: self._voters,
        }

    @property
    def open_from(self) -> int | None:
        """The offset of the first record of the transaction that has no end yet; None without one."""
        return self._open[0].offset if self._open else None

    def problem(self, kind: ProblemKind, offset: int, detail: str) -> None:
        self.problems.append(Problem(kind=kind, node=None, offset=offset, detail=detail))

    def replay(self, entries: Iterable[Entry]) -> None:
        """Applies records in order. Those of a transaction wait for its end."""
        for entry in entries:
            kind = entry.kind if isinstance(entry, Record) else ""
            if kind == BEGIN:
                self.end_transaction(aborted=False)
                self._open = [entry]
            elif kind == ABORT:
                if self._open is not None:
                    self._open.append(entry)
                self.end_transaction(aborted=True)
            elif kind == END:
                waiting, self._open = self._open or (), None
                for earlier in waiting:
                    self._apply(earlier)
            elif self._open is not None and kind not in _CONTROL:  # the quorum's own records are in no transaction
                self._open.append(entry)
            else:
                self._apply(entry)

    def end_transaction(self, *, aborted: bool) -> None:
        """Drops the records of the open transaction, if there is one."""
        for entry in self._open or ():
            kind = entry.kind if isinstance(entry, Record) else ""
            time_ns = entry.time_ms * NS_PER_MS
            self.dropped.append(
                Dropped(offset=entry.offset, epoch=entry.epoch, time_ns=time_ns, kind=kind, aborted=aborted)
            )
        self._open = None

    def load(self, snapshot: Snapshot) -> None:
        """Replaces the state by that of a snapshot."""
        self.end_transaction(aborted=False)
        before = dict(self.known.topics)
        settings = dict(self.known.settings)
        self._snapshot = snapshot
        self.known, self._next_producer_id, self._others = Known(), None, {}
        self._partitions.clear()
        for entry in snapshot.entries:
            self._apply(entry)
        place = Record(snapshot.end_offset - 1, snapshot.epoch, snapshot.time_ms, "", 0, {})
        for topic_id in before.keys() - self.known.topics.keys():
            self._topic_row(place, TopicEvent.DELETED, before[topic_id], topic_id)
        for kind, name, key in settings.keys() - self.known.settings.keys():
            self._config_row(place, kind, name, key, None)
        self._snapshot = None

    def load_formatted(self, snapshot: Snapshot) -> None:
        """Applies the voters with which the cluster was formatted.

        The snapshot of offset 0 may also have the first feature levels. They take effect when the first leader writes
        them into the log, and not before that (KIP-1170).
        """
        control = tuple(e for e in snapshot.entries if isinstance(e, Record) and e.kind in _CONTROL)
        self._snapshot = snapshot
        for entry in control:
            self._apply(entry)
        self._snapshot = None

    def state(self) -> State | None:
        """Every entity with its value; None while a transaction is open. Values that may be secrets are hidden.

        Without kraft.version, which a cluster may have from its first snapshot only, and without unknown directories.
        """
        if self._open is not None:
            return None
        found: dict[tuple[str, ...], str] = {("topic", id_): name for id_, name in self.known.topics.items()}
        for of in self._partitions:
            for name in _OF_PARTITION:
                found["partition", of.topic_id, str(of.partition), name] = str(getattr(of, name))
            found["partition", of.topic_id, str(of.partition), DIRECTORIES] = ",".join(of.directories)
        for number, broker in self.known.brokers.items():
            for name in _OF_BROKER:
                found["broker", str(number), name] = str(getattr(broker, name))
        for (kind, of_name, key), value in self.known.settings.items():
            found[SETTING, kind.value, of_name, key] = HIDDEN if is_secret(key) else str(value)
        levels = {name: level for name, level in self.known.features.items() if level and name != KRAFT_VERSION}
        found |= {("feature", name): str(level) for name, level in levels.items()}
        found |= self._others
        if self._next_producer_id is not None:
            found["next producer id",] = str(self._next_producer_id)
        return found

    def _apply(self, entry: Entry) -> None:
        if isinstance(entry, Unreadable):
            self._row(
                UnknownChange(
                    frame=entry.frame, key=entry.key, version=entry.version, why=entry.why, **self._place(entry)
                )
            )
        elif entry.kind in self._handlers:
            try:
                self._handlers[entry.kind](entry)
            except (WrongFieldError, KeyError) as wrong:
                self.problem(ProblemKind.IMPOSSIBLE, entry.offset, f"{entry.kind}: {wrong}")
        elif entry.kind in OTHERS:
            if entry.kind == "ProducerIdsRecord":
                self._block_of_producer_ids(entry)
            self._other(entry)
            self._row(OtherChange(kind=entry.kind, **self._place(entry)))
        elif entry.kind not in _NO_EFFECT:
            why = f"the history has no rule for {entry.kind}"
            self._row(UnknownChange(frame=None, key=None, version=entry.version, why=why, **self._place(entry)))

    def _row(self, after: AnyChange, before: AnyChange | None = None) -> None:
        self._listener(after, before)

    def _block_of_producer_ids(self, record: Record) -> None:
        self._next_producer_id = record.fields.get("NextProducerId")
        if {"BrokerId", "NextProducerId"} <= record.fields.keys():
            broker, next_id = record.integer("BrokerId"), record.integer("NextProducerId")
            self.producer_ids.append(ProducerIdBlock(broker=broker, next_id=next_id, **self._place(record)))

    def _other(self, record: Record) -> None:
        """Replays what later records do not depend on. A removal has the name of the record that it removes."""
        kind = record.kind.removeprefix("Remove").removesuffix("Record")
        key = [record.fields.get(name) for name in _KEYS.get(kind, ())]
        if not key or None in key:
            return
        removed = record.kind.startswith("Remove") or record.fields.get("Remove") is True
        entity = (kind, *map(_plain, key))
        if removed:
            self._others.pop(entity, None)
        else:
            rest = {name: value for name, value in record.fields.items() if name not in (*_KEYS[kind], "Remove")}
            self._others[entity] = HIDDEN if kind in _HIDDEN else " ".join(_plain(rest[name]) for name in sorted(rest))

    def _place(self, entry: Entry) -> _Place:
        if self._snapshot is not None:
            return _Place(
                time_ns=self._snapshot.time_ms * NS_PER_MS,
                offset=self._snapshot.end_offset - 1,
                controller_epoch=self._snapshot.epoch,
                from_snapshot=True,
            )
        return _Place(
            time_ns=entry.time_ms * NS_PER_MS,
            offset=entry.offset,
            controller_epoch=entry.epoch,
            from_snapshot=False,
        )

    # Brokers

    def _register_broker(self, record: Record) -> None:
        broker = BrokerChange(
            event=BrokerEvent.REGISTERED,
            broker=record.integer("BrokerId"),
            broker_epoch=record.integer("BrokerEpoch"),
            incarnation=record.text("IncarnationId"),
            fenced=record.flag("Fenced"),
            shutting_down=record.flag("InControlledShutdown"),
            rack=record.optional_text("Rack"),
            directories=record.texts("LogDirs") or (),
            cordoned=record.texts("CordonedLogDirs") or (),
            **self._place(record),
        )
        self._broker_row(broker)

    def _unregister_broker(self, record: Record) -> None:
        broker = self._registered(record, "BrokerId", "BrokerEpoch")
        self._broker_row(replace(broker, event=BrokerEvent.UNREGISTERED, **self._place(record)))
        del self.known.brokers[broker.broker]

    def _fence(self, record: Record, *, fenced: bool) -> None:
        event = BrokerEvent.FENCED if fenced else BrokerEvent.UNFENCED
        broker = self._registered(record, "Id", "Epoch")
        self._broker_row(replace(broker, event=event, fenced=fenced, **self._place(record)))

    def _change_broker(self, record: Record) -> None:
        broker = replace(self._registered(record, "BrokerId", "BrokerEpoch"), **self._place(record))
        if fencing := record.integer("Fenced"):
            event = BrokerEvent.FENCED if fencing > 0 else BrokerEvent.UNFENCED
            broker = replace(broker, event=event, fenced=fencing > 0)
            self._broker_row(broker)
        if record.fields.get("InControlledShutdown"):
            broker = replace(broker, event=BrokerEvent.SHUTTING_DOWN, shutting_down=True)
            self._broker_row(broker)
        directories, cordoned = record.texts("LogDirs"), record.texts("CordonedLogDirs")
        if directories or cordoned is not None:
            broker = replace(
                broker,
                event=BrokerEvent.DIRECTORIES,
                directories=directories or broker.directories,
                cordoned=broker.cordoned if cordoned is None else cordoned,
            )
            self._broker_row(broker)

    def _registered(self, record: Record, broker_field: str, epoch_field: str) -> BrokerChange:
        broker, epoch = record.integer(broker_field), record.integer(epoch_field)
        known = self.known.brokers.get(broker)
        if known is None or known.broker_epoch != epoch:
            raise WrongFieldError(f"broker {broker} is not registered with epoch {epoch}")
        return known

    def _broker_row(self, broker: BrokerChange) -> None:
        before = self.known.brokers.get(broker.broker)
        self.known.brokers[broker.broker] = broker
        self._row(broker, before)

    # Controllers

    def _register_controller(self, record: Record) -> None:
        self._row(
            ControllerChange(
                event=ControllerEvent.REGISTERED,
                controller=record.integer("ControllerId"),
                incarnation=record.text("IncarnationId"),
                **self._place(record),
            )
        )

    def _unregister_controller(self, record: Record) -> None:
        controller = record.integer("ControllerId")
        self._row(ControllerChange(event=ControllerEvent.UNREGISTERED, controller=controller, **self._place(record)))

    def _leads(self, record: Record) -> None:
        leader, voters = record.integer("LeaderId"), voter_ids(record)
        self._row(
            ControllerChange(event=ControllerEvent.LEADS, controller=leader, voters=voters, **self._place(record))
        )

    def _voters(self, record: Record) -> None:
        voters = voter_ids(record)
        self._row(ControllerChange(event=ControllerEvent.VOTERS, controller=-1, voters=voters, **self._place(record)))

    # Topics and partitions

    def _topic(self, record: Record) -> None:
        name, topic_id = record.text("Name"), record.text("TopicId")
        self.known.topics[topic_id] = name
        self._topic_row(record, TopicEvent.CREATED, name, topic_id)

    def _remove_topic(self, record: Record) -> None:
        topic_id = record.text("TopicId")
        name = self._name(topic_id)
        del self.known.topics[topic_id]
        self._topic_row(record, TopicEvent.DELETED, name, topic_id)
        self._partitions.remove_topic(topic_id)
        for kind, of, key in list(self.known.settings):
            if kind is ResourceKind.TOPIC and of == name:
                self._config_row(record, kind, of, key, None)

    def _topic_row(self, record: Record, event: TopicEvent, topic: str, topic_id: str) -> None:
        self._row(TopicChange(event=event, topic=topic, topic_id=topic_id, **self._place(record)))

    def _name(self, topic_id: str) -> str:
        if topic_id not in self.known.topics:
            raise WrongFieldError(f"no topic has the id {topic_id}")
        return self.known.topics[topic_id]

    def _partition(self, record: Record) -> None:
        topic_id, partition = record.text("TopicId"), record.integer("PartitionId")
        state = PartitionChange(
            topic=self._name(topic_id),
            topic_id=topic_id,
            partition=partition,
            leader=record.integer("Leader"),
            leader_epoch=record.integer("LeaderEpoch"),
            partition_epoch=record.integer("PartitionEpoch"),
            isr=record.integers("Isr") or (),
            elr=record.integers("EligibleLeaderReplicas") or (),
            last_known_elr=record.integers("LastKnownElr") or (),
            recovering=record.integer("LeaderRecoveryState") == 1,
            replicas=record.integers("Replicas") or (),
            adding=record.integers("AddingReplicas") or (),
            removing=record.integers("RemovingReplicas") or (),
            directories=record.texts("Directories") or (),
            created=self._snapshot is None and self._partitions.get(topic_id, partition) is None,
            **self._place(record),
        )
        self._partition_row(state)

    def _change_partition(self, record: Record) -> None:
        topic_id, partition = record.text("TopicId"), record.integer("PartitionId")
        name, before = self._name(topic_id), self._partitions.get(topic_id, partition)
        if before is None:
            raise WrongFieldError(f"{name} has no partition {partition}")
        leader, recovery = record.integer("Leader"), record.integer("LeaderRecoveryState")
        replicas = record.integers("Replicas")
        self._partition_row(
            replace(
                before,
                leader=before.leader if leader == NO_CHANGE else leader,
                leader_epoch=before.leader_epoch + (leader != NO_CHANGE),
                partition_epoch=before.partition_epoch + 1,
                isr=_changed(before.isr, record.integers("Isr")),
                elr=_changed(before.elr, record.integers("EligibleLeaderReplicas")),
                last_known_elr=_changed(before.last_known_elr, record.integers("LastKnownElr")),
                recovering=before.recovering if recovery < 0 else recovery == 1,
                replicas=_changed(before.replicas, replicas),
                adding=_changed(before.adding, record.integers("AddingReplicas")),
                removing=_changed(before.removing, record.integers("RemovingReplicas")),
                directories=record.texts("Directories") or _moved(before, replicas),
                created=False,
                **self._place(record),
            )
        )

    def _clear_elr(self, record: Record) -> None:
        """Empties the ELR of one topic, or of all; partitions that have none do not change."""
        name = record.text("TopicName")
        for state in list(self._partitions):
            if name in ("", state.topic) and (state.elr or state.last_known_elr):
                cleared = replace(state, elr=(), last_known_elr=(), created=False, **self._place(record))
                self._partition_row(replace(cleared, partition_epoch=state.partition_epoch + 1))

    def _partition_row(self, state: PartitionChange) -> None:
        before = self._partitions.get(state.topic_id, state.partition)
        self._partitions.put(state)
        self._row(state, before)

    # Settings and features

    def _config(self, record: Record) -> None:
        kind = _RESOURCES.get(record.integer("ResourceType"), ResourceKind.OTHER)
        key, value = record.text("Name"), record.optional_text("Value")
        self._config_row(record, kind, record.text("ResourceName"), key, value)

    def _config_row(self, record: Record, kind: ResourceKind, name: str, key: str, value: str | None) -> None:
        before = self.known.settings.get((kind, name, key))
        if value is None:
            self.known.settings.pop((kind, name, key), None)
        else:
            self.known.settings[kind, name, key] = value
        after = ConfigChange(kind=kind, name=name, key=key, value=_shown(key, value), **self._place(record))
        self._row(after, None if before is None else replace(after, value=_shown(key, before)))

    def _feature(self, record: Record, feature: str, level: int) -> None:
        self.known.features[feature] = level
        self._row(FeatureChange(feature=feature, level=level, **self._place(record)))


def _changed(before: tuple[int, ...], after: tuple[int, ...] | None) -> tuple[int, ...]:
    return before if after is None else after


def _moved(before: PartitionChange, replicas: tuple[int, ...] | None) -> tuple[str, ...]:
    """The directories after a change of replicas: a new replica has none yet (DirectoryId.UNASSIGNED)."""
    if replicas is None or not before.directories:
        return before.directories
    known = dict(zip(before.replicas, before.directories, strict=False))
    return tuple(known.get(replica, UNASSIGNED) for replica in replicas)


def _shown(key: str, value: str | None) -> str | None:
    return HIDDEN if value is not None and is_secret(key) else value


def _plain(value: object) -> str:
    """A value as text, which does not depend on the order of its parts."""
    if isinstance(value, tuple):
        return ",".join(sorted(map(_plain, value)))
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_plain(value[name])}" for name in sorted(value))
    return str(value)


def is_secret(key: str) -> bool:
    return any(part in key.lower() for part in _SECRETS)


def voter_ids(record: Record) -> tuple[int, ...]:
    return tuple(sorted(voter.integer("VoterId") for voter in record.rows("Voters")))
