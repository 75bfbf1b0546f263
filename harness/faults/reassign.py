"""Partition reassignment under load: new replicas copy the whole log while it grows, old ones are dropped."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.base import Action, Bite, Done, PartitionsExpr
from harness.faults.bite import named
from harness.faults.foresight import Foresight
from harness.faults.stage import Stage
from harness.model.errors import BadInput
from harness.model.scenario import Deadline
from harness.model.waiting import wait_for


def shifted(replicas: list[int], by: int, brokers: tuple[int, ...]) -> list[int]:
    """Each replica moved `by` brokers onward, round the cluster."""
    return [brokers[(brokers.index(replica) + by) % len(brokers)] for replica in replicas]


@dataclass(frozen=True, kw_only=True)
class Reassign(Action):
    """Moves every replica of partitions `shift` brokers onward, and waits until the new ones are all in sync."""

    do: ClassVar[str] = "reassign"
    disturbs: ClassVar[bool] = True
    on: PartitionsExpr = ()
    shift: int = 1
    deadline_s: Deadline = 60.0

    def foresee(self, plan: Foresight) -> None:
        """See `Kind`."""
        brokers = plan.scenario.shape.brokers
        if self.shift % brokers == 0:
            raise BadInput(f"shift: {self.shift} goes round all {brokers} brokers, and nothing moves; give 1")
        if all(t.replicas == brokers for t in plan.topics_of(self.on)):
            raise BadInput(
                f"on: every broker has a replica already, and none can move; give a topic replicas = {brokers - 1}"
            )

    def perform(self, stage: Stage) -> Done:
        places = stage.places(self.on)
        before = {p: list(s.replicas) for p, s in stage.states(places).items()}
        wanted = {p: shifted(replicas, self.shift, stage.cluster.brokers) for p, replicas in before.items()}
        started = time.monotonic()
        stage.admin.reassign(wanted)

        def pending() -> dict[str, str]:
            return {
                f"{t}/{p}": f"replicas {list(s.replicas)}, ISR {sorted(s.isr)}"
                for (t, p), s in stage.states(places).items()
                if list(s.replicas) != wanted[t, p] or set(s.isr) != set(wanted[t, p]) or s.leader not in wanted[t, p]
            }

        wait_for(
            pending,
            until=lambda left: not left,
            deadline_s=self.deadline_s,
            what="the reassignment to complete",
            interval_s=0.1,
        )
        seen = {f"{t}/{p}": {"replicas": [before[t, p], wanted[t, p]]} for t, p in places}
        moved = [p for p in places if set(before[p]) != set(wanted[p])]
        because = f"{named(moved)} moved to other brokers" if moved else "no replica changed its broker"
        return Done(
            resolved={"waited_s": round(time.monotonic() - started, 3), "moves": seen},
            bite=Bite(bool(moved), because, seen),
        )
