"""What the faults of the remote tier share, and the wait for it (KIP-405)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from harness.faults.disks.common import LogSince, replica_folder
from harness.faults.steps.effect import Probe, await_recent_acks
from harness.faults.steps.step import Action, Done, EffectProof, Fault, PartitionsExpr, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import POLL_S
from harness.kafka.admin.offsets import TieredReplica
from harness.kafka.storage.log_directory import segments
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Count, Deadline, Topic
from harness.model.scenario.tier_rules import is_tiered
from harness.model.waiting import wait_for

# RemoteLogManager, of copies: what is given up on, and from 4.0 on what will be tried again.
_FAILED: Final = r"Error occurred while copying log segments of partition|Copy failed"


@dataclass(frozen=True, kw_only=True)
class WaitTiered(Action):
    """Waits until all that each partition had rolled when the wait began is in the remote tier.

    With deleted = true: and until no replica has any of it itself any more.
    """

    do: ClassVar[str] = "wait_tiered"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read"})
    on: PartitionsExpr = ()
    deleted: bool = False
    deadline_s: Deadline = 90.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_tier(plan, self.do, plan.topics_of(self.on) if self.on else ())

    def perform(self, stage: Stage) -> Done:
        places = stage.places(self.on) if self.on else tiered_places(stage)
        rolled = {place: max(bases, default=0) for place, bases in _bases(stage, places).items()}
        started = time.monotonic()

        def behind() -> dict[str, str]:
            reached = begins(stage, places) if self.deleted else _reached(stage, places)
            late = [place for place in places if reached[place] < rolled[place]]
            where = "deleted" if self.deleted else "in the tier"
            return {f"{t}/{p}": f"{where} below {reached[t, p]} of {rolled[t, p]}" for t, p in late}

        what = "rolled segments to be in the remote tier"
        wait_for(behind, until=lambda late: not late, deadline_s=self.deadline_s, what=what, interval_s=POLL_S)
        for (topic, partition), end in rolled.items():
            stage.record_event("tiered_seen", topic=topic, partition=partition, below=end)
        ends = {f"{topic}/{partition}": end for (topic, partition), end in rolled.items()}
        return Done(resolved={"tiered_below": ends, "waited_s": round(time.monotonic() - started, 3)})


@dataclass(frozen=True, kw_only=True)
class WaitUntiered(Action):
    """Waits until at least so many `segments` that each partition has rolled are not in the remote tier."""

    do: ClassVar[str] = "wait_untiered"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read"})
    on: PartitionsExpr
    segments: Count = 2
    deadline_s: Deadline = 90.0

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_tier(plan, self.do, plan.topics_of(self.on))

    def perform(self, stage: Stage) -> Done:
        places = stage.places(self.on)

        def waiting() -> dict[str, int]:
            reached, there = _reached(stage, places), _bases(stage, places)
            # The last one is written to.
            return {f"{t}/{p}": sum(base >= reached[t, p] for base in there[t, p][:-1]) for t, p in places}

        what = f"{self.segments} rolled segments of each partition not to be in the remote tier"
        seen = wait_for(
            waiting,
            until=lambda n: min(n.values(), default=0) >= self.segments,
            deadline_s=self.deadline_s,
            what=what,
            interval_s=POLL_S,
        )
        return Done(resolved={"untiered": seen})


class ServerFault(Fault):
    """Of the server of a tier in S3."""

    def victims(self) -> str:
        """Nobody that a process runs for: brokers serve what they have."""
        return ""

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`. BadInput without a tier that has a server."""
        foresee_tier(plan, self.do)
        if plan.scenario.shape.tier != "s3":
            raise BadInput(f'{self.do} is about a server: say tier = "s3" in [shape], or take tier_outage')


def foresee_folder(plan: StepValidation, what: str, topics: Iterable[Topic] = ()) -> None:
    """BadInput without a tier that lies in a folder of the run's, too."""
    foresee_tier(plan, what, topics)
    if plan.scenario.shape.tier == "user":
        raise BadInput(f"{what} is about what lies in the remote tier: it knows no way into a storage of the user's")


def foresee_tier(plan: StepValidation, what: str, topics: Iterable[Topic] = ()) -> None:
    """BadInput without a tier, or for topics that are not in it."""
    if not plan.scenario.shape.tier:
        raise BadInput(f'{what} is about the remote tier: say tier = "local" in [shape]')
    for topic in topics:
        if not is_tiered(topic):
            raise BadInput(f"{what}: topic {topic.name} is not in the remote tier; name one that is")


def store_of(stage: Stage) -> Path:
    """BadInput where this cluster has no tier."""
    if stage.cluster.tier_store is None:
        raise BadInput("this cluster has no remote tier that could be broken")
    return stage.cluster.tier_store


def tiered_places(stage: Stage) -> list[Place]:
    """Every partition whose segments go to the tier."""
    return [(topic.name, p) for topic in stage.topics if is_tiered(topic) for p in range(topic.partitions)]


def copies_failed(stage: Stage, why: str = _FAILED) -> Probe:
    """Since now a broker failed to copy a segment of a partition under load to the tier, and said so in its log; `why`
    is to be found there, too."""
    names = {topic.name for topic in stage.topics if is_tiered(topic)}
    busy = await_recent_acks(stage, lambda state: state.topic in names)
    logs = {broker: LogSince(stage.cluster.server_log(broker)) for broker in stage.cluster.brokers}

    def probe() -> EffectProof:
        if not busy:
            return EffectProof(False, "no partition of the remote tier had acks in the last second")
        failed = sorted(broker for broker, log in logs.items() if log.find(_FAILED) and log.find(why))
        if not failed:
            return EffectProof(False, "no broker has failed to copy a segment to the remote tier")
        return EffectProof(True, f"brokers {failed} failed to copy segments to the remote tier", {"failed": failed})

    return probe


def _in_the_tier(replica: TieredReplica) -> int:
    """Below which offset; a release that has no word for it deletes only what is there."""
    return replica.local_log_start if replica.highest_tiered is None else replica.highest_tiered + 1


def _reached(stage: Stage, places: Collection[Place]) -> dict[Place, int]:
    """Below which offset each partition is in the tier, by whoever knows most of it."""
    reported = stage.admin.tiered_replicas(sorted({topic for topic, _ in places}))
    return {
        place: max((_in_the_tier(r) for (t, p, _), r in reported.items() if (t, p) == place), default=0)
        for place in places
    }


def begins(stage: Stage, places: Collection[Place]) -> dict[Place, int]:
    """Where the replica begins that keeps most of each partition itself."""
    reported = stage.admin.tiered_replicas(sorted({topic for topic, _ in places}))
    return {
        place: min((r.local_log_start for (t, p, _), r in reported.items() if (t, p) == place), default=0)
        for place in places
    }


def _bases(stage: Stage, places: Collection[Place]) -> dict[Place, list[int]]:
    """Where the segments begin that each partition's leader has, in their order."""
    found = {}
    for place, state in stage.states(list(places)).items():
        folder = replica_folder(stage.cluster.log_directories(state.leader), place) if state.leader >= 0 else None
        found[place] = [segment.base_offset for segment in segments(folder)] if folder else []
    return {place: found.get(place, []) for place in places}
