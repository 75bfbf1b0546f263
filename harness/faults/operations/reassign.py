"""Partition reassignment under load: new replicas copy the whole log while it grows, old ones are dropped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.faults.operations.elect import DEADLINE_S, await_leaders
from harness.faults.operations.move_leaders import next_order
from harness.faults.steps.effect import named
from harness.faults.steps.step import Action, Done, EffectProof, Fault, Injection, PartitionsExpr, PartitionView, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import MOVE, StepValidation
from harness.faults.steps.waits import isr_not_full
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for


def shifted(replicas: list[int], by: int, brokers: tuple[int, ...]) -> list[int]:
    """Each replica moved `by` brokers onward, round the cluster."""
    return [brokers[(brokers.index(replica) + by) % len(brokers)] for replica in replicas]


def whole(state: PartitionView, wanted: list[int]) -> bool:
    """The partition is where it was to go, in full."""
    return list(state.replicas) == wanted and set(state.isr) == set(wanted) and state.leader in wanted


def added(state: PartitionView, wanted: list[int]) -> bool:
    """It has the replicas that it is to get, whatever they hold."""
    return set(wanted) <= set(state.replicas)


@dataclass(frozen=True, kw_only=True)
class Reassign(Action):
    """Moves every replica of partitions `shift` brokers onward, and waits until the new ones are all in sync.

    With `to` it makes these brokers the replicas, whose first one is preferred to lead, and where they are that already
    it disturbs nothing. With wait = false it is done when the move is under way, and `wait_reassigned` waits for the
    rest.
    """

    do: ClassVar[str] = "reassign"
    internal: ClassVar[bool] = True
    disturbs: ClassVar[bool] = True
    on: PartitionsExpr = ()
    shift: int = 1
    to: tuple[int, ...] = ()
    wait: bool = True
    deadline_s: Deadline = 60.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        brokers = plan.scenario.shape.brokers
        if self.to:
            if wrong := sorted(set(self.to) - set(range(1, brokers + 1))):
                raise BadInput(f"to: there is no broker {wrong[0]}; brokers are 1 to {brokers}")
            if len(set(self.to)) < len(self.to):
                raise BadInput(f"to: {list(self.to)} names a broker twice")
            return
        if self.shift % brokers == 0:
            raise BadInput(f"shift: {self.shift} goes round all {brokers} brokers, and nothing moves; give 1")
        if all(t.replicas == brokers for t in plan.topics_of(self.on)):
            raise BadInput(
                f"on: every broker has a replica already, and none can move; give a topic replicas = {brokers - 1}"
            )

    def perform(self, stage: Stage) -> Done:
        places = stage.places(self.on)
        before = {p: list(s.replicas) for p, s in stage.states(places).items()}
        onward = {p: shifted(replicas, self.shift, stage.cluster.brokers) for p, replicas in before.items()}
        wanted = {place: list(self.to) for place in before} if self.to else onward
        started = time.monotonic()
        stage.admin.reassign(wanted)
        stands = whole if self.wait else added

        def pending() -> dict[str, str]:
            return {
                f"{t}/{p}": f"replicas {list(s.replicas)}, ISR {sorted(s.isr)}"
                for (t, p), s in stage.states(places).items()
                if not stands(s, wanted[t, p])
            }

        wait_for(
            pending,
            until=lambda left: not left,
            deadline_s=self.deadline_s,
            what=f"the reassignment to {'complete' if self.wait else 'begin'}",
            interval_s=0.1,
        )
        seen = {f"{t}/{p}": {"replicas": [before[t, p], wanted[t, p]]} for t, p in places}
        moved = [p for p in places if set(before[p]) != set(wanted[p])]
        because = f"{named(moved)} {'moved' if self.wait else 'set out'} to other brokers"
        because = because if moved else "no replica changed its broker"
        return Done(
            resolved={"waited_s": round(time.monotonic() - started, 3), "moves": seen},
            effect=EffectProof(bool(moved), because, seen),
            idle=bool(self.to) and not moved,
        )


@dataclass(frozen=True, kw_only=True)
class ReassignAway(Fault):
    """Takes partitions off the broker that leads them, so that the next in sync leads; healing has it follow again.

    Nothing is copied before: who is in sync is taken for as good as the leader is.
    """

    do: ClassVar[str] = "reassign_away"
    on: PartitionsExpr

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if alone := [t.name for t in plan.topics_of(self.on) if t.replicas == 1]:
            raise BadInput(f"on: {alone[0]} has one replica, and nobody else to lead; give it replicas = 2 or more")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        places = stage.places(self.on)
        before = stage.states(places)
        left = {p: [b for b in next_order(s, ()) if b != s.leader] for p, s in before.items()}
        stage.admin.reassign(left)
        try:
            after = await_leaders(stage, places, lambda s: s.leader in left[s.topic, s.partition], "another leader")
            seen = {f"{t}/{p}": {"leader": [before[t, p].leader, s.leader]} for (t, p), s in after.items()}
            effect = EffectProof(True, f"{named(places)} left the broker that led", seen)
            yield Injection(resolved=seen, probe=lambda: effect)
        finally:
            again = {p: [*replicas, before[p].leader] for p, replicas in left.items()}
            stage.admin.reassign(again)
        wait_for(
            lambda: {f"{t}/{p}": str(s) for (t, p), s in stage.states(places).items() if not whole(s, again[t, p])},
            until=lambda pending: not pending,
            deadline_s=DEADLINE_S,
            what="the broker that led to follow, in sync",
            interval_s=0.1,
        )


@dataclass(frozen=True, kw_only=True)
class WaitReassigning(Action):
    """Waits until a replica that a reassignment adds to each partition has some of its records, and not all."""

    do: ClassVar[str] = "wait_reassigning"
    on: PartitionsExpr = ()
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        under_way(plan)

    def perform(self, stage: Stage) -> Done:
        places = stage.places(self.on)

        def pending() -> dict[str, str]:
            moves, states = stage.admin.reassignments(), stage.states(places)
            logs = stage.admin.replica_offsets(sorted({topic for topic, _ in places}))
            return {f"{t}/{p}": why for t, p in places if (why := _not_copying((t, p), moves, states, logs))}

        wait_for(
            pending,
            until=lambda left: not left,
            deadline_s=self.deadline_s,
            what="a reassignment that copies",
            interval_s=0.05,
        )
        return Done(resolved={"partitions": [f"{t}/{p}" for t, p in places]})


@dataclass(frozen=True, kw_only=True)
class WaitReassigned(Action):
    """Waits until no partition is being reassigned any more, and every replica is in sync."""

    do: ClassVar[str] = "wait_reassigned"
    on: PartitionsExpr = ()
    deadline_s: Deadline = 60.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        under_way(plan)

    def perform(self, stage: Stage) -> Done:
        places, started = stage.places(self.on), time.monotonic()

        def pending() -> dict[str, str]:
            moves, states = stage.admin.reassignments(), stage.states(places)
            left = {
                p: f"adding {list(moves[p].adding)}, removing {list(moves[p].removing)}" for p in places if p in moves
            }
            left |= {p: why for p, s in states.items() if p not in moves and (why := isr_not_full(s))}
            left |= {p: "nobody answers" for p in places if p not in states}
            return {f"{t}/{p}": why for (t, p), why in left.items()}

        wait_for(
            pending,
            until=lambda left: not left,
            deadline_s=self.deadline_s,
            what="the reassignment to complete",
            interval_s=0.1,
        )
        return Done(resolved={"waited_s": round(time.monotonic() - started, 3)})


def under_way(plan: StepValidation) -> None:
    """BadInput where no earlier step leaves a reassignment under way."""
    if not plan.leaves_moving():
        raise BadInput(f"no earlier step leaves a reassignment under way; {MOVE}")


def _not_copying(place: Place, moves: Any, states: Any, logs: Any) -> str | None:
    """Why no added replica is in the middle of its copying, or None."""
    if place not in moves or place not in states or not moves[place].adding:
        return "no replica is being added"
    goal = logs.get((*place, states[place].leader), (0, -1))[1]
    added_to = {b: logs.get((*place, b)) for b in moves[place].adding}
    if any(log is not None and log[0] < log[1] < goal for log in added_to.values()):
        return None
    return f"the leader's log ends at {goal}, the added ones' start and end at {added_to}"
