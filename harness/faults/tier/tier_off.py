"""A topic that leaves the remote tier, and returns to it (KIP-950)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe, named, with_recent_acks
from harness.faults.steps.step import EffectProof, Fault, Injection, TopicRef
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import POLL_S
from harness.faults.tier.common import require_tier
from harness.kafka.admin.offsets import TieredReplica
from harness.model.clock import now_ns
from harness.model.contract.contract import TIER_OFF
from harness.model.documents.steps import TierLeft
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.place import Place
from harness.model.scenario.tier_rules import COPY_DISABLED, LOCAL_RETENTION, REMOTE
from harness.model.waiting import wait_for

_DELETING: Final = "remote.log.delete.on.disable"
# Brokers apply retention every 500 ms; one round may have begun before they had the new setting.
_QUIET_S: Final = 1.5
DEADLINE_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class TierOff(Fault):
    """Before that, brokers stop copying and keep their local logs, so that it is known what may be deleted: all records
    below the start of the shortest local log. An event records that offset.

    settled: waits first until brokers have copied and deleted everything that they may.
    """

    do: ClassVar[str] = TIER_OFF
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_LEFT),)
    summary: ClassVar[str] = (
        "Takes a topic out of the remote tier, and deletes what only the tier has; healing returns it, unless "
        "`for_good`."
    )
    proof: ClassVar[str] = (
        "of partitions under load with records only in the tier, every replica now starts at its local log start offset"
    )
    topic: TopicRef
    for_good: bool = False
    settled: bool = False

    def declared(self) -> Declares:
        return (Declared(FactKind.TIER_LEFT, topic=self.topic),)

    def validate(self, plan: StepValidation) -> None:
        require_tier(plan, self.do, [plan.topic(self.topic)])

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        if self.settled:
            _await_settled(context, self.topic)
        try:
            context.admin.alter_topic_config(
                self.topic, {COPY_DISABLED: "true", **dict.fromkeys(LOCAL_RETENTION, "-2")}
            )
            before = _at_rest(context, self.topic)
            keeps = {place: max(r.local_log_start for r in replicas.values()) for place, replicas in before.items()}
            for (topic, partition), offset in keeps.items():
                left = TierLeft(topic=topic, partition=partition, before_offset=offset, at_ns=now_ns())
                context.record_event(left)
            context.admin.alter_topic_config(self.topic, {REMOTE: "false", _DELETING: "true"})
            resolved = {"keeps": {f"{t}/{p}": offset for (t, p), offset in keeps.items()}}
            yield Injection(resolved=resolved, probe=_left_tier(context, self.topic, before), deadline_s=DEADLINE_S)
        finally:
            if not self.for_good:
                self._put_back(context)

    def _put_back(self, context: StepContext) -> None:
        own = next(t.config for t in context.topics if t.name == self.topic)
        back = {REMOTE: "true", **{key: own.get(key) for key in (_DELETING, COPY_DISABLED, *LOCAL_RETENTION)}}
        context.admin.alter_topic_config(self.topic, back)


def refuse_tier_switch(config: Mapping[str, str]) -> None:
    """BadInput for settings that delete records which only the tier has: `TierOff` measures how many these are."""
    if switched := [key for key in (REMOTE, _DELETING) if key in config]:
        raise BadInput(f"config: {switched[0]} may delete records that only the remote tier has; use a step {TIER_OFF}")


Replicas = Mapping[Place, Mapping[int, TieredReplica]]


def _replicas(context: StepContext, topic: str) -> Replicas:
    """By partition and broker: the replica as the broker reports it."""
    found: dict[Place, dict[int, TieredReplica]] = {}
    for (name, partition, broker), replica in context.admin.tiered_replicas([topic]).items():
        found.setdefault((name, partition), {})[broker] = replica
    return found


def _await_settled(context: StepContext, topic: str) -> None:
    """Waits until every replica has exactly the records that are not in the tier. Releases before 3.9 do not report
    the end of the tiered records, so this needs 3.9."""

    def behind() -> str:
        found = _replicas(context, topic)
        ends = {p: {(r.local_log_start, (r.highest_tiered or 0) + 1) for r in of.values()} for p, of in found.items()}
        late = {f"{t}/{p}": sorted(of) for (t, p), of in ends.items() if len(of) > 1 or any(a != b for a, b in of)}
        return f"local log start offset, and end of the tiered records: {late}" if late or not found else ""

    what = f"replicas of {topic} to delete all local segments that are in the remote tier"
    wait_for(behind, until=lambda late: not late, deadline_s=DEADLINE_S, what=what, interval_s=POLL_S)


def _at_rest(context: StepContext, topic: str) -> Replicas:
    """Waits until no replica of the topic deletes local segments; returns the replicas."""
    seen, since_s = _replicas(context, topic), time.monotonic()

    def moving() -> str:
        nonlocal seen, since_s
        now = _replicas(context, topic)
        if _local(now) != _local(seen) or not now:
            seen, since_s = now, time.monotonic()
        quiet_s = time.monotonic() - since_s
        return "" if quiet_s >= _QUIET_S else f"local logs start at {_local(now)}, since {quiet_s:.1f} s ago"

    what = f"local logs of {topic} to keep their start offsets for {_QUIET_S} s"
    wait_for(moving, until=lambda late: not late, deadline_s=DEADLINE_S, what=what, interval_s=POLL_S)
    return seen


def _local(replicas: Replicas) -> dict[str, dict[int, int]]:
    return {f"{t}/{p}": {b: r.local_log_start for b, r in found.items()} for (t, p), found in sorted(replicas.items())}


def _left_tier(context: StepContext, topic: str, before: Replicas) -> Probe:
    """Proof: of partitions under load with records only in the tier, every replica starts at its local log start."""
    had = {place for place, found in before.items() if _first(found) > max(r.log_start for r in found.values())}

    def probe() -> EffectProof:
        if not had:
            return EffectProof(False, f"no record of {topic} was only in the remote tier")
        busy = with_recent_acks(context, had)
        if not busy:
            return EffectProof(
                False,
                f"{named(had)} had no acks in the last second, and no other partition has records only in the tier",
            )
        now = _replicas(context, topic)
        starts = {f"{t}/{p}": {b: r.log_start for b, r in now.get((t, p), {}).items()} for t, p in sorted(busy)}
        still = {place for place in busy if _begins_earlier(now.get(place, {}), _first(before[place]))}
        if still:
            return EffectProof(False, f"{named(still)} still starts in the remote tier", starts)
        return EffectProof(True, f"{named(busy)} starts at its local log start offsets", starts)

    return probe


def _first(replicas: Mapping[int, TieredReplica]) -> int:
    """The lowest local log start offset: records below it are only in the tier."""
    return min(replica.local_log_start for replica in replicas.values())


def _begins_earlier(replicas: Mapping[int, TieredReplica], first: int) -> bool:
    return not replicas or any(replica.log_start < first for replica in replicas.values())
