"""Folds the metadata logs of all nodes into the history of the cluster.

The fold follows the replay of Kafka's own controller: a partition change carries only what changed, each change raises
the partition epoch, a change that names a leader raises the leader epoch, and the deletion of a topic removes its
settings. A record that does not fit the state before it is a problem of the history and never an exception.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypedDict

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
    Written,
)
from harness.model.history.committed import Division, divide
from harness.model.history.history import History
from harness.model.history.log import Entry, NodeLog, Record, Snapshot, Unreadable, Value, WrongFieldError
from harness.model.history.snapshots import DIRECTORIES, SETTING, State, compare_snapshots

BEGIN: Final = "BeginTransactionRecord"
END: Final = "EndTransactionRecord"
ABORT: Final = "AbortTransactionRecord"
NO_CHANGE: Final = -2  # of a leader
KRAFT_VERSION: Final = "kraft.version"
UNASSIGNED: Final = "AAAAAAAAAAAAAAAAAAAAAA"  # the directory of a replica that its broker has not placed yet
_VOTERS: Final = "VotersRecord"
_NO_EFFECT: Final = frozenset({"NoOpRecord", "SnapshotHeaderRecord", "SnapshotFooterRecord", BEGIN, END, ABORT})
_OTHERS: Final = frozenset(
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
_CONTROL: Final = frozenset({"LeaderChangeMessage", "KRaftVersionRecord", _VOTERS})
# The ids of ConfigResource.Type.
_RESOURCES: Final = {
    2: ResourceKind.TOPIC,
    4: ResourceKind.BROKER,
    8: ResourceKind.BROKER_LOGGER,
    16: ResourceKind.CLIENT_METRICS,
    32: ResourceKind.GROUP,
}
_SECRETS: Final = ("password", "jaas.config", "keystore.key", "secret", "credential")
_NS_PER_MS: Final = 1_000_000
# The fields of a state that do not depend on how it came about.
_OF_PARTITION: Final = (
    *("leader", "leader_epoch", "partition_epoch", "isr", "elr", "last_known_elr", "recovering"),
    *("replicas", "adding", "removing"),
)
_OF_BROKER: Final = ("broker_epoch", "incarnation", "fenced", "shutting_down", "rack", "directories", "cordoned")


def fold(
    logs: Sequence[NodeLog],
    voters: Collection[int] | None = None,
    high_watermark: int | None = None,
    snapshots_since_ms: int | None = None,
) -> History:
    """The history that the logs of all nodes show.

    voters: the controllers; None = as the newest record of voters in the logs says (KIP-853). A quorum with static
    voters writes no such record, but its leaders name the voters. ValueError if no log names any.
    high_watermark: the last one that the quorum reported, if it is known.
    snapshots_since_ms: snapshots with a later last record are compared with the log; None = no snapshot is.
    """
    known = set(voters) if voters is not None else voters_of(logs)
    if not known:
        raise ValueError("no log names the voters of the quorum: give them as an argument")
    division = divide(logs, known, high_watermark)
    builder = _Builder()
    start = _replay(division, builder)
    compared, differences = (
        ([], [])
        if snapshots_since_ms is None
        else compare_snapshots(logs, division.batches, _Builder, snapshots_since_ms)
    )
    return History(
        nodes=sorted(log.node for log in logs),
        voters=sorted(known),
        start=start,
        end=division.end,
        high_watermark=high_watermark,
        changes=builder.changes,
        written=list(_written(division)),
        dropped=builder.dropped,
        problems=[*_problems(logs, known, division, high_watermark), *builder.problems],
        snapshots=compared,
        differences=differences,
        producer_ids=builder.producer_ids,
    )


def voters_of(logs: Iterable[NodeLog]) -> set[int]:
    """The voters that the newest record about them names, in any log or snapshot; empty if there is none."""
    newest: tuple[tuple[int, int], set[int]] = ((-1, -1), set())
    for log in logs:
        placed = [((e.epoch, e.offset), e) for batch in log.batches for e in batch.entries]
        placed += [((s.epoch, s.end_offset - 1), e) for s in log.usable_snapshots() for e in s.entries]
        for place, entry in placed:
            # A leader of a dynamic quorum writes its record with the voters of that moment.
            if place > newest[0] and isinstance(entry, Record) and entry.kind in (_VOTERS, "LeaderChangeMessage"):
                newest = (place, set(_voter_ids(entry)))
    return newest[1]


def _voter_ids(record: Record) -> tuple[int, ...]:
    return tuple(sorted(voter.integer("VoterId") for voter in record.rows("Voters")))


def _replay(division: Division, builder: _Builder) -> int:
    """Replays everything that is committed. Returns the first offset from which on the log has no gap.

    Where the log has a gap, the oldest snapshot behind the gap from which the log goes on replaces the state.
    """
    batches, snapshots = deque(division.batches), deque(division.snapshots)
    at = start = 0
    while snapshots and snapshots[0].end_offset == 0:
        builder.load_formatted(snapshots.popleft())
    while batches or snapshots:
        if snapshots and snapshots[0].end_offset <= at:
            snapshots.popleft()
        elif batches and batches[0].base_offset < at:
            batches.popleft()  # a snapshot covers it
        elif batches and batches[0].base_offset == at:
            batch = batches.popleft()
            builder.replay(batch.entries)
            at = batch.last_offset + 1
        elif snapshots:
            ahead = snapshots.popleft()
            if at:
                builder.problem(ProblemKind.MISSING_RECORDS, at, f"{at} to {ahead.end_offset - 1}, from a snapshot")
            builder.load(ahead)
            at = start = ahead.end_offset
        else:
            gap = f"{at} to {batches[0].base_offset - 1}, and no snapshot covers them"
            builder.problem(ProblemKind.MISSING_RECORDS, at, gap)
            builder.end_transaction(aborted=False)
            at = start = batches[0].base_offset
    builder.end_transaction(aborted=False)
    return start


def _problems(
    logs: Sequence[NodeLog], voters: Collection[int], division: Division, high_watermark: int | None
) -> Iterator[Problem]:
    for log in logs:
        if log.torn is not None:
            torn = log.torn
            detail = f"{torn.size_bytes} bytes at byte {torn.position} of {torn.file}: {torn.reason}"
            yield Problem(kind=ProblemKind.TORN_END, node=log.node, offset=log.end, detail=detail)
        for snapshot in log.snapshots:
            if snapshot.problem is not None:
                detail = f"snapshot {snapshot.end_offset}-{snapshot.epoch}: {snapshot.problem}"
                yield Problem(kind=ProblemKind.BAD_SNAPSHOT, node=log.node, offset=snapshot.end_offset, detail=detail)
    for voter in sorted(set(voters) - {log.node for log in logs}):
        yield Problem(kind=ProblemKind.MISSING_VOTER, node=voter, offset=0, detail="its log was not given")
    if high_watermark is not None and division.end < high_watermark:
        detail = f"the high watermark was {high_watermark}"
        yield Problem(kind=ProblemKind.MISSING_END, node=None, offset=division.end, detail=detail)
    for conflict in division.conflicts:
        first, second = conflict.nodes
        detail = f"differs from node {first} in epoch {conflict.epoch}"
        yield Problem(kind=ProblemKind.CONFLICT, node=second, offset=conflict.offset, detail=detail)


def _written(division: Division) -> Iterator[Written]:
    for node, batches in sorted(division.uncommitted.items()):
        for batch in batches:
            for entry in batch.entries:
                yield _written_entry(node, entry)


def _written_entry(node: int, entry: Entry) -> Written:
    time_ns = entry.time_ms * _NS_PER_MS
    if isinstance(entry, Unreadable):
        return Written(node=node, offset=entry.offset, epoch=entry.epoch, time_ns=time_ns, kind="", fields={})
    fields = {} if entry.kind in _OTHERS else entry.fields
    if entry.kind == "ConfigRecord" and _is_secret(entry.text("Name")):
        fields = {**fields, "Value": HIDDEN}
    return Written(node=node, offset=entry.offset, epoch=entry.epoch, time_ns=time_ns, kind=entry.kind, fields=fields)


def _is_secret(key: str) -> bool:
    return any(part in key.lower() for part in _SECRETS)


class _Place(TypedDict):
    """The fields of `Change`."""

    time_ns: int
    offset: int
    controller_epoch: int
    from_snapshot: bool


class _Builder:
    """The state after the records so far, and a row for each change of it."""

    def __init__(self) -> None:
        self.changes: list[AnyChange] = []
        self.dropped: list[Dropped] = []
        self.problems: list[Problem] = []
        self.producer_ids: list[ProducerIdBlock] = []
        self._topics: dict[str, str] = {}  # id -> name
        self._partitions: dict[tuple[str, int], PartitionChange] = {}
        self._brokers: dict[int, BrokerChange] = {}
        self._configs: dict[tuple[ResourceKind, str, str], str | None] = {}
        self._features: dict[str, int] = {}
        self._next_producer_id: Value = None
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
            _VOTERS: self._voters,
        }

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
            time_ns = entry.time_ms * _NS_PER_MS
            self.dropped.append(
                Dropped(offset=entry.offset, epoch=entry.epoch, time_ns=time_ns, kind=kind, aborted=aborted)
            )
        self._open = None

    def load(self, snapshot: Snapshot) -> None:
        """Replaces the state by that of a snapshot."""
        self.end_transaction(aborted=False)
        before = dict(self._topics)
        settings = dict(self._configs)
        self._snapshot = snapshot
        self._topics, self._partitions, self._brokers, self._configs = {}, {}, {}, {}
        self._features, self._next_producer_id = {}, None
        for entry in snapshot.entries:
            self._apply(entry)
        place = Record(snapshot.end_offset - 1, snapshot.epoch, snapshot.time_ms, "", 0, {})
        for topic_id in before.keys() - self._topics.keys():
            self._topic_row(place, TopicEvent.DELETED, before[topic_id], topic_id)
        for kind, name, key in settings.keys() - self._configs.keys():
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
        found: dict[tuple[str, ...], str] = {("topic", id_): name for id_, name in self._topics.items()}
        for (topic_id, partition), of in self._partitions.items():
            for field in _OF_PARTITION:
                found["partition", topic_id, str(partition), field] = str(getattr(of, field))
            found["partition", topic_id, str(partition), DIRECTORIES] = ",".join(of.directories)
        for number, broker in self._brokers.items():
            for field in _OF_BROKER:
                found["broker", str(number), field] = str(getattr(broker, field))
        for (kind, name, key), value in self._configs.items():
            found[SETTING, kind.value, name, key] = HIDDEN if _is_secret(key) else str(value)
        levels = {name: level for name, level in self._features.items() if level and name != KRAFT_VERSION}
        found |= {("feature", name): str(level) for name, level in levels.items()}
        if self._next_producer_id is not None:
            found["next producer id",] = str(self._next_producer_id)
        return found

    def _apply(self, entry: Entry) -> None:
        if isinstance(entry, Unreadable):
            self.changes.append(
                UnknownChange(
                    frame=entry.frame, key=entry.key, version=entry.version, why=entry.why, **self._place(entry)
                )
            )
        elif entry.kind in self._handlers:
            try:
                self._handlers[entry.kind](entry)
            except (WrongFieldError, KeyError) as wrong:
                self.problem(ProblemKind.IMPOSSIBLE, entry.offset, f"{entry.kind}: {wrong}")
        elif entry.kind in _OTHERS:
            if entry.kind == "ProducerIdsRecord":
                self._block_of_producer_ids(entry)
            self.changes.append(OtherChange(kind=entry.kind, **self._place(entry)))
        elif entry.kind not in _NO_EFFECT:
            why = f"the history has no rule for {entry.kind}"
            self.changes.append(
                UnknownChange(frame=None, key=None, version=entry.version, why=why, **self._place(entry))
            )

    def _block_of_producer_ids(self, record: Record) -> None:
        self._next_producer_id = record.fields.get("NextProducerId")
        if {"BrokerId", "NextProducerId"} <= record.fields.keys():
            broker, next_id = record.integer("BrokerId"), record.integer("NextProducerId")
            self.producer_ids.append(ProducerIdBlock(broker=broker, next_id=next_id, **self._place(record)))

    def _place(self, entry: Entry) -> _Place:
        if self._snapshot is not None:
            return _Place(
                time_ns=self._snapshot.time_ms * _NS_PER_MS,
                offset=self._snapshot.end_offset - 1,
                controller_epoch=self._snapshot.epoch,
                from_snapshot=True,
            )
        return _Place(
            time_ns=entry.time_ms * _NS_PER_MS,
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
        del self._brokers[broker.broker]

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
        known = self._brokers.get(broker)
        if known is None or known.broker_epoch != epoch:
            raise WrongFieldError(f"broker {broker} is not registered with epoch {epoch}")
        return known

    def _broker_row(self, broker: BrokerChange) -> None:
        self._brokers[broker.broker] = broker
        self.changes.append(broker)

    # Controllers

    def _register_controller(self, record: Record) -> None:
        self.changes.append(
            ControllerChange(
                event=ControllerEvent.REGISTERED,
                controller=record.integer("ControllerId"),
                incarnation=record.text("IncarnationId"),
                **self._place(record),
            )
        )

    def _unregister_controller(self, record: Record) -> None:
        controller = record.integer("ControllerId")
        self.changes.append(
            ControllerChange(event=ControllerEvent.UNREGISTERED, controller=controller, **self._place(record))
        )

    def _leads(self, record: Record) -> None:
        leader, voters = record.integer("LeaderId"), _voter_ids(record)
        self.changes.append(
            ControllerChange(event=ControllerEvent.LEADS, controller=leader, voters=voters, **self._place(record))
        )

    def _voters(self, record: Record) -> None:
        voters = _voter_ids(record)
        self.changes.append(
            ControllerChange(event=ControllerEvent.VOTERS, controller=-1, voters=voters, **self._place(record))
        )

    # Topics and partitions

    def _topic(self, record: Record) -> None:
        name, topic_id = record.text("Name"), record.text("TopicId")
        self._topics[topic_id] = name
        self._topic_row(record, TopicEvent.CREATED, name, topic_id)

    def _remove_topic(self, record: Record) -> None:
        topic_id = record.text("TopicId")
        name = self._name(topic_id)
        del self._topics[topic_id]
        self._topic_row(record, TopicEvent.DELETED, name, topic_id)
        self._partitions = {place: state for place, state in self._partitions.items() if place[0] != topic_id}
        for kind, of, key in list(self._configs):
            if kind is ResourceKind.TOPIC and of == name:
                self._config_row(record, kind, of, key, None)

    def _topic_row(self, record: Record, event: TopicEvent, topic: str, topic_id: str) -> None:
        self.changes.append(TopicChange(event=event, topic=topic, topic_id=topic_id, **self._place(record)))

    def _name(self, topic_id: str) -> str:
        if topic_id not in self._topics:
            raise WrongFieldError(f"no topic has the id {topic_id}")
        return self._topics[topic_id]

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
            created=self._snapshot is None and (topic_id, partition) not in self._partitions,
            **self._place(record),
        )
        self._partition_row(state)

    def _change_partition(self, record: Record) -> None:
        topic_id, partition = record.text("TopicId"), record.integer("PartitionId")
        name, before = self._name(topic_id), self._partitions.get((topic_id, partition))
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
        for state in list(self._partitions.values()):
            if name in ("", state.topic) and (state.elr or state.last_known_elr):
                cleared = replace(state, elr=(), last_known_elr=(), created=False, **self._place(record))
                self._partition_row(replace(cleared, partition_epoch=state.partition_epoch + 1))

    def _partition_row(self, state: PartitionChange) -> None:
        self._partitions[state.topic_id, state.partition] = state
        self.changes.append(state)

    # Settings and features

    def _config(self, record: Record) -> None:
        kind = _RESOURCES.get(record.integer("ResourceType"), ResourceKind.OTHER)
        key, value = record.text("Name"), record.optional_text("Value")
        self._config_row(record, kind, record.text("ResourceName"), key, value)

    def _config_row(self, record: Record, kind: ResourceKind, name: str, key: str, value: str | None) -> None:
        if value is None:
            self._configs.pop((kind, name, key), None)
        else:
            self._configs[kind, name, key] = value
        shown = HIDDEN if value is not None and _is_secret(key) else value
        self.changes.append(ConfigChange(kind=kind, name=name, key=key, value=shown, **self._place(record)))

    def _feature(self, record: Record, feature: str, level: int) -> None:
        self._features[feature] = level
        self.changes.append(FeatureChange(feature=feature, level=level, **self._place(record)))


def _changed(before: tuple[int, ...], after: tuple[int, ...] | None) -> tuple[int, ...]:
    return before if after is None else after


def _moved(before: PartitionChange, replicas: tuple[int, ...] | None) -> tuple[str, ...]:
    """The directories after a change of replicas: a new replica has none yet (DirectoryId.UNASSIGNED)."""
    if replicas is None or not before.directories:
        return before.directories
    known = dict(zip(before.replicas, before.directories, strict=False))
    return tuple(known.get(replica, UNASSIGNED) for replica in replicas)
