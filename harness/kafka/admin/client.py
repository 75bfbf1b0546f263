"""Reads the state of a cluster and changes it as an operator would, on addresses that no fault affects.

Every call is bounded. Answers that each broker gives for itself (offsets of a replica, settings of a broker) lack the
brokers that are down, paused or isolated: their absence is evidence and not an error. Calls that need one particular
answer (a coordinator, the active controller, an election) wait for it up to `deadline_s` and then raise HarnessTimeout
with what they saw last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final

from harness.kafka.admin import (
    broker_views,
    cluster,
    features,
    group_members,
    log_dirs,
    markers,
    members,
    metadata_by_node,
    operations,
    quorum,
    share_groups,
    snapshots,
    users,
    validation,
)
from harness.kafka.admin import groups as admin_groups
from harness.kafka.admin import offsets as admin_offsets
from harness.kafka.admin import topics as admin_topics
from harness.kafka.admin.cluster import Reassignment
from harness.kafka.admin.coordinator_answers import CoordinatorAnswers
from harness.kafka.admin.features import Direction
from harness.kafka.admin.fetch import Served, fetch
from harness.kafka.admin.group_members import GroupSeen
from harness.kafka.admin.groups import ProducerOnPartition, TransactionState
from harness.kafka.admin.log_dirs import LogDirectories, ReplicaDirectory
from harness.kafka.admin.metadata_by_node import Seen
from harness.kafka.admin.offsets import EpochEnd, TieredReplica, TimedOffset
from harness.kafka.admin.quorum_state import Quorum
from harness.kafka.admin.security import PLAINTEXT, Security
from harness.kafka.admin.share_groups import ShareOffset
from harness.kafka.admin.snapshots import PATIENT_S
from harness.kafka.admin.topics import PartitionState, TopicsSeen
from harness.kafka.admin.wire import Unanswered, Wire
from harness.model.documents.cluster import BrokerView, Phase, Snapshot
from harness.model.entities import MetadataEntity
from harness.model.errors import HarnessTimeout
from harness.model.outcome import Did
from harness.model.place import Place
from harness.model.scenario.scenario import Admin, Topic

__all__ = [
    "AdminView",
    "EpochEnd",
    "LogDirectories",
    "PartitionState",
    "Place",
    "ProducerOnPartition",
    "Quorum",
    "Reassignment",
    "ReplicaDirectory",
    "Seen",
    "TopicsSeen",
    "TransactionState",
]

DEADLINE_S: Final = 20.0


class AdminView:
    """An observer and operator of one cluster by the DIRECT address of each broker. Thread-safe; close it after use.

    `controllers` are the addresses of controllers by node id. If they are given, requests for the active controller go
    to it directly: a broker forwards them to the controller that it believes active, and when that one is paused the
    broker may hold a request for 30 s.
    """

    def __init__(
        self,
        cluster_addresses: Mapping[int, tuple[str, int]],
        controllers: Mapping[int, tuple[str, int]] | None = None,
        security: Security = PLAINTEXT,
    ) -> None:
        self._wire = Wire(cluster_addresses, controllers, security)

    def __enter__(self) -> AdminView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes every connection; idempotent."""
        self._wire.close()

    def leave_alone(self, brokers: Iterable[int]) -> None:
        """Sends no request to these brokers until `ask_again`: a paused broker would only cost time."""
        self._wire.paused |= frozenset(brokers)

    def ask_again(self, brokers: Iterable[int]) -> None:
        """Ends `leave_alone`."""
        self._wire.paused -= frozenset(brokers)

    # --- topics and partitions ---

    def create_topics(self, topics: Sequence[Topic], deadline_s: float = DEADLINE_S) -> dict[str, str]:
        """Creates topics, waits until every broker knows their leaders, and returns topic ids by name.

        min.insync.replicas is 2 unless the topic sets it.
        """
        return admin_topics.create_topics(self._wire, topics, deadline_s)

    def recreate_topic(self, topic: Topic, deadline_s: float = DEADLINE_S) -> str:
        """Deletes a topic, creates it at once under the same name, and returns its new topic id."""
        return admin_topics.recreate_topic(self._wire, topic, deadline_s)

    def create_partitions(self, topic: str, total: int, deadline_s: float = DEADLINE_S) -> None:
        """Gives a topic `total` partitions and waits until every broker knows their leaders."""
        admin_topics.create_partitions(self._wire, topic, total, deadline_s)

    def delete_topics(self, names: Sequence[str], deadline_s: float = DEADLINE_S) -> None:
        """Deletes topics and waits until no answering broker knows them."""
        admin_topics.delete_topics(self._wire, names, deadline_s)

    def partitions(self, topics: Iterable[str]) -> list[PartitionState]:
        """The state of every partition at its highest leader epoch; unknown topics are absent.

        Fast enough to be polled.
        """
        return admin_topics.partitions(self._wire, topics)

    def partitions_by_broker(self, topics: Iterable[str]) -> dict[int, TopicsSeen]:
        """The metadata of each answering broker, stale or not."""
        return admin_topics.seen_by_broker(self._wire, topics)

    # --- offsets ---

    def replica_offsets(self, topics: Iterable[str]) -> dict[tuple[str, int, int], tuple[int, int]]:
        """(topic, partition, broker) -> (log start, log end) of each replica's own log."""
        return admin_offsets.replica_offsets(self._wire, self.partitions(topics))

    def tiered_replicas(self, topics: Iterable[str]) -> dict[tuple[str, int, int], TieredReplica]:
        """(topic, partition, broker) -> the offsets at which each replica's log and its remote tier begin and end."""
        return admin_offsets.tiered_replicas(self._wire, self.partitions(topics))

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int, broker: int | None = None, min_bytes: int = 1
    ) -> Served | None:
        """The answer of the leader, or of this broker, to a consumer's fetch from an offset; None without a leader or
        an answer."""
        if broker is None:
            broker = next((s.leader for s in self.partitions([topic]) if s.partition == partition), -1)
        try:
            return fetch(self._wire, broker, topic, partition, offset, max_bytes, min_bytes) if broker >= 0 else None
        except Unanswered:
            return None

    def watermarks(self, topics: Iterable[str]) -> dict[Place, tuple[int, int]]:
        """(topic, partition) -> (high watermark, last stable offset) of the leader."""
        return admin_offsets.watermarks(self._wire, self.partitions(topics))

    def high_watermark(self, topics: Iterable[str]) -> dict[Place, int]:
        """The high watermark of each leader, up to which read_uncommitted may read."""
        return {place: high for place, (high, _) in self.watermarks(topics).items()}

    def last_stable_offset(self, topics: Iterable[str]) -> dict[Place, int]:
        """The last stable offset of each leader: read_committed may read up to it, below the first open transaction."""
        return {place: stable for place, (_, stable) in self.watermarks(topics).items()}

    def offsets_by_time(self, times_ms: Mapping[Place, int]) -> dict[Place, TimedOffset]:
        """The offset of the first record at or after a time, as each leader answers it to a consumer."""
        return admin_offsets.offsets_by_time(self._wire, self.partitions({t for t, _ in times_ms}), times_ms)

    def offsets_by_epoch(self, epochs: Mapping[Place, int]) -> dict[Place, EpochEnd]:
        """The end offset of the given leader epoch in the log of each partition's leader."""
        return admin_offsets.offsets_by_epoch(self._wire, self.partitions({t for t, _ in epochs}), epochs)

    def delete_records(self, before: Mapping[Place, int], deadline_s: float = DEADLINE_S) -> dict[Place, int]:
        """Deletes records below these offsets (-1: the high watermark) and returns the low watermarks."""
        topics = {topic for topic, _ in before}
        return admin_offsets.delete_records(self._wire, lambda: self.partitions(topics), before, deadline_s)

    # --- settings ---

    def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Effective settings by topic."""
        return cluster.topic_configs(self._wire, topics)

    def broker_configs(self) -> dict[int, dict[str, str]]:
        """Effective settings of each broker that answers."""
        return cluster.broker_configs(self._wire)

    def alter_topic_config(self, topic: str, config: Mapping[str, str | None], deadline_s: float = DEADLINE_S) -> None:
        """Sets settings of a topic, removes those that are None, and waits until the brokers report the change."""
        cluster.alter_config(self._wire, topic, config, deadline_s)

    def alter_broker_config(
        self, brokers: Sequence[int], config: Mapping[str, str | None], deadline_s: float = DEADLINE_S
    ) -> None:
        """Changes dynamic settings of brokers (KIP-226), and waits until each broker reports its own."""
        cluster.alter_broker_config(self._wire, brokers, config, deadline_s)

    def features(self) -> dict[str, int]:
        """Finalized feature levels: metadata.version, transaction.version, eligible.leader.replicas.version, ..."""
        return features.features(self._wire)

    def supported_features(self) -> dict[str, int]:
        """The highest level of each feature that every answering node supports."""
        return features.supported_features(self._wire)

    def update_features(
        self, levels: Mapping[str, int], direction: Direction, deadline_s: float = DEADLINE_S
    ) -> str | None:
        """Finalizes feature levels, "up" or "down". None, or the reason why the active controller refuses."""
        return features.update_features(self._wire, levels, direction, deadline_s)

    def validate_only(self, topic: str, partitions: int, deadline_s: float = DEADLINE_S) -> dict[str, str | None]:
        """Asks whether changes would be done: Kafka's error by API, or None. The topic has so many partitions."""
        return validation.validate_only(self._wire, topic, partitions, deadline_s)

    # --- leaders and replicas ---

    def elect_leaders(
        self, kind: str, partitions: Sequence[Place], deadline_s: float = DEADLINE_S
    ) -> dict[Place, str | None]:
        """Holds a "preferred" or "unclean" election. Returns Kafka's error or None for each partition."""
        return cluster.elect_leaders(self._wire, kind, partitions, deadline_s)

    def reassign(self, assignment: Mapping[Place, Sequence[int] | None], deadline_s: float = DEADLINE_S) -> None:
        """Starts reassignments; None in place of replicas cancels one."""
        cluster.reassign(self._wire, assignment, deadline_s)

    def reassignments(self, deadline_s: float = DEADLINE_S) -> dict[Place, Reassignment]:
        """The reassignments that are in progress."""
        return cluster.reassignments(self._wire, deadline_s)

    # --- entities of a scenario's admins ---

    def entities(self, admin: Admin) -> list[Seen]:
        """The state of every entity of an admin in the answer of each node. A node that does not answer has no row."""
        try:
            moving = {place: going.removing for place, going in self.reassignments(PATIENT_S).items()}
        except HarnessTimeout:  # no controller leads now
            return metadata_by_node.seen_by_nodes(self._wire, admin, None)
        return metadata_by_node.seen_by_nodes(self._wire, admin, moving)

    def carry_out(
        self, did: Did, metadata_entity: MetadataEntity, value: str | None, deadline_s: float = DEADLINE_S
    ) -> None:
        """Does one operation of an admin. It is no error when its effect exists already."""
        operations.carry_out(self._wire, did, metadata_entity, value, deadline_s)

    # --- log directories ---

    def set_scram_user(self, name: str, salt: bytes, salted_password: bytes, deadline_s: float = DEADLINE_S) -> None:
        """Creates a user of SCRAM-SHA-512. HarnessTimeout when some broker does not know it by the deadline."""
        users.set_scram_user(self._wire, name, salt, salted_password, deadline_s)

    def log_directories(self, broker: int) -> LogDirectories | None:
        """The log directories of a broker with their replicas; None when it does not answer."""
        return log_dirs.log_directories(self._wire, broker)

    def move_replicas(self, broker: int, to: Mapping[Place, str]) -> None:
        """Starts to move replicas of a broker to other log directories of the same broker."""
        log_dirs.move_replicas(self._wire, broker, to)

    # --- controllers ---

    def active_controller(self, deadline_s: float = DEADLINE_S) -> int:
        """Node id of the quorum's leader."""
        return self.quorum(deadline_s).leader

    def quorum(self, deadline_s: float = DEADLINE_S) -> Quorum:
        """The metadata quorum: leader, epoch, log ends of voters and observers."""
        return quorum.quorum(self._wire, deadline_s)

    def remove_voter(self, node: int, directory: str, deadline_s: float = DEADLINE_S) -> None:
        """Removes a controller, identified by its node id and directory id, from the voters (KIP-853)."""
        quorum.remove_voter(self._wire, node, directory, deadline_s)

    def add_voter(self, node: int, directory: str, deadline_s: float = DEADLINE_S) -> None:
        """Makes a controller that has caught up a voter."""
        quorum.add_voter(self._wire, node, directory, deadline_s)

    # --- groups and transactions ---

    def coordinator(self, kind: str, key: str, deadline_s: float = DEADLINE_S) -> int:
        """The broker that coordinates a "group" or a "transaction" (by transactional id)."""
        return admin_groups.coordinator(self._wire, kind, key, deadline_s)

    def group_type(self, group: str) -> str:
        """The group's protocol: "classic" or "consumer"; "" when no broker reports it."""
        return admin_groups.group_type(self._wire, group)

    def group_state(self, group: str) -> str:
        """The group's state, such as "Stable" or "Empty"; "" when no broker has the group."""
        return admin_groups.group_state(self._wire, group)

    def group_members(self, group: str) -> GroupSeen:
        """The group's state, and its members with their partitions, as its coordinator reports them now."""
        return group_members.group_members(self._wire, group)

    def delete_group(self, group: str, deadline_s: float = DEADLINE_S) -> None:
        """Deletes a group without members and its committed offsets (KIP-229).

        A group that does not exist is no error.
        """
        admin_groups.delete_group(self._wire, group, deadline_s)

    def commit_from_outside(self, group: str, place: Place, offset: int) -> str | None:
        """Kafka's error for an offset that no member of the group commits; None = its coordinator accepted it."""
        return admin_groups.commit_from_outside(self._wire, group, place, offset, DEADLINE_S)

    def delete_offset(self, group: str, place: Place) -> str | None:
        """Kafka's error for the deletion of a committed offset (KIP-496); None = its coordinator deleted it."""
        return admin_groups.delete_offset(self._wire, group, place, DEADLINE_S)

    def group_offsets(
        self,
        group: str,
        places: Sequence[Place] | None = None,
        *,
        stable: bool = True,
        deadline_s: float = DEADLINE_S,
    ) -> dict[Place, int]:
        """The committed offsets of these partitions, or of all; `stable` waits for pending transactional commits.

        Kafka reports a pending first commit of a partition only if the request names that partition.
        """
        return admin_groups.group_offsets(self._wire, group, places, stable=stable, deadline_s=deadline_s)

    def share_offsets(self, group: str, deadline_s: float = DEADLINE_S) -> dict[Place, ShareOffset]:
        """The progress of a share group in each partition from which it ever received a record (KIP-932)."""
        return share_groups.share_offsets(self._wire, group, deadline_s)

    def alter_group_config(self, group: str, config: Mapping[str, str | None], deadline_s: float = DEADLINE_S) -> None:
        """Sets settings of a group, which need not exist yet, and waits until every answering broker reports them."""
        cluster.alter_group_config(self._wire, group, config, deadline_s)

    def producers(self, topics: Iterable[str]) -> list[ProducerOnPartition]:
        """The producers with state on the leaders; `txn_start_offset` is set while a transaction is open."""
        reported = admin_groups.describe_producers(self._wire, self.partitions(topics))
        return [producer for producers in reported.values() for producer in producers]

    def remembered(self, topics: Iterable[str]) -> dict[Place, int]:
        """The number of producers with state on each leader; partitions without an answer are absent."""
        reported = admin_groups.describe_producers(self._wire, self.partitions(topics))
        return {place: len(producers) for place, producers in reported.items()}

    def transactions(self, ids: Sequence[str] | None = None) -> dict[str, TransactionState]:
        """The state of transactions at their coordinators, by transactional id; without `ids` of all of them."""
        chosen = list(admin_groups.list_transactions(self._wire)) if ids is None else list(ids)
        return admin_groups.describe_transactions(self._wire, chosen) if chosen else {}

    def transactions_by_coordinator(self) -> dict[int, dict[str, str]]:
        """Broker -> transactional id -> state, without the brokers that do not answer or still load them."""
        return admin_groups.transactions_by_coordinator(self._wire)

    def groups_by_coordinator(self) -> dict[int, frozenset[str]]:
        """Broker -> the groups of whatever protocol that it lists, without the brokers that do not answer."""
        return admin_groups.groups_by_coordinator(self._wire)

    @property
    def answers(self) -> CoordinatorAnswers:
        """What single brokers answer as coordinators."""
        return CoordinatorAnswers(self._wire)

    def abort_on(self, leader: int, producer: ProducerOnPartition) -> str | None:
        """Aborts a producer's open transaction on one partition without its coordinator (KIP-664).

        Kafka's error, or None.
        """
        return markers.abort(self._wire, leader, producer)

    # --- members ---

    def registered(self) -> dict[int, frozenset[int]]:
        """Broker -> the brokers that it lists, which are those that no controller has fenced."""
        return members.registered(self._wire)

    def topic_names(self) -> frozenset[str]:
        """The names of all topics that this client may see."""
        return members.topic_names(self._wire)

    def group_names(self) -> frozenset[str]:
        """The names of all groups that this client may see."""
        return members.group_names(self._wire)

    # --- evidence ---

    def brokers_up(self, timeout_s: float = PATIENT_S) -> list[int]:
        """Brokers that answer now."""
        return snapshots.brokers_up(self._wire, timeout_s)

    def snapshot(self, phase: Phase, topics: Sequence[str], groups: Sequence[str]) -> Snapshot:
        """The state that the brokers report now, with 5 s for each answer."""
        return snapshots.snapshot(self._wire, phase, topics, groups)

    def metadata_offsets(self) -> dict[int, int]:
        """By broker that answers, the offset up to which it has applied the metadata log."""
        return broker_views.metadata_offsets(self._wire)

    def broker_views(self, topics: Sequence[str]) -> list[BrokerView]:
        """The metadata of topics that each broker serves. A broker that does not answer within 5 s is absent."""
        return broker_views.broker_views(self._wire, topics, PATIENT_S)
