"""Waits of a scenario: each is named after what it waits for, bounded, and says what it saw last."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.network.unacknowledged import Watched
from harness.faults.steps.effect import named
from harness.faults.steps.step import (
    Action,
    BrokersExpr,
    Done,
    FaultRef,
    GroupRef,
    NodesExpr,
    PartitionsExpr,
    PartitionView,
    Place,
    StepRef,
)
from harness.faults.steps.step_context import Stage
from harness.kafka.settings.tier_settings import METADATA_TOPIC
from harness.model.clock import now_ns
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import Count, Deadline, Seconds
from harness.model.waiting import wait_for

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", METADATA_TOPIC)
POLL_S = 0.1
COMMIT_LOOK_S = 0.005


@dataclass(frozen=True, kw_only=True)
class WaitOnPartitions(Action):
    """Base of waits whose condition is one of partitions."""

    internal: ClassVar[bool] = True
    on: PartitionsExpr = ()
    deadline_s: Deadline = 60.0

    def until(self, stage: Stage, what: str, pending: Callable[[PartitionView], str | None]) -> Done:
        """Waits until `pending` has nothing more to say about any of the partitions."""
        places = stage.places(self.on)

        def probe() -> dict[str, str]:
            states = stage.states(places)
            reasons = {p: pending(states[p]) if p in states else "nobody answers" for p in places}
            return {f"{t}/{p}": reason for (t, p), reason in reasons.items() if reason}

        started = time.monotonic()
        wait_for(probe, until=lambda left: not left, deadline_s=self.deadline_s, what=what, interval_s=POLL_S)
        return Done(resolved={"partitions": _texts(places), "waited_s": round(time.monotonic() - started, 3)})


@dataclass(frozen=True, kw_only=True)
class WaitLeaderChanged(WaitOnPartitions):
    """Waits until each partition has a leader of a newer epoch than when the step `since` began.

    A partition that is led by none of the nodes which that step chose has nothing to change.
    """

    do: ClassVar[str] = "wait_leader_changed"
    since: StepRef

    def perform(self, stage: Stage) -> Done:
        before = stage.epochs_before[self.since]
        victims = stage.victims.get(self.since, ())

        def pending(state: PartitionView) -> str | None:
            old = before.get((state.topic, state.partition), -1)
            spared = bool(victims) and state.leader not in victims
            done = state.leader >= 0 and (state.leader_epoch > old or spared)
            return None if done else f"leader {state.leader} of epoch {state.leader_epoch}, was {old}"

        return self.until(stage, f"a new leader since {self.since}", pending)


@dataclass(frozen=True, kw_only=True)
class WaitLeaderIs(WaitOnPartitions):
    """Waits until each partition is led by one of the nodes."""

    do: ClassVar[str] = "wait_leader_is"
    node: BrokersExpr

    def perform(self, stage: Stage) -> Done:
        nodes = stage.nodes(self.node)
        return self.until(
            stage, f"{self.node} to lead", lambda s: None if s.leader in nodes else f"leader {s.leader}, not {nodes}"
        )


@dataclass(frozen=True, kw_only=True)
class WaitFailover(Action):
    """Waits until an expression of nodes, such as a coordinator, names none of the nodes of an earlier step."""

    do: ClassVar[str] = "wait_failover"
    node: NodesExpr
    since: FaultRef
    deadline_s: Deadline = 30.0

    def perform(self, stage: Stage) -> Done:
        old = set(stage.nodes_of(self.since))

        def probe() -> tuple[int, ...]:
            try:
                return stage.nodes(self.node)
            except (BadInput, HarnessTimeout):
                return ()  # nobody holds the role at the moment

        now = wait_for(
            probe,
            until=lambda nodes: bool(nodes) and not old & set(nodes),
            deadline_s=self.deadline_s,
            what=f"{self.node} to be elsewhere than on {sorted(old)}",
            interval_s=POLL_S,
        )
        return Done(resolved={"nodes": list(now), "was": sorted(old)})


@dataclass(frozen=True, kw_only=True)
class WaitNoLeader(WaitOnPartitions):
    """Waits until no partition has a leader."""

    do: ClassVar[str] = "wait_no_leader"

    def perform(self, stage: Stage) -> Done:
        return self.until(stage, "no leader", lambda s: f"leader {s.leader}" if s.leader >= 0 else None)


@dataclass(frozen=True, kw_only=True)
class WaitDeposed(WaitOnPartitions):
    """Waits until no partition is led by a node of an earlier step: by another one, or by nobody."""

    do: ClassVar[str] = "wait_deposed"
    since: FaultRef

    def perform(self, stage: Stage) -> Done:
        old = stage.nodes_of(self.since)
        return self.until(
            stage, f"{list(old)} to lead no more", lambda s: f"leader {s.leader}" if s.leader in old else None
        )


@dataclass(frozen=True, kw_only=True)
class WaitIsrFull(WaitOnPartitions):
    """Waits until every replica is in sync."""

    do: ClassVar[str] = "wait_isr_full"

    def perform(self, stage: Stage) -> Done:
        return self.until(stage, "a full ISR", isr_not_full)


@dataclass(frozen=True, kw_only=True)
class WaitOutOfSync(WaitOnPartitions):
    """Waits until none of the nodes is in sync any more. On an idle partition they stay: it needs records in flight."""

    do: ClassVar[str] = "wait_out_of_sync"
    node: BrokersExpr

    def perform(self, stage: Stage) -> Done:
        nodes = set(stage.nodes(self.node))
        return self.until(
            stage, f"{sorted(nodes)} out of sync", lambda s: f"ISR {sorted(s.isr)}" if nodes & set(s.isr) else None
        )


@dataclass(frozen=True, kw_only=True)
class WaitIsrAlone(WaitOnPartitions):
    """Waits until the leader alone is in sync. An idle partition never gets there: it needs records in flight."""

    do: ClassVar[str] = "wait_isr_alone"

    def perform(self, stage: Stage) -> Done:
        def pending(state: PartitionView) -> str | None:
            return None if set(state.isr) == {state.leader} else f"leader {state.leader}, ISR {sorted(state.isr)}"

        return self.until(stage, "an ISR of the leader alone", pending)


@dataclass(frozen=True, kw_only=True)
class WaitHealthy(Action):
    """Waits until every node runs and every ISR is full, internal topics included."""

    do: ClassVar[str] = "wait_healthy"
    deadline_s: Deadline = 90.0

    def perform(self, stage: Stage) -> Done:
        topics = [t.name for t in stage.topics]

        def probe() -> list[str]:
            nodes = (*stage.cluster.controllers, *stage.cluster.brokers)
            down = [f"node {node} is down" for node in nodes if not stage.cluster.running(node)]
            states = stage.admin.partitions([*topics, *INTERNAL_TOPICS])
            missing = set(topics) - {s.topic for s in states}
            reasons = [f"{s.topic}/{s.partition}: {reason}" for s in states if (reason := isr_not_full(s))]
            return [*down, *(f"nobody answers about {t}" for t in sorted(missing)), *reasons][:8]

        started = time.monotonic()
        wait_for(
            probe,
            until=lambda left: not left,
            deadline_s=self.deadline_s,
            what="every node up and every ISR full",
            interval_s=POLL_S,
        )
        return Done(resolved={"waited_s": round(time.monotonic() - started, 3)})


@dataclass(frozen=True, kw_only=True)
class WaitAcks(Action):
    """Waits until so many records of each partition that were produced since this step began are acked.

    Where one gives none at all till the end, though its leader and its ISR stand as they are and another with the same
    gives its own, that is the release's doing: an event tells of it, the run goes on, and the verdict says what it is.
    """

    do: ClassVar[str] = "wait_acks"
    on: PartitionsExpr = ()
    records: Count = 1
    deadline_s: Deadline = 60.0

    def perform(self, stage: Stage) -> Done:
        since_ns, places = now_ns(), stage.places(self.on)
        watched = Watched(stage, places)

        def probe() -> dict[str, int]:
            watched.look()
            return {f"{t}/{p}": count for (t, p), count in counts().items() if count < self.records}

        def counts() -> dict[Place, int]:
            return {place: stage.load.produced_acks(*place, since_ns) for place in places}

        try:
            wait_for(
                probe,
                until=lambda short: not short,
                deadline_s=self.deadline_s,
                what=f"{self.records} acks on each of {named(places)}",
            )
        except HarnessTimeout:
            if not watched.tell_silent(counts(), self.records, since_ns):
                raise
        return Done(resolved={"partitions": _texts(places), "waited_s": round((now_ns() - since_ns) / 1e9, 3)})


@dataclass(frozen=True, kw_only=True)
class WaitProducerExpired(Action):
    """Waits until no leader remembers any producer of its partition (producer.id.expiration.ms, KIP-854)."""

    do: ClassVar[str] = "wait_producer_expired"
    on: PartitionsExpr
    deadline_s: Deadline = 60.0

    def perform(self, stage: Stage) -> Done:
        places, started = stage.places(self.on), time.monotonic()

        def probe() -> dict[str, str]:
            known = stage.admin.remembered(sorted({topic for topic, _ in places}))
            reported = {place: f"{known[place]} known" if place in known else "nobody answers" for place in places}
            return {f"{t}/{p}": reported[t, p] for t, p in places if known.get((t, p)) != 0}

        before = probe()
        wait_for(
            probe,
            until=lambda left: not left,
            deadline_s=self.deadline_s,
            what=f"producers of {named(places)} to be forgotten",
            interval_s=POLL_S,
        )
        return Done(resolved={"known": before, "waited_s": round(time.monotonic() - started, 3)})


@dataclass(frozen=True, kw_only=True)
class WaitCommits(Action):
    """Waits until the coordinator of a group has acknowledged so many commits since this step began.

    Ends within milliseconds of the last one, so that a fault right after it meets followers that have the commit and
    have not heard that it is committed.
    """

    do: ClassVar[str] = "wait_commits"
    group: GroupRef
    commits: Count = 1
    deadline_s: Deadline = 30.0

    def perform(self, stage: Stage) -> Done:
        before = stage.load.commits(self.group)
        wait_for(
            lambda: stage.load.commits(self.group) - before,
            until=lambda commits: commits >= self.commits,
            deadline_s=self.deadline_s,
            what=f"{self.commits} commits of group {self.group}",
            interval_s=COMMIT_LOOK_S,
        )
        return Done()


@dataclass(frozen=True, kw_only=True)
class WaitRead(Action):
    """Waits until a group was given every record of `on` that is acknowledged at that moment, and with `committed` has
    committed it."""

    do: ClassVar[str] = "wait_read"
    group: GroupRef
    on: PartitionsExpr = ()
    committed: bool = False
    deadline_s: Deadline = 30.0

    def perform(self, stage: Stage) -> Done:
        places = set(_texts(stage.places(self.on))) if self.on else None
        acked = stage.load.highest_acked()

        def behind() -> dict[str, int]:
            missing = stage.load.behind(self.group, acked, committed=self.committed)
            return {place: count for place, count in missing.items() if places is None or place in places}

        wait_for(
            behind,
            until=lambda missing: not missing,
            deadline_s=self.deadline_s,
            what=f"group {self.group} to {'have committed' if self.committed else 'be given'} what was acknowledged",
        )
        return Done()


@dataclass(frozen=True, kw_only=True)
class Hold(Action):
    """Lets things be as they are for some seconds; for durations that are the point, never in place of a wait."""

    do: ClassVar[str] = "hold"
    seconds: Seconds

    def perform(self, stage: Stage) -> Done:  # noqa: ARG002 - the interface of actions
        time.sleep(self.seconds)
        return Done()


def isr_not_full(state: PartitionView) -> str | None:
    """Why a partition is not whole, or None."""
    if state.leader < 0:
        return f"no leader, ISR {sorted(state.isr)}"
    missing = set(state.replicas) - set(state.isr)
    return f"leader {state.leader}, {sorted(missing)} not in sync" if missing else None


def _texts(places: list[Place]) -> list[str]:
    return [f"{topic}/{partition}" for topic, partition in places]
