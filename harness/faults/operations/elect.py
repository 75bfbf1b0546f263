"""Elections by an operator: of the preferred replica, and of a replica that was not in sync (unclean)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import named
from harness.faults.steps.step import Action, Done, EffectProof, PartitionsExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.waits import NO_ANSWER
from harness.kafka.admin.client import PartitionState
from harness.model.clock import now_ns
from harness.model.contract.contract import ELECT_UNCLEAN
from harness.model.documents.steps import ElectionInVain, UncleanElection
from harness.model.errors import HarnessTimeout
from harness.model.facts import FactKind
from harness.model.place import Place
from harness.model.waiting import wait_for

DEADLINE_S = 30.0
_NOT_IN_SYNC: Final = "PREFERRED_LEADER_NOT_AVAILABLE"


@dataclass(frozen=True, kw_only=True)
class ElectPreferred(Action):
    """When the release already did it by itself, the leader changes since the first fault prove the effect. Without any
    such change the leaders never moved, and the step disturbs nothing.
    """

    do: ClassVar[str] = "elect_preferred"
    follows: ClassVar[frozenset[FactKind]] = frozenset({FactKind.STOPPED, FactKind.FROZEN, FactKind.LEADERS_MOVED})
    facts: ClassVar[Declares] = (Declared(FactKind.LEADERS_MOVED),)
    summary: ClassVar[str] = "Moves the leadership of partitions back to the first of their replicas."
    proof: ClassVar[str] = (
        "the leadership returned to the first replica; where it had never moved, the step counts as no fault"
    )
    internal: ClassVar[bool] = True
    disturbs: ClassVar[bool] = True
    on: PartitionsExpr = ()

    def perform(self, context: StepContext) -> Done:
        places = context.places(self.on)
        before = context.states(places)
        after = elect_preferred(context, places, "the preferred replica to lead")
        moved = {p: [before[p].leader, s.leader] for p, s in after.items() if before[p].leader != s.leader}
        seen = {f"{t}/{p}": {"leader": leaders} for (t, p), leaders in moved.items()}
        if moved:
            return Done(
                resolved=seen, effect=EffectProof(True, f"{named(moved)} returned to the preferred leader", seen)
            )
        if back := _went_back(context, after):
            seen = {f"{t}/{p}": {"leader": leaders} for (t, p), leaders in back.items()}
            return Done(
                effect=EffectProof(True, f"{named(back)} returned to the preferred leader before the election", seen)
            )
        return Done(effect=EffectProof(False, f"{named(places)} already had their preferred leader"), idle=True)


@dataclass(frozen=True, kw_only=True)
class ElectUnclean(Action):
    """The log end offsets of all live replicas are read before, so that the number of lost records is known. An event
    `unclean_election` records that of the new leader.
    """

    do: ClassVar[str] = ELECT_UNCLEAN
    by_hand: ClassVar[str] = "it needs a partition without a leader"
    facts: ClassVar[Declares] = (Declared(FactKind.LEADERS_MOVED),)
    summary: ClassVar[str] = "Elects a leader that is not in sync, on partitions without a leader."
    proof: ClassVar[str] = (
        "a partition without a leader got one; the log end offset that survives was measured before the election"
    )
    internal: ClassVar[bool] = True
    disturbs: ClassVar[bool] = True
    on: PartitionsExpr

    def perform(self, context: StepContext) -> Done:
        places = context.places(self.on)
        before = context.states(places)
        orphans = [place for place in places if place in before and before[place].leader < 0]
        ends = {key: end for key, (_, end) in context.admin.replica_offsets(sorted({t for t, _ in places})).items()}
        if not orphans:
            leaders = {f"{t}/{p}": s.leader for (t, p), s in before.items()}
            because = f"{named(places)} have a leader, so there is nothing to elect"
            return Done(effect=EffectProof(False, because, leaders))
        context.admin.elect_leaders("unclean", orphans)
        after = await_leaders(context, orphans, lambda s: s.leader >= 0, "a leader by an unclean election")
        seen = {}
        for (topic, partition), state in after.items():
            log_end = ends.get((topic, partition, state.leader))
            context.record_event(
                UncleanElection(
                    topic=topic,
                    topic_id=state.topic_id,
                    partition=partition,
                    at_ns=now_ns(),
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    log_end=log_end,
                )
            )
            seen[f"{topic}/{partition}"] = {"leader": state.leader, "log_end": log_end}
        return Done(resolved=seen, effect=EffectProof(True, f"{named(orphans)} had no leader and got one", seen))


def _went_back(context: StepContext, states: Mapping[Place, PartitionState]) -> dict[Place, list[int]]:
    """Partitions led by their first replica again since the first fault: [old leader, new leader]."""
    return {
        place: [old, new]
        for place, (old, new) in context.moves().items()
        if place in states and new == states[place].replicas[0]
    }


def elect_preferred(context: StepContext, places: list[Place], what: str) -> dict[Place, PartitionState]:
    """Has the first replica of each partition elected, and waits until it leads. One that was not in sync then is asked
    for again when it is. An event `election_in_vain` records each that does not lead."""
    answers = context.admin.elect_leaders("preferred", places)

    def ask_again(states: Mapping[Place, PartitionState]) -> None:
        in_sync = (place for place, state in states.items() if state.replicas[0] in state.isr)
        if refused := [place for place in in_sync if answers.get(place) == _NOT_IN_SYNC]:
            answers.update(context.admin.elect_leaders("preferred", refused))

    try:
        return await_leaders(context, places, _preferred_leads, what, ask_again)
    except HarnessTimeout:
        for (topic, partition), state in context.states(places).items():
            if not _preferred_leads(state):
                context.record_event(
                    ElectionInVain(
                        topic=topic,
                        partition=partition,
                        at_ns=now_ns(),
                        error=answers.get((topic, partition)),
                        leader=state.leader,
                        preferred=state.replicas[0],
                        isr=tuple(state.isr),
                        waited_s=DEADLINE_S,
                    )
                )
        raise


def _preferred_leads(state: PartitionState) -> bool:
    return state.leader == state.replicas[0]


def await_leaders(
    context: StepContext,
    places: list[Place],
    done: Callable[[PartitionState], bool],
    what: str,
    meanwhile: Callable[[Mapping[Place, PartitionState]], None] = lambda _: None,
) -> dict[Place, PartitionState]:
    """Waits until each partition was once in a state that `done` accepts; returns that state of each. meanwhile: is
    given the states of the others at each look.

    Not all of them at the same look: a release may move a leader again at once, after it did what was asked.
    """
    reached: dict[Place, PartitionState] = {}

    def probe() -> dict[str, str]:
        states = context.states(places)
        reached.update({p: s for p, s in states.items() if p not in reached and done(s)})
        left = [place for place in places if place not in reached]
        meanwhile({place: states[place] for place in left if place in states})
        return {f"{t}/{p}": f"leader {states[t, p].leader}" if (t, p) in states else NO_ANSWER for t, p in left}

    wait_for(probe, until=lambda left: not left, deadline_s=DEADLINE_S, what=what, interval_s=0.1)
    return reached
