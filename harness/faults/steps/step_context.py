"""The view that steps have of a running scenario: cluster, admin connection past all faults, load, and record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from harness.clusters.base import Cluster
from harness.clusters.metadata_history import history_of_cluster
from harness.faults.steps.load import Load
from harness.faults.steps.step_log import StepLog
from harness.faults.steps.targets import parse_nodes, resolve
from harness.kafka.admin.client import AdminView, PartitionState
from harness.model.clock import now_ns
from harness.model.contract.internal_topics import TIER_METADATA, TIER_PARTITIONS, metadata_partition
from harness.model.documents.steps import Event, LeaderSeen
from harness.model.errors import BadInput
from harness.model.history.history import Election
from harness.model.place import Place
from harness.model.scenario.rules import partition_of
from harness.model.scenario.scenario import Topic
from harness.model.wait_budget import WaitBudget
from harness.model.waiting import wait_for

LEADER_DEADLINE_S = 30.0


@dataclass(kw_only=True)
class StepContext:
    """One per run. It also resolves the expressions of nodes (`targets.Facts`)."""

    cluster: Cluster
    admin: AdminView
    load: Load
    rng: Random
    topics: tuple[Topic, ...]
    say: Callable[[str], None]
    internal: tuple[Topic, ...] = ()  # Kafka's internal topics, which no producer writes to
    group_id: Callable[[str], str] = str  # the group id in the cluster of a group of the scenario
    transactional_id: Callable[[str], str] = str  # the transactional id of a producer of the scenario
    steps: Sequence[StepLog] = ()  # those up to the current step; the step runner keeps them
    events: list[Event] = field(default_factory=list)  # of the current step; the step runner empties it
    spans: dict[int, tuple[int, int | None]] = field(default_factory=dict)  # node -> when the current step stopped it
    victims: dict[str, tuple[int, ...]] = field(default_factory=dict)  # step -> nodes
    busy: set[Place] = field(default_factory=set)  # partitions that had acks when the first active fault began
    faults_open: int = 0  # faults that are active
    budget: WaitBudget = field(default_factory=WaitBudget)  # of the run
    cut_short: bool = False  # the current step waits for less time than it asks for
    started_ns: dict[str, int] = field(default_factory=dict)  # step -> when it began
    # Node -> seconds by which its log is ahead while its clock is right: the offset of its time zone.
    zones: dict[int, float] = field(default_factory=dict)
    # Broker -> the log directories that its replicas are moving to.
    moving: dict[int, dict[Place, str]] = field(default_factory=dict)
    leaders_seen: Callable[[], Sequence[LeaderSeen]] = tuple  # changes of leaders, where the disks do not show them
    epochs_before: dict[str, dict[Place, int]] = field(default_factory=dict)  # step -> leader epochs when it began

    def log(self, text: str) -> None:
        """Prints one line of progress."""
        self.say(text)

    def record_event(self, event: Event) -> None:
        """Adds an event to the evidence of the current step."""
        self.events.append(event)

    @contextmanager
    def stopping(self, node: int) -> Iterator[None]:
        """Inside it the current step stops and starts a node. For steps that do so with several nodes in turn."""
        began_ns = now_ns()
        self.spans[node] = (began_ns, None)
        try:
            yield
        finally:
            self.spans[node] = (began_ns, now_ns())

    def elections(self) -> list[Election]:
        """The elections since the scenario's first fault began, from the metadata logs of the nodes ("disk.read")."""
        faults = [step.name for step in self.steps if step.is_fault]
        if not faults:
            return []
        before = self.epochs_before[faults[0]]
        found = history_of_cluster(self.cluster).elections()
        return [one for one in found if one.after.leader_epoch > before.get((one.after.topic, one.after.partition), -1)]

    def moves(self) -> dict[Place, tuple[int, int]]:
        """The last change of leader of each partition since the first fault: the old leader, and the new one."""
        if "disk.read" in self.cluster.capabilities:
            found = [(one.before.leader, one.after) for one in self.elections() if one.before is not None]
            return {(after.topic, after.partition): (old, after.leader) for old, after in found}
        began_ns = min((self.started_ns[step.name] for step in self.steps if step.is_fault), default=now_ns())
        seen = [one for one in self.leaders_seen() if one.at_ns >= began_ns and one.old_leader is not None]
        return {(one.topic, one.partition): (one.old_leader or 0, one.new_leader) for one in seen}

    def nodes(self, text: str) -> tuple[int, ...]:
        """The ids of the nodes that an expression names now."""
        return resolve(parse_nodes(text), self)

    def places(self, texts: Sequence[str]) -> list[Place]:
        """The partitions of "topic/0" and "topic/*"; all partitions of the scenario's topics for an empty list."""
        by_name = {t.name: t for t in (*self.topics, *self.internal)}
        if not texts:
            return [(t.name, p) for t in self.topics for p in range(t.partitions)]
        return [place for text in texts for place in partition_of(text, by_name, "steps")]

    def states(self, places: Sequence[Place]) -> dict[Place, PartitionState]:
        """The state of partitions by the highest leader epoch; a partition without an answer is absent."""
        wanted = set(places)
        seen = self.admin.partitions(sorted({topic for topic, _ in wanted}))
        return {(s.topic, s.partition): s for s in seen if (s.topic, s.partition) in wanted}

    def all_states(self) -> dict[Place, PartitionState]:
        """`states` of all partitions of the scenario's topics."""
        return self.states(self.places(()))

    def watched(self) -> dict[Place, PartitionState]:
        """`all_states`, and those of the internal topics that exist."""
        return self.states([*self.places(()), *self._internal_places()])

    def internal_states(self) -> dict[Place, PartitionState]:
        """`states` of all partitions of the internal topics that exist."""
        return self.states(self._internal_places())

    def _internal_places(self) -> list[Place]:
        return [(topic.name, p) for topic in self.internal for p in range(topic.partitions)]

    # --- targets.Facts ---

    def brokers(self) -> tuple[int, ...]:
        return self.cluster.brokers

    def controllers(self) -> tuple[int, ...]:
        return self.cluster.controllers

    def partition(self, place: Place) -> PartitionState:
        """Waits for a leader: an expression that is resolved during a failover names the next leader."""
        found = wait_for(
            lambda: self.states([place]).get(place),
            until=lambda state: state is not None and state.leader >= 0,
            deadline_s=LEADER_DEADLINE_S,
            what=f"a leader of {place[0]}/{place[1]}",
        )
        assert found is not None
        return found

    def adding(self, place: Place) -> tuple[int, ...]:
        """The replicas that a reassignment is adding to a partition."""
        move = self.admin.reassignments().get(place)
        return tuple(move.adding) if move else ()

    def active_controller(self) -> int:
        return self.admin.active_controller()

    def group_coordinator(self, group: str) -> int:
        return self.admin.coordinator("group", self.group_id(group))

    def txn_coordinator(self, producer: str) -> int:
        return self.admin.coordinator("transaction", self.transactional_id(producer))

    def share_coordinator(self, group: str, place: Place) -> int:
        key = f"{self.group_id(group)}:{self.partition(place).topic_id}:{place[1]}"
        return self.admin.coordinator("share", key)

    def tier_metadata(self, place: Place) -> int:
        """The leader of the partition of __remote_log_metadata that holds the metadata of a partition's segments."""
        partitions = {topic.name: topic.partitions for topic in self.internal}.get(TIER_METADATA, TIER_PARTITIONS[1])
        holds = metadata_partition(self.partition(place).topic_id, place[1], partitions)
        return self.partition((TIER_METADATA, holds)).leader

    def nodes_of(self, step: str) -> tuple[int, ...]:
        if step not in self.victims:
            raise BadInput(f"same({step}): that step chose no nodes, or it comes later; name an earlier fault")
        return self.victims[step]
