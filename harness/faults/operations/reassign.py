"""Partition reassignment under load: new replicas copy the whole log while it grows, and old ones are removed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.operations.elect import DEADLINE_S, await_leaders
from harness.faults.operations.move_leaders import next_order
from harness.faults.steps.declared_facts import NOTHING, Declared, Declares
from harness.faults.steps.effect import named
from harness.faults.steps.step import Action, BrokerIds, Done, EffectProof, Fault, Injection, PartitionsExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import MOVE, StepValidation
from harness.faults.steps.waits import NO_ANSWER, isr_not_full
from harness.kafka.admin.client import PartitionState, Reassignment
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.place import Place
from harness.model.scenario.scenario import Deadline
from harness.model.waiting import wait_for


def shifted(replicas: list[int], by: int, brokers: tuple[int, ...]) -> list[int]:
    """The brokers `by` places after each replica; after the last broker comes the first."""
    return [brokers[(brokers.index(replica) + by) % len(brokers)] for replica in replicas]


def whole(state: PartitionState, wanted: list[int]) -> bool:
    """Whether the wanted replicas, and no others, have the partition and are all in sync."""
    return list(state.replicas) == wanted and set(state.isr) == set(wanted) and state.leader in wanted


def added(state: PartitionState, wanted: list[int]) -> bool:
    """Whether the partition has the wanted replicas, in sync or not."""
    return set(wanted) <= set(state.replicas)


@dataclass(frozen=True, kw_only=True)
class Reassign(Action):
    """to: makes these brokers the replicas, the first one the preferred leader. Where they already are the replicas,
    the step disturbs nothing.
    wait = false: the step is done when the reassignment has begun, and a step `wait_reassigned` waits for its end.
    """

    do: ClassVar[str] = "reassign"
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"wait": (True,)}
    facts: ClassVar[Declares] = (Declared(FactKind.COPIES_REBUILT), Declared(FactKind.LEADERS_MOVED))
    summary: ClassVar[str] = (
        "Moves every replica of partitions `shift` brokers further, and waits until the new replicas are in sync."
    )
    proof: ClassVar[str] = "other brokers have the partition, all of them in sync"
    internal: ClassVar[bool] = True
    disturbs: ClassVar[bool] = True
    on: PartitionsExpr = ()
    shift: int = 1
    to: BrokerIds = ()
    wait: bool = True
    deadline_s: Deadline = 60.0

    def validate(self, plan: StepValidation) -> None:
        brokers = plan.scenario.shape.brokers
        if self.to:
            if wrong := sorted(set(self.to) - set(range(1, brokers + 1))):
                raise BadInput(f"to: there is no broker {wrong[0]}; name brokers from 1 to {brokers}")
            if len(set(self.to)) < len(self.to):
                raise BadInput(f"to: {list(self.to)} names a broker twice; name each broker once")
            if other := [t for t in plan.topics_of(self.on) if t.name in plan.topics and t.replicas != len(self.to)]:
                raise BadInput(
                    f"to: {list(self.to)} are {len(self.to)} brokers, and {other[0].name} has {other[0].replicas} "
                    "replicas; name as many"
                )
            return
        if self.shift % brokers == 0:
            raise BadInput(f"shift: {self.shift} of {brokers} brokers moves no replica; set 1")
        if all(t.replicas == brokers for t in plan.topics_of(self.on)):
            raise BadInput(
                f"on: every broker already has a replica, so none can move; give a topic replicas = {brokers - 1}"
            )

    def perform(self, context: StepContext) -> Done:
        places = context.places(self.on)
        before = {p: list(s.replicas) for p, s in context.states(places).items()}
        onward = {p: shifted(replicas, self.shift, context.cluster.brokers) for p, replicas in before.items()}
        wanted = {place: list(self.to) for place in before} if self.to else onward
        started = time.monotonic()
        context.admin.reassign(wanted)
        stands = whole if self.wait else added

        def pending() -> dict[str, str]:
            return {
                f"{t}/{p}": f"replicas {list(s.replicas)}, ISR {sorted(s.isr)}"
                for (t, p), s in context.states(places).items()
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
        because = f"{named(moved)} {'moved' if self.wait else 'began to move'} to other brokers"
        because = because if moved else "no replica moved to another broker"
        return Done(
            resolved={"waited_s": round(time.monotonic() - started, 3), "moves": seen},
            effect=EffectProof(bool(moved), because, seen),
            idle=bool(self.to) and not moved,
        )


@dataclass(frozen=True, kw_only=True)
class ReassignAway(Fault):
    """Another in-sync replica leads at once, without a copy before: an in-sync replica must have all that the leader
    acknowledged.
    """

    do: ClassVar[str] = "reassign_away"
    facts: ClassVar[Declares] = (Declared(FactKind.COPIES_REBUILT), Declared(FactKind.LEADERS_MOVED))
    summary: ClassVar[str] = (
        "Removes the leader of partitions from their replicas, so that another in-sync one leads; "
        "healing adds it again."
    )
    proof: ClassVar[str] = "another replica leads"
    on: PartitionsExpr

    def validate(self, plan: StepValidation) -> None:
        if alone := [t.name for t in plan.topics_of(self.on) if t.replicas == 1]:
            raise BadInput(f"on: {alone[0]} has one replica, so no other can lead; give it replicas = 2 or more")

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        places = context.places(self.on)
        before = context.states(places)
        left = {p: [b for b in next_order(s, ()) if b != s.leader] for p, s in before.items()}
        context.admin.reassign(left)
        try:
            after = await_leaders(context, places, lambda s: s.leader in left[s.topic, s.partition], "another leader")
            seen = {f"{t}/{p}": {"leader": [before[t, p].leader, s.leader]} for (t, p), s in after.items()}
            effect = EffectProof(True, f"{named(places)} moved away from their leaders", seen)
            yield Injection(resolved=seen, probe=lambda: effect)
        finally:
            again = {p: [*replicas, before[p].leader] for p, replicas in left.items()}
            context.admin.reassign(again)
        wait_for(
            lambda: {f"{t}/{p}": str(s) for (t, p), s in context.states(places).items() if not whole(s, again[t, p])},
            until=lambda pending: not pending,
            deadline_s=DEADLINE_S,
            what="the former leader to be an in-sync follower",
            interval_s=0.1,
        )


@dataclass(frozen=True, kw_only=True)
class WaitReassigning(Action):
    """A reassignment in the middle of its copying."""

    do: ClassVar[str] = "wait_reassigning"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = (
        "Waits until a replica that a reassignment adds to each partition has some of its records, but not all."
    )
    on: PartitionsExpr = ()
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        require_reassignment(plan)

    def perform(self, context: StepContext) -> Done:
        places = context.places(self.on)

        def pending() -> dict[str, str]:
            moves, states = context.admin.reassignments(), context.states(places)
            logs = context.admin.replica_offsets(sorted({topic for topic, _ in places}))
            return {f"{t}/{p}": why for t, p in places if (why := _not_copying((t, p), moves, states, logs))}

        wait_for(
            pending,
            until=lambda left: not left,
            deadline_s=self.deadline_s,
            what="the new replicas to have some of the records",
            interval_s=0.05,
        )
        return Done(resolved={"partitions": [f"{t}/{p}" for t, p in places]})


@dataclass(frozen=True, kw_only=True)
class WaitReassigned(Action):
    """The end of a reassignment."""

    do: ClassVar[str] = "wait_reassigned"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = "Waits until no reassignment of the partitions is under way, and every replica is in sync."
    on: PartitionsExpr = ()
    deadline_s: Deadline = 60.0

    def validate(self, plan: StepValidation) -> None:
        require_reassignment(plan)

    def perform(self, context: StepContext) -> Done:
        places, started = context.places(self.on), time.monotonic()

        def pending() -> dict[str, str]:
            moves, states = context.admin.reassignments(), context.states(places)
            left = {
                p: f"adding {list(moves[p].adding)}, removing {list(moves[p].removing)}" for p in places if p in moves
            }
            left |= {p: why for p, s in states.items() if p not in moves and (why := isr_not_full(s))}
            left |= {p: NO_ANSWER for p in places if p not in states}
            return {f"{t}/{p}": why for (t, p), why in left.items()}

        wait_for(
            pending,
            until=lambda left: not left,
            deadline_s=self.deadline_s,
            what="the reassignment to complete",
            interval_s=0.1,
        )
        return Done(resolved={"waited_s": round(time.monotonic() - started, 3)})


@dataclass(frozen=True, kw_only=True)
class CancelReassignment(Action):
    """The partitions have their former replicas again."""

    do: ClassVar[str] = "cancel_reassignment"
    by_hand: ClassVar[str] = "it needs a reassignment that is under way"
    facts: ClassVar[Declares] = (Declared(FactKind.COPIES_REBUILT),)
    summary: ClassVar[str] = "Cancels the reassignments of partitions that are under way (KIP-455)."
    proof: ClassVar[str] = "each partition was being moved, and has its former replicas again"
    disturbs: ClassVar[bool] = True
    on: PartitionsExpr = ()
    deadline_s: Deadline = 30.0

    def validate(self, plan: StepValidation) -> None:
        require_reassignment(plan)

    def perform(self, context: StepContext) -> Done:
        places, moves = context.places(self.on), context.admin.reassignments()
        moving = [place for place in places if place in moves]
        context.admin.reassign(dict.fromkeys(moving))

        def pending() -> dict[str, str]:
            left, states = context.admin.reassignments(), context.states(moving)
            late = {p: set(moves[p].adding) & set(state.replicas) for p, state in states.items()}
            return {
                f"{t}/{p}": f"still has the added replicas {sorted(late.get((t, p), ()))}"
                for t, p in moving
                if (t, p) in left or (t, p) not in states or late[t, p]
            }

        wait_for(
            pending,
            until=lambda left: not left,
            deadline_s=self.deadline_s,
            what="the reassignments to be cancelled",
            interval_s=0.1,
        )
        seen = {f"{t}/{p}": {"added": list(moves[t, p].adding)} for t, p in moving}
        if len(moving) < len(places):
            return Done(effect=EffectProof(False, f"only {named(moving) or 'nothing'} was being moved", seen))
        return Done(effect=EffectProof(True, f"{named(moving)} lost the replicas that were being added", seen))


def require_reassignment(plan: StepValidation) -> None:
    """BadInput when no earlier step leaves a reassignment under way."""
    if not plan.leaves_moving():
        raise BadInput(f"no earlier step leaves a reassignment under way; {MOVE}")


def _not_copying(
    place: Place,
    moves: Mapping[Place, Reassignment],
    states: Mapping[Place, PartitionState],
    logs: Mapping[tuple[str, int, int], tuple[int, int]],
) -> str | None:
    """Why no new replica is in the middle of its copying; None when one is."""
    if place not in moves or place not in states or not moves[place].adding:
        return "no replica is being added"
    goal = logs.get((*place, states[place].leader), (0, -1))[1]
    added_to = {b: logs.get((*place, b)) for b in moves[place].adding}
    if any(log is not None and log[0] < log[1] < goal for log in added_to.values()):
        return None
    return f"the leader's log ends at {goal}, those of the new replicas start and end at {added_to}"
