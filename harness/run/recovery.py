"""After healing: waits until the cluster has recovered and transactions have ended, and takes snapshots of it.

Each wait has a deadline, and reports what it last saw.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Protocol

from harness.clusters.base import Cluster
from harness.faults.steps.waits import INTERNAL_TOPICS
from harness.kafka.admin.client import AdminView, PartitionState
from harness.model.clock import now_ns
from harness.model.documents.cluster import Phase, Snapshot
from harness.model.documents.run import Recovered, Settled
from harness.model.pending import Pending
from harness.model.place import Place
from harness.model.scenario.scenario import Topic
from harness.model.wait_budget import WaitBudget
from harness.model.waiting import settled

# Generous on purpose: a busy machine with two cores takes a minute for what else takes 5 s, and a run that gives up too
# early would report a release as not recovered.
RECOVERY_DEADLINE_S = 90.0
SNAPSHOT_DEADLINE_S = 30.0
APPLIED_DEADLINE_S = 60.0
# When the budget for waits is spent.
ISR_LEAST_S = 5.0
SNAPSHOT_LEAST_S = 3.0
_INTERVAL_S = 0.1


class Acks(Protocol):
    """A load, as far as the wait for recovery needs it."""

    def produced_acks(self, topic: str, partition: int, since_ns: int) -> int:
        """Acked records of a partition that were produced since an epoch nanosecond."""
        ...


def recovered(
    cluster: Cluster, admin: AdminView, topics: Sequence[str], load: Acks, flowing: Sequence[tuple[str, int]]
) -> Recovered:
    """Waits until every node is up, every ISR has been full once since healing, and `flowing` partitions have acks.

    An ISR may shrink again for a moment: Kafka does not promise that all are full at one instant.
    """
    healed_ns = now_ns()
    been_full: set[Place] = set()
    missing: Pending | None = None

    def pending() -> str:
        nonlocal missing
        states = admin.partitions((*topics, *INTERNAL_TOPICS))
        been_full.update((state.topic, state.partition) for state in states if _full(state))
        missing = Pending.NODES_DOWN
        if down := _nodes_down(cluster):
            return down
        missing = Pending.ISR_NOT_FULL
        if short := _isr_not_full(states, topics, been_full):
            return short
        missing = Pending.NO_ACKS
        return _no_acks(load, flowing, healed_ns)

    waited = settled(pending, what="the cluster to recover after healing", deadline_s=RECOVERY_DEADLINE_S)
    return Recovered(
        ok=waited.ok, waited_s=waited.waited_s, last_seen=waited.last_seen, pending=None if waited.ok else missing
    )


def isr_full(
    cluster: Cluster,
    admin: AdminView,
    topics: Sequence[str],
    budget: WaitBudget | None = None,
    deadline_s: float = RECOVERY_DEADLINE_S,
) -> Settled:
    """Waits until every node is up and every ISR is full at one instant: each replica can be read then."""

    def pending() -> str:
        return _nodes_down(cluster) or _isr_not_full(admin.partitions((*topics, *INTERNAL_TOPICS)), topics)

    deadline_s = budget.left_s(deadline_s, ISR_LEAST_S) if budget else deadline_s
    return settled(pending, what="every ISR to be full", deadline_s=deadline_s)


def metadata_applied(admin: AdminView, deadline_s: float = APPLIED_DEADLINE_S) -> Settled:
    """Waits until every broker that answers has applied what one of them had applied of the metadata log before."""
    wanted = max(admin.metadata_offsets().values(), default=0)

    def pending() -> str:
        behind = {broker: offset for broker, offset in admin.metadata_offsets().items() if offset < wanted}
        return f"brokers with an offset below {wanted}: {behind}" if behind else ""

    return settled(pending, what="every broker to apply the metadata log", deadline_s=deadline_s)


def transactions_over(admin: AdminView, topics: Sequence[str], deadline_s: float) -> Settled:
    """Waits until the last stable offset is the high watermark on every partition, by the answers of the leaders."""

    def pending() -> str:
        marks = admin.watermarks(topics)
        places = [(state.topic, state.partition) for state in admin.partitions(topics)]
        missing = set(topics) - {topic for topic, _ in places}
        silent = [f"no offsets of {place[0]}-{place[1]}" for place in places if place not in marks]
        stuck = [
            f"{topic}-{partition} at {stable} of {high}"
            for (topic, partition), (high, stable) in marks.items()
            if stable < high
        ]
        return f"no answer about {sorted(missing)}" if missing else ", ".join([*silent, *stuck][:5])

    return settled(pending, what="transactions to be over", deadline_s=deadline_s)


def snapshot(
    admin: AdminView, phase: Phase, topics: Sequence[str], groups: Sequence[str], budget: WaitBudget | None = None
) -> Snapshot:
    """A complete snapshot, or the last one before the deadline as it is.

    A single snapshot may be incomplete because a leader moved between two requests, an ISR shrank for a moment or a
    broker was slow. What is incomplete until the deadline is evidence, which the judge weighs.
    """
    deadline_s = budget.left_s(SNAPSHOT_DEADLINE_S, SNAPSHOT_LEAST_S) if budget else SNAPSHOT_DEADLINE_S
    give_up_at = time.monotonic() + deadline_s
    while not _complete(seen := admin.snapshot(phase, topics, groups), topics) and time.monotonic() < give_up_at:
        time.sleep(_INTERVAL_S)
    return seen


def not_reported(snapshot: Snapshot, topics: Sequence[Topic]) -> str:
    """Partitions of the topics that a snapshot lacks, as text; empty when it has them all."""
    reported = {(row.topic, row.partition) for row in snapshot.partitions}
    wanted = ((topic.name, partition) for topic in topics for partition in range(topic.partitions))
    return ", ".join(f"{topic}-{partition}" for topic, partition in wanted if (topic, partition) not in reported)


def _complete(snapshot: Snapshot, topics: Sequence[str]) -> bool:
    """Whether every replica reported its log end and every leader both watermarks, every ISR is full, and the high
    watermark is at the end of the log: a leader learns of the last fetch of its followers a moment later."""
    rows = snapshot.partitions
    return set(topics) <= {row.topic for row in rows} and all(
        {log.broker for log in row.logs} == set(row.replicas) == set(row.isr)
        and row.high_watermark is not None
        and row.last_stable_offset is not None
        and row.high_watermark == max((log.log_end for log in row.logs), default=0)
        for row in rows
    )


def _nodes_down(cluster: Cluster) -> str:
    down = [node for node in (*cluster.controllers, *cluster.brokers) if not cluster.running(node)]
    return f"not running: {down}" if down else ""


def _full(state: PartitionState) -> bool:
    return state.leader >= 0 and set(state.isr) == set(state.replicas)


def _isr_not_full(
    states: Sequence[PartitionState], topics: Sequence[str], been_full: Collection[Place] = frozenset()
) -> str:
    missing = set(topics) - {state.topic for state in states}
    short = [
        f"{state.topic}-{state.partition} leader {state.leader} isr {sorted(state.isr)}"
        for state in states
        if not _full(state) and (state.topic, state.partition) not in been_full
    ]
    return f"no answer about {sorted(missing)}" if missing else ", ".join(short[:5])


def _no_acks(load: Acks, flowing: Sequence[tuple[str, int]], since_ns: int) -> str:
    silent = [f"{topic}-{part}" for topic, part in flowing if not load.produced_acks(topic, part, since_ns)]
    return f"no acks since healing on {', '.join(silent[:5])}" if silent else ""
