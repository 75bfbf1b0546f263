"""Elections that are asked for: of the preferred replica, and of one that was not in sync."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.steps.effect import named
from harness.faults.steps.step import Action, Done, EffectProof, PartitionsExpr, PartitionView, Place
from harness.faults.steps.step_context import Stage
from harness.model.contract.contract import ELECT_UNCLEAN
from harness.model.waiting import wait_for

DEADLINE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class ElectPreferred(Action):
    """Moves the leadership of partitions back to the first of their replicas.

    A release that does so by itself leaves nothing to elect. Then the changes of leaders that were recorded since the
    first fault are the bite; without any the leaders never left, and the step is no disturbance.
    """

    do: ClassVar[str] = "elect_preferred"
    internal: ClassVar[bool] = True
    disturbs: ClassVar[bool] = True
    on: PartitionsExpr = ()

    def perform(self, stage: Stage) -> Done:
        places = stage.places(self.on)
        before = stage.states(places)
        stage.admin.elect_leaders("preferred", places)
        after = await_leaders(stage, places, lambda s: s.leader == s.replicas[0], "the preferred replica to have led")
        moved = {p: [before[p].leader, s.leader] for p, s in after.items() if before[p].leader != s.leader}
        seen = {f"{t}/{p}": {"leader": leaders} for (t, p), leaders in moved.items()}
        if moved:
            return Done(
                resolved=seen, effect=EffectProof(True, f"{named(moved)} went back to the preferred leader", seen)
            )
        if back := _went_back(stage, after):
            seen = {f"{t}/{p}": {"leader": leaders} for (t, p), leaders in back.items()}
            return Done(
                effect=EffectProof(True, f"{named(back)} went back to the preferred leader without being told", seen)
            )
        return Done(effect=EffectProof(False, f"{named(places)} already had their preferred leader"), idle=True)


@dataclass(frozen=True, kw_only=True)
class ElectUnclean(Action):
    """Elects a leader that is not in sync, on partitions that have none; measures what survives before it does.

    The log ends are asked of every live replica past all faults, so that the number of lost records is known.
    """

    do: ClassVar[str] = ELECT_UNCLEAN
    internal: ClassVar[bool] = True
    disturbs: ClassVar[bool] = True
    on: PartitionsExpr

    def perform(self, stage: Stage) -> Done:
        places = stage.places(self.on)
        before = stage.states(places)
        orphans = [place for place in places if place in before and before[place].leader < 0]
        ends = {key: end for key, (_, end) in stage.admin.replica_offsets(sorted({t for t, _ in places})).items()}
        if not orphans:
            leaders = {f"{t}/{p}": s.leader for (t, p), s in before.items()}
            return Done(effect=EffectProof(False, f"{named(places)} have a leader, nothing to elect", leaders))
        stage.admin.elect_leaders("unclean", orphans)
        after = await_leaders(stage, orphans, lambda s: s.leader >= 0, "a leader by an unclean election")
        seen = {}
        for (topic, partition), state in after.items():
            log_end = ends.get((topic, partition, state.leader))
            stage.record_event(
                "unclean_election",
                topic=topic,
                topic_id=state.topic_id,
                partition=partition,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                log_end=log_end,
            )
            seen[f"{topic}/{partition}"] = {"leader": state.leader, "log_end": log_end}
        return Done(resolved=seen, effect=EffectProof(True, f"{named(orphans)} had no leader and were given one", seen))


def _went_back(stage: Stage, states: Mapping[Place, PartitionView]) -> dict[Place, list[int]]:
    """Partitions that were seen to return to the first of their replicas: the leader before, the leader then."""
    changes = {(e["topic"], e["partition"]): [e["old_leader"], e["new_leader"]] for e in stage.leader_changes()}
    return {
        place: [old, new]
        for place, (old, new) in changes.items()
        if place in states and old != new == states[place].replicas[0]
    }


def await_leaders(
    stage: Stage, places: list[Place], done: Callable[[PartitionView], bool], what: str
) -> dict[Place, PartitionView]:
    """The first state of each partition that was as wanted, once all have been; HarnessTimeout otherwise.

    Not all at one look: a release may move a leader on at once, as long as it did what it was asked for.
    """
    reached: dict[Place, PartitionView] = {}

    def probe() -> dict[str, str]:
        states = stage.states(places)
        reached.update({p: s for p, s in states.items() if p not in reached and done(s)})
        left = [place for place in places if place not in reached]
        return {f"{t}/{p}": f"leader {states[t, p].leader}" if (t, p) in states else "nobody answers" for t, p in left}

    wait_for(probe, until=lambda left: not left, deadline_s=DEADLINE_S, what=what, interval_s=0.1)
    return reached
