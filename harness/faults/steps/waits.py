"""Waits of a scenario: each is named after its condition, has a deadline, and reports what it saw last."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.network.unacknowledged import StateWatch
from harness.faults.steps.declared_facts import NOTHING, Declares
from harness.faults.steps.effect import named
from harness.faults.steps.step import Action, BrokersExpr, Done, FaultRef, GroupRef, NodesExpr, PartitionsExpr, StepRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.admin.client import PartitionState
from harness.kafka.settings.tier_settings import METADATA_TOPIC
from harness.model.clock import now_ns
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.place import Place
from harness.model.scenario.scenario import Count, Deadline, Seconds
from harness.model.waiting import wait_for

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", METADATA_TOPIC)
NO_ANSWER = "no broker answers"
POLL_S = 0.1
COMMIT_LOOK_S = 0.005


@dataclass(frozen=True, kw_only=True)
class WaitOnPartitions(Action):
    """Base of waits for a condition of partitions."""

    internal: ClassVar[bool] = True
    on: PartitionsExpr = ()
    deadline_s: Deadline = 60.0

    def until(self, context: StepContext, what: str, pending: Callable[[PartitionState], str | None]) -> Done:
        """Waits until `pending` returns None for each partition; else it returns what is missing."""
        places = context.places(self.on)

        def probe() -> dict[str, str]:
            states = context.states(places)
            reasons = {p: pending(states[p]) if p in states else NO_ANSWER for p in places}
            return {f"{t}/{p}": reason for (t, p), reason in reasons.items() if reason}

        started = time.monotonic()
        wait_for(probe, until=lambda left: not left, deadline_s=self.deadline_s, what=what, interval_s=POLL_S)
        return Done(resolved={"partitions": _texts(places), "waited_s": round(time.monotonic() - started, 3)})


@dataclass(frozen=True, kw_only=True)
class WaitLeaderChanged(WaitOnPartitions):
    """A failover, after a step that chose nodes.

    A partition needs no new leader if its leader is none of those nodes.
    """

    do: ClassVar[str] = "wait_leader_changed"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = (
        "Waits until each partition has a leader of a newer epoch than when the step `since` began."
    )
    since: StepRef

    def validate(self, plan: StepValidation) -> None:
        nodes = plan.nodes_of(self.since)
        if nodes is None or not nodes.startswith(("controller", "follower")):
            return
        of_others = {f"{nodes.partition('(')[0]}({place})" for place in self.on}
        if nodes.startswith("controller") or of_others == {nodes}:
            raise BadInput(
                f"since: {self.since!r} concerns {nodes}, which leads none of the partitions, so there is nothing to "
                "wait for; name a step that breaks their leaders, or wait_deposed with the step that cuts a leader off"
            )

    def perform(self, context: StepContext) -> Done:
        before = context.epochs_before[self.since]
        victims = context.victims.get(self.since, ())

        def pending(state: PartitionState) -> str | None:
            old = before.get((state.topic, state.partition), -1)
            spared = bool(victims) and state.leader not in victims
            done = state.leader >= 0 and (state.leader_epoch > old or spared)
            return None if done else f"leader {state.leader} of epoch {state.leader_epoch}, was {old}"

        return self.until(context, f"a new leader since {self.since}", pending)


@dataclass(frozen=True, kw_only=True)
class WaitLeaderIs(WaitOnPartitions):
    """Leaders on chosen brokers."""

    do: ClassVar[str] = "wait_leader_is"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Waits until one of the brokers `node` leads each partition."
    node: BrokersExpr

    def perform(self, context: StepContext) -> Done:
        nodes = context.nodes(self.node)
        return self.until(
            context, f"{self.node} to lead", lambda s: None if s.leader in nodes else f"leader {s.leader}, not {nodes}"
        )


@dataclass(frozen=True, kw_only=True)
class WaitFailover(Action):
    """A role, such as that of a coordinator, that has moved."""

    do: ClassVar[str] = "wait_failover"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = (
        "Waits until an expression, such as a coordinator's, names none of the nodes of the step `since`."
    )
    node: NodesExpr
    since: FaultRef
    deadline_s: Deadline = 30.0

    def perform(self, context: StepContext) -> Done:
        old = set(context.nodes_of(self.since))

        def probe() -> tuple[int, ...]:
            try:
                return context.nodes(self.node)
            except (BadInput, HarnessTimeout):
                return ()  # no node has the role now

        now = wait_for(
            probe,
            until=lambda nodes: bool(nodes) and not old & set(nodes),
            deadline_s=self.deadline_s,
            what=f"{self.node} to be another node than {sorted(old)}",
            interval_s=POLL_S,
        )
        return Done(resolved={"nodes": list(now), "was": sorted(old)})


@dataclass(frozen=True, kw_only=True)
class WaitNoLeader(WaitOnPartitions):
    """Partitions that are offline."""

    do: ClassVar[str] = "wait_no_leader"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Waits until none of the partitions has a leader."

    def perform(self, context: StepContext) -> Done:
        return self.until(context, "no leader", lambda s: f"leader {s.leader}" if s.leader >= 0 else None)


@dataclass(frozen=True, kw_only=True)
class WaitDeposed(WaitOnPartitions):
    """Leaders that have lost the leadership, whether or not there is a new one."""

    do: ClassVar[str] = "wait_deposed"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Waits until no node of the step `since` leads any of the partitions."
    since: FaultRef

    def perform(self, context: StepContext) -> Done:
        old = context.nodes_of(self.since)
        return self.until(
            context, f"{list(old)} to lose the leadership", lambda s: f"leader {s.leader}" if s.leader in old else None
        )


@dataclass(frozen=True, kw_only=True)
class WaitIsrFull(WaitOnPartitions):
    """Partitions with all replicas in sync."""

    do: ClassVar[str] = "wait_isr_full"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Waits until every replica is in sync."

    def perform(self, context: StepContext) -> Done:
        return self.until(context, "a full ISR", isr_not_full)


@dataclass(frozen=True, kw_only=True)
class WaitOutOfSync(WaitOnPartitions):
    """Brokers that have left the ISR. A follower leaves the ISR only of a partition that gets records."""

    do: ClassVar[str] = "wait_out_of_sync"
    facts: ClassVar[Declares] = NOTHING
    relies_on: ClassVar[frozenset[str]] = frozenset({"replica.lag.time.max.ms"})
    summary: ClassVar[str] = "Waits until none of the brokers `node` is in the ISR; this needs records in flight."
    node: BrokersExpr

    def perform(self, context: StepContext) -> Done:
        nodes = set(context.nodes(self.node))
        return self.until(
            context, f"{sorted(nodes)} out of sync", lambda s: f"ISR {sorted(s.isr)}" if nodes & set(s.isr) else None
        )


@dataclass(frozen=True, kw_only=True)
class WaitIsrAlone(WaitOnPartitions):
    """An ISR of one. A follower leaves the ISR only of a partition that gets records."""

    do: ClassVar[str] = "wait_isr_alone"
    facts: ClassVar[Declares] = NOTHING
    relies_on: ClassVar[frozenset[str]] = frozenset({"replica.lag.time.max.ms"})
    summary: ClassVar[str] = "Waits until only the leader is in sync; this needs records in flight."

    def perform(self, context: StepContext) -> Done:
        def pending(state: PartitionState) -> str | None:
            return None if set(state.isr) == {state.leader} else f"leader {state.leader}, ISR {sorted(state.isr)}"

        return self.until(context, "an ISR of only the leader", pending)


@dataclass(frozen=True, kw_only=True)
class WaitHealthy(Action):
    """A cluster that has recovered."""

    do: ClassVar[str] = "wait_healthy"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Waits until every node runs and every ISR is full, also of internal topics."
    deadline_s: Deadline = 90.0

    def perform(self, context: StepContext) -> Done:
        topics = [t.name for t in context.topics]

        def probe() -> list[str]:
            nodes = (*context.cluster.controllers, *context.cluster.brokers)
            down = [f"node {node} is down" for node in nodes if not context.cluster.running(node)]
            states = context.admin.partitions([*topics, *INTERNAL_TOPICS])
            missing = set(topics) - {s.topic for s in states}
            reasons = [f"{s.topic}/{s.partition}: {reason}" for s in states if (reason := isr_not_full(s))]
            return [*down, *(f"{t}: {NO_ANSWER}" for t in sorted(missing)), *reasons][:8]

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
    """Acks of new records on each partition.

    When a partition gets no ack until the deadline although its leader and its ISR do not change, the release is to
    blame: an event `no_acks` records it, the run continues, and the verdict judges it.
    """

    do: ClassVar[str] = "wait_acks"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = (
        "Waits until `records` records of each partition, produced after this step began, are acknowledged."
    )
    on: PartitionsExpr = ()
    records: Count = 1
    deadline_s: Deadline = 60.0

    def validate(self, plan: StepValidation) -> None:
        fed = {topic for p in plan.scenario.producers if p.when != "steps" for topic in p.topics}
        if idle := [topic.name for topic in plan.topics_of(self.on) if topic.name not in fed]:
            raise BadInput(
                f"on: no producer writes to {idle[0]} while this step waits, so that it could only time out; name "
                "partitions of other topics"
            )

    def perform(self, context: StepContext) -> Done:
        since_ns, places = now_ns(), context.places(self.on)
        watched = StateWatch(context, places)

        def probe() -> dict[str, str]:
            watched.look()
            short = {place: count for place, count in counts().items() if count < self.records}
            return {f"{t}/{p}": f"{count} acks, {watched.seen[t, p]}" for (t, p), count in short.items()}

        def counts() -> dict[Place, int]:
            return {place: context.load.produced_acks(*place, since_ns) for place in places}

        try:
            wait_for(
                probe,
                until=lambda short: not short,
                deadline_s=self.deadline_s,
                what=f"{self.records} acks on each of {named(places)}",
            )
        except HarnessTimeout:
            # A wait with less time than usual proves nothing.
            if context.cut_short or not watched.record_silent(counts(), self.records, since_ns):
                raise
        return Done(resolved={"partitions": _texts(places), "waited_s": round((now_ns() - since_ns) / 1e9, 3)})


@dataclass(frozen=True, kw_only=True)
class WaitProducerExpired(Action):
    """Producer state that has expired (producer.id.expiration.ms, KIP-854)."""

    do: ClassVar[str] = "wait_producer_expired"
    facts: ClassVar[Declares] = NOTHING
    relies_on: ClassVar[frozenset[str]] = frozenset({"producer.id.expiration.check.interval.ms"})
    summary: ClassVar[str] = "Waits until the state of every producer of the partitions has expired (KIP-854)."
    on: PartitionsExpr
    deadline_s: Deadline = 60.0

    def perform(self, context: StepContext) -> Done:
        places, started = context.places(self.on), time.monotonic()

        def probe() -> dict[str, str]:
            known = context.admin.remembered(sorted({topic for topic, _ in places}))
            reported = {place: f"{known[place]} known" if place in known else NO_ANSWER for place in places}
            return {f"{t}/{p}": reported[t, p] for t, p in places if known.get((t, p)) != 0}

        before = probe()
        wait_for(
            probe,
            until=lambda left: not left,
            deadline_s=self.deadline_s,
            what=f"the state of producers of {named(places)} to expire",
            interval_s=POLL_S,
        )
        return Done(resolved={"known": before, "waited_s": round(time.monotonic() - started, 3)})


@dataclass(frozen=True, kw_only=True)
class WaitCommits(Action):
    """New offset commits.

    It ends within milliseconds of the last commit. A fault right after it then finds followers that have the record of
    the commit, while their high watermark is still below it.
    """

    do: ClassVar[str] = "wait_commits"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Waits until the coordinator of a group has acknowledged `commits` more offset commits."
    group: GroupRef
    commits: Count = 1
    deadline_s: Deadline = 30.0

    def perform(self, context: StepContext) -> Done:
        before = context.load.commits(self.group)
        wait_for(
            lambda: context.load.commits(self.group) - before,
            until=lambda commits: commits >= self.commits,
            deadline_s=self.deadline_s,
            what=f"{self.commits} commits of group {self.group}",
            interval_s=COMMIT_LOOK_S,
        )
        return Done()


@dataclass(frozen=True, kw_only=True)
class WaitRead(Action):
    """A group that has caught up with the records acknowledged when the step began."""

    do: ClassVar[str] = "wait_read"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = (
        "Waits until a group has received, or with `committed` committed, every record acknowledged so far."
    )
    group: GroupRef
    on: PartitionsExpr = ()
    committed: bool = False
    deadline_s: Deadline = 30.0

    def perform(self, context: StepContext) -> Done:
        places = set(_texts(context.places(self.on))) if self.on else None
        acked = context.load.highest_acked()

        def behind() -> dict[str, int]:
            missing = context.load.behind(self.group, acked, committed=self.committed)
            return {place: count for place, count in missing.items() if places is None or place in places}

        wait_for(
            behind,
            until=lambda missing: not missing,
            deadline_s=self.deadline_s,
            what=f"group {self.group} to {'commit' if self.committed else 'receive'} all acknowledged records",
        )
        return Done()


@dataclass(frozen=True, kw_only=True)
class Hold(Action):
    """A duration that matters in itself. For a condition there are waits."""

    do: ClassVar[str] = "hold"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Does nothing for `seconds` seconds, where the duration itself matters."
    seconds: Seconds

    def perform(self, context: StepContext) -> Done:  # noqa: ARG002 - the interface of actions
        time.sleep(self.seconds)
        return Done()


def isr_not_full(state: PartitionState) -> str | None:
    """Why the ISR of a partition is not full; None = it is."""
    if state.leader < 0:
        return f"no leader, ISR {sorted(state.isr)}"
    missing = set(state.replicas) - set(state.isr)
    return f"leader {state.leader}, {sorted(missing)} not in sync" if missing else None


def _texts(places: list[Place]) -> list[str]:
    return [f"{topic}/{partition}" for topic, partition in places]
