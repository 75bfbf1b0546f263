"""What steps see of a running scenario: the cluster, the admin's view past the faults, the load, and the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from harness.faults.steps.step import AdminView, ClusterView, LoadView, PartitionView, Place
from harness.faults.steps.targets import parse_nodes, resolve
from harness.model.clock import now_ns
from harness.model.contract.internal_topics import TIER_METADATA, TIER_PARTITIONS, metadata_partition
from harness.model.errors import BadInput
from harness.model.scenario.rules import partition_of
from harness.model.scenario.scenario import Topic
from harness.model.waiting import wait_for

LEADER_DEADLINE_S = 30.0


@dataclass(kw_only=True)
class Stage:
    """One per run. Also answers the questions of target expressions (targets.Facts)."""

    cluster: ClusterView
    admin: AdminView
    load: LoadView
    rng: Random
    topics: tuple[Topic, ...]
    say: Callable[[str], None]
    internal: tuple[Topic, ...] = ()  # Kafka's own, which no producer writes to
    group_id: Callable[[str], str] = str  # a group of the scenario as the cluster knows it
    transactional_id: Callable[[str], str] = str  # a producer of the scenario as the cluster knows it
    rows: Sequence[Mapping[str, Any]] = ()  # of steps.json, up to the current step; the conductor keeps them
    events: list[dict[str, Any]] = field(default_factory=list)  # of the current step; the conductor empties it
    victims: dict[str, tuple[int, ...]] = field(default_factory=dict)  # step -> nodes
    busy: set[Place] = field(default_factory=set)  # had acks when the first of the open faults began
    faults_open: int = 0
    started_ns: dict[str, int] = field(default_factory=dict)  # step -> when it began
    zones: dict[int, float] = field(
        default_factory=dict
    )  # node -> seconds that its log is ahead while its clock is right
    epochs_before: dict[str, dict[Place, int]] = field(default_factory=dict)  # step -> leader epochs when it began

    def log(self, text: str) -> None:
        """One line of progress for a person."""
        self.say(text)

    def record_event(self, kind: str, **facts: Any) -> None:
        """Evidence that belongs to the current step; `at_ns` defaults to now."""
        self.events.append({"kind": kind, "at_ns": now_ns(), **facts})

    def leader_changes(self) -> list[Mapping[str, Any]]:
        """The events `leader_change` since the first fault of the scenario began."""
        began_ns = [row["started_ns"] for row in self.rows if row["is_fault"]]
        events = [*(event for row in self.rows for event in row["events"]), *self.events]
        return [e for e in events if e["kind"] == "leader_change" and began_ns and e["at_ns"] >= min(began_ns)]

    def nodes(self, text: str) -> tuple[int, ...]:
        """The node ids an expression means now."""
        return resolve(parse_nodes(text), self)

    def places(self, texts: Sequence[str]) -> list[Place]:
        """Partitions of "topic/0" and "topic/*"; of every topic of the scenario when there are none."""
        by_name = {t.name: t for t in (*self.topics, *self.internal)}
        if not texts:
            return [(t.name, p) for t in self.topics for p in range(t.partitions)]
        return [place for text in texts for place in partition_of(text, by_name, "steps")]

    def states(self, places: Sequence[Place]) -> dict[Place, PartitionView]:
        """The newest known state of partitions; those nobody answered about are absent."""
        wanted = set(places)
        seen = self.admin.partitions(sorted({topic for topic, _ in wanted}))
        return {(s.topic, s.partition): s for s in seen if (s.topic, s.partition) in wanted}

    def all_states(self) -> dict[Place, PartitionView]:
        return self.states(self.places(()))

    def watched(self) -> dict[Place, PartitionView]:
        """The same with those of internal topics that are there."""
        return self.states([*self.places(()), *((t.name, p) for t in self.internal for p in range(t.partitions))])

    # --- targets.Facts ---

    def brokers(self) -> tuple[int, ...]:
        return self.cluster.brokers

    def controllers(self) -> tuple[int, ...]:
        return self.cluster.controllers

    def partition(self, place: Place) -> PartitionView:
        """With a leader: an expression that is resolved between two leaders means the next one."""
        found = wait_for(
            lambda: self.states([place]).get(place),
            until=lambda state: state is not None and state.leader >= 0,
            deadline_s=LEADER_DEADLINE_S,
            what=f"a leader of {place[0]}/{place[1]}",
        )
        assert found is not None
        return found

    def adding(self, place: Place) -> tuple[int, ...]:
        """Replicas that a reassignment is adding to a partition; none when there is no such."""
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
        """The leader of the partition of __remote_log_metadata that tells of a partition's segments."""
        partitions = {topic.name: topic.partitions for topic in self.internal}.get(TIER_METADATA, TIER_PARTITIONS[1])
        told_by = metadata_partition(self.partition(place).topic_id, place[1], partitions)
        return self.partition((TIER_METADATA, told_by)).leader

    def nodes_of(self, step: str) -> tuple[int, ...]:
        if step not in self.victims:
            raise BadInput(f"same({step}): that step chose no nodes, or comes later")
        return self.victims[step]
