"""Shared by the faults of the remote tier, and the waits for tiered segments (KIP-405)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from harness.faults.disks.common import LogSince, replica_folder
from harness.faults.steps.declared_facts import NOTHING, Declared, Declares
from harness.faults.steps.effect import Probe, await_recent_acks
from harness.faults.steps.step import Action, Done, EffectProof, Fault, PartitionsExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import POLL_S
from harness.kafka.admin.offsets import TieredReplica
from harness.kafka.storage.log_directory import segments
from harness.model.clock import now_ns
from harness.model.documents.steps import TieredSeen
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.place import Place
from harness.model.scenario.scenario import Count, Deadline, Topic
from harness.model.scenario.tier_rules import is_tiered
from harness.model.waiting import wait_for

# RemoteLogManager prints these for copies that it gives up, and from 4.0 on for those that it will retry.
_FAILED: Final = r"Error occurred while copying log segments of partition|Copy failed"


@dataclass(frozen=True, kw_only=True)
class WaitTiered(Action):
    """With deleted = true it also waits until no replica has these segments in its local log."""

    do: ClassVar[str] = "wait_tiered"
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_CAUGHT_UP),)
    summary: ClassVar[str] = (
        "Waits until all segments that each partition had rolled when the step began are in the remote tier."
    )
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read"})
    on: PartitionsExpr = ()
    deleted: bool = False
    deadline_s: Deadline = 90.0

    def validate(self, plan: StepValidation) -> None:
        require_tier(plan, self.do, plan.topics_of(self.on) if self.on else ())

    def perform(self, context: StepContext) -> Done:
        places = context.places(self.on) if self.on else tiered_places(context)
        rolled = {place: max(bases, default=0) for place, bases in _bases(context, places).items()}
        started = time.monotonic()

        def behind() -> dict[str, str]:
            reached = local_starts(context, places) if self.deleted else _reached(context, places)
            late = [place for place in places if reached[place] < rolled[place]]
            where = "deleted" if self.deleted else "in the tier"
            return {f"{t}/{p}": f"{where} below {reached[t, p]} of {rolled[t, p]}" for t, p in late}

        what = "rolled segments to be in the remote tier"
        wait_for(behind, until=lambda late: not late, deadline_s=self.deadline_s, what=what, interval_s=POLL_S)
        for (topic, partition), end in rolled.items():
            context.record_event(TieredSeen(topic=topic, partition=partition, below=end, at_ns=now_ns()))
        ends = {f"{topic}/{partition}": end for (topic, partition), end in rolled.items()}
        return Done(resolved={"tiered_below": ends, "waited_s": round(time.monotonic() - started, 3)})


@dataclass(frozen=True, kw_only=True)
class WaitUntiered(Action):
    """Segments that are not copied, for example during an outage of the tier."""

    do: ClassVar[str] = "wait_untiered"
    facts: ClassVar[Declares] = NOTHING
    summary: ClassVar[str] = (
        "Waits until each partition has at least `segments` rolled segments that are not in the remote tier."
    )
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read"})
    on: PartitionsExpr
    segments: Count = 2
    deadline_s: Deadline = 90.0

    def validate(self, plan: StepValidation) -> None:
        require_tier(plan, self.do, plan.topics_of(self.on))

    def perform(self, context: StepContext) -> Done:
        places = context.places(self.on)

        def waiting() -> dict[str, int]:
            reached, there = _reached(context, places), _bases(context, places)
            # The last segment is the active one, which is never copied.
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
    """Base of faults of the server of a tier in S3."""

    def victims(self) -> str:
        """No node is broken: brokers continue to serve local records."""
        return ""

    def validate(self, plan: StepValidation) -> None:
        require_tier(plan, self.do)
        if plan.scenario.shape.tier != "s3":
            raise BadInput(f'{self.do} needs a tier with a server: set tier = "s3" in [shape], or use tier_outage')


def require_tier_folder(plan: StepValidation, what: str, topics: Iterable[Topic] = ()) -> None:
    """BadInput without a tier that has its objects in a folder of the run."""
    require_tier(plan, what, topics)
    if plan.scenario.shape.tier == "user":
        raise BadInput(
            f"{what} changes objects in the remote tier, and has no access to a storage of the user; use another tier"
        )


def require_tier(plan: StepValidation, what: str, topics: Iterable[Topic] = ()) -> None:
    """BadInput without a remote tier, or for topics that are not in it."""
    if not plan.scenario.shape.tier:
        raise BadInput(f'{what} needs a remote tier; set tier = "local" in [shape]')
    for topic in topics:
        if not is_tiered(topic):
            raise BadInput(f"{what}: topic {topic.name} is not in the remote tier; name a topic that is")


def store_of(context: StepContext) -> Path:
    """The folder of the remote tier; BadInput when this cluster has none."""
    if context.cluster.tier_store is None:
        raise BadInput("this cluster has no remote tier; set tier in [shape]")
    return context.cluster.tier_store


def tiered_places(context: StepContext) -> list[Place]:
    """Every partition of the scenario's topics with a remote tier."""
    return [(topic.name, p) for topic in context.topics if is_tiered(topic) for p in range(topic.partitions)]


def copies_failed(context: StepContext, why: str = _FAILED) -> Probe:
    """Proof: from now on a broker logged that it failed to copy a segment to the tier, under load, and logged `why`."""
    names = {topic.name for topic in context.topics if is_tiered(topic)}
    busy = await_recent_acks(context, lambda state: state.topic in names)
    logs = {broker: LogSince(context.cluster.server_log(broker)) for broker in context.cluster.brokers}

    def probe() -> EffectProof:
        if not busy:
            return EffectProof(False, "no partition of the remote tier had acks in the last second")
        failed = sorted(broker for broker, log in logs.items() if log.find(_FAILED) and log.find(why))
        if not failed:
            return EffectProof(False, "no broker failed to copy a segment to the remote tier")
        return EffectProof(True, f"brokers {failed} failed to copy segments to the remote tier", {"failed": failed})

    return probe


def _in_the_tier(replica: TieredReplica) -> int:
    """The offset below which a replica knows its records in the tier. A release that does not report it deletes local
    segments only when they are there."""
    return replica.local_log_start if replica.highest_tiered is None else replica.highest_tiered + 1


def _reached(context: StepContext, places: Collection[Place]) -> dict[Place, int]:
    """The offset below which each partition is in the tier: the highest that one of its replicas knows."""
    reported = context.admin.tiered_replicas(sorted({topic for topic, _ in places}))
    return {
        place: max((_in_the_tier(r) for (t, p, _), r in reported.items() if (t, p) == place), default=0)
        for place in places
    }


def local_starts(context: StepContext, places: Collection[Place]) -> dict[Place, int]:
    """The lowest local log start offset among the replicas of each partition."""
    reported = context.admin.tiered_replicas(sorted({topic for topic, _ in places}))
    return {
        place: min((r.local_log_start for (t, p, _), r in reported.items() if (t, p) == place), default=0)
        for place in places
    }


def _bases(context: StepContext, places: Collection[Place]) -> dict[Place, list[int]]:
    """The base offsets of the segments that each partition's leader has locally, in order."""
    found = {}
    for place, state in context.states(list(places)).items():
        folder = replica_folder(context.cluster.log_directories(state.leader), place) if state.leader >= 0 else None
        found[place] = [segment.base_offset for segment in segments(folder)] if folder else []
    return {place: found.get(place, []) for place in places}
