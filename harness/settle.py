"""After healing: does the cluster come back, are the transactions over? Each wait is bounded and says what it saw."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.clusters.base import Cluster
from harness.kafka.admin import AdminView
from harness.model.clock import now_ns
from harness.model.errors import HarnessTimeout
from harness.model.waiting import wait_for

# Generous on purpose: a starved two-core machine needs a minute for what takes five seconds, and a run that
# gives up too early accuses a release of not having recovered.
RECOVERY_DEADLINE_S = 90.0
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")


class Acks(Protocol):
    """What settling needs of a load."""

    def produced_acks(self, topic: str, partition: int, since_ns: int) -> int:
        """Acked records of a partition since an epoch nanosecond."""
        ...


@dataclass(frozen=True, slots=True)
class Settled:
    """`ok` False is evidence, not an error: the judge decides what it means."""

    ok: bool
    waited_s: float
    last_seen: str

    def as_dict(self) -> dict[str, object]:
        return {"ok": self.ok, "waited_s": round(self.waited_s, 3), "last_seen": self.last_seen}


def recovered(
    cluster: Cluster, admin: AdminView, topics: Sequence[str], load: Acks, flowing: Sequence[tuple[str, int]]
) -> Settled:
    """Every node up, every ISR full, and acks on each partition of `flowing`, by one deadline."""
    healed_ns = now_ns()

    def pending() -> str:
        return _nodes_down(cluster) or _isr_not_full(admin, topics) or _no_acks(load, flowing, healed_ns)

    return _settled(pending, what="the cluster to recover after healing")


def isr_full(cluster: Cluster, admin: AdminView, topics: Sequence[str]) -> Settled:
    """Every node up and every ISR full."""
    return _settled(lambda: _nodes_down(cluster) or _isr_not_full(admin, topics), what="every ISR to be full")


def transactions_over(admin: AdminView, topics: Sequence[str], deadline_s: float) -> Settled:
    """The last stable offset has reached the high watermark on every partition, each told by its leader."""

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

    return _settled(pending, what="transactions to be over", deadline_s=deadline_s)


def _settled(pending: Callable[[], str], *, what: str, deadline_s: float = RECOVERY_DEADLINE_S) -> Settled:
    started = time.monotonic()
    try:
        wait_for(pending, until=lambda reason: not reason, deadline_s=deadline_s, what=what, interval_s=0.25)
    except HarnessTimeout as late:
        return Settled(False, time.monotonic() - started, str(late))
    return Settled(True, time.monotonic() - started, "")


def _nodes_down(cluster: Cluster) -> str:
    down = [node for node in (*cluster.controllers, *cluster.brokers) if not cluster.running(node)]
    return f"not running: {down}" if down else ""


def _isr_not_full(admin: AdminView, topics: Sequence[str]) -> str:
    states = admin.partitions((*topics, *INTERNAL_TOPICS))
    missing = set(topics) - {state.topic for state in states}
    short = [
        f"{state.topic}-{state.partition} leader {state.leader} isr {sorted(state.isr)}"
        for state in states
        if state.leader < 0 or set(state.isr) != set(state.replicas)
    ]
    return f"no answer about {sorted(missing)}" if missing else ", ".join(short[:5])


def _no_acks(load: Acks, flowing: Sequence[tuple[str, int]], since_ns: int) -> str:
    silent = [f"{topic}-{part}" for topic, part in flowing if not load.produced_acks(topic, part, since_ns)]
    return f"no acks since healing on {', '.join(silent[:5])}" if silent else ""
