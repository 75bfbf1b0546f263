"""A topic that leaves the remote tier for good, and goes there again when it is full (KIP-950)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.steps.effect import Probe, named, with_recent_acks
from harness.faults.steps.step import EffectProof, Fault, Injection, Place, TopicRef
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import POLL_S
from harness.faults.tier.common import foresee_tier
from harness.kafka.admin.offsets import TieredReplica
from harness.model.contract.contract import TIER_OFF
from harness.model.errors import BadInput
from harness.model.scenario.tier_rules import LOCAL_RETENTION, REMOTE
from harness.model.waiting import wait_for

_DELETING: Final = "remote.log.delete.on.disable"
_COPYING: Final = "remote.log.copy.disable"
# Brokers look every 500 ms for what retention lets go; one look may have begun before they had the new setting.
_QUIET_S: Final = 1.5
DEADLINE_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class TierOff(Fault):
    """Takes a topic out of the remote tier with what only that had of it; healing puts it back, unless `for_good`.

    Before that brokers stop copying and keep what they have, so that it is known what may go: all that lies below the
    start of the shortest local log. An event says where that is. `settled`: and before that they have copied and
    deleted all that they may.
    """

    do: ClassVar[str] = TIER_OFF
    topic: TopicRef
    for_good: bool = False
    settled: bool = False

    def victims(self) -> str:
        """Nobody is broken."""
        return ""

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_tier(plan, self.do, [plan.topic(self.topic)])

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        if self.settled:
            _await_settled(stage, self.topic)
        try:
            stage.admin.alter_topic_config(self.topic, {_COPYING: "true", **dict.fromkeys(LOCAL_RETENTION, "-2")})
            before = _at_rest(stage, self.topic)
            keeps = {place: max(r.local_log_start for r in replicas.values()) for place, replicas in before.items()}
            for (topic, partition), offset in keeps.items():
                stage.record_event(TIER_OFF, topic=topic, partition=partition, before_offset=offset)
            stage.admin.alter_topic_config(self.topic, {REMOTE: "false", _DELETING: "true"})
            resolved = {"keeps": {f"{t}/{p}": offset for (t, p), offset in keeps.items()}}
            yield Injection(resolved=resolved, probe=_forgotten(stage, self.topic, before), deadline_s=DEADLINE_S)
        finally:
            if not self.for_good:
                self._put_back(stage)

    def _put_back(self, stage: Stage) -> None:
        own = next(t.config for t in stage.topics if t.name == self.topic)
        back = {REMOTE: "true", **{key: own.get(key) for key in (_DELETING, _COPYING, *LOCAL_RETENTION)}}
        stage.admin.alter_topic_config(self.topic, back)


def not_switched(config: Mapping[str, str]) -> None:
    """BadInput for settings that take away what lies in the tier alone: only `TierOff` knows how much that is."""
    if taken := [key for key in (REMOTE, _DELETING) if key in config]:
        raise BadInput(f"config: {taken[0]} takes away what lies in the remote tier alone; name a step {TIER_OFF}")


Replicas = Mapping[Place, Mapping[int, TieredReplica]]


def _replicas(stage: Stage, topic: str) -> Replicas:
    """What each broker says of its replicas, by partition."""
    found: dict[Place, dict[int, TieredReplica]] = {}
    for (name, partition, broker), replica in stage.admin.tiered_replicas([topic]).items():
        found.setdefault((name, partition), {})[broker] = replica
    return found


def _await_settled(stage: Stage, topic: str) -> None:
    """Waits until every replica has of the topic what is not in the tier, and no more. Before 3.9 nobody tells."""

    def behind() -> str:
        found = _replicas(stage, topic)
        ends = {p: {(r.local_log_start, (r.highest_tiered or 0) + 1) for r in of.values()} for p, of in found.items()}
        late = {f"{t}/{p}": sorted(of) for (t, p), of in ends.items() if len(of) > 1 or any(a != b for a, b in of)}
        return f"begins locally, and is in the tier below: {late}" if late or not found else ""

    what = f"replicas of {topic} to have deleted all that is in the remote tier"
    wait_for(behind, until=lambda late: not late, deadline_s=DEADLINE_S, what=what, interval_s=POLL_S)


def _at_rest(stage: Stage, topic: str) -> Replicas:
    """Waits until no replica of the topic deletes anything of its local log."""
    seen, since_s = _replicas(stage, topic), time.monotonic()

    def moving() -> str:
        nonlocal seen, since_s
        now = _replicas(stage, topic)
        if _local(now) != _local(seen) or not now:
            seen, since_s = now, time.monotonic()
        quiet_s = time.monotonic() - since_s
        return "" if quiet_s >= _QUIET_S else f"local logs begin at {_local(now)}, for {quiet_s:.1f} s"

    what = f"local logs of {topic} to stay where they begin for {_QUIET_S} s"
    wait_for(moving, until=lambda late: not late, deadline_s=DEADLINE_S, what=what, interval_s=POLL_S)
    return seen


def _local(replicas: Replicas) -> dict[str, dict[int, int]]:
    return {f"{t}/{p}": {b: r.local_log_start for b, r in found.items()} for (t, p), found in sorted(replicas.items())}


def _forgotten(stage: Stage, topic: str, before: Replicas) -> Probe:
    """Every replica begins where its local log does, and of some partition under load that is later than it was."""
    had = {place for place, found in before.items() if _first(found) > max(r.log_start for r in found.values())}

    def probe() -> EffectProof:
        if not had:
            return EffectProof(False, f"no record of {topic} was in the remote tier alone")
        busy = with_recent_acks(stage, had)
        if not busy:
            return EffectProof(
                False, f"nothing was written to {named(had)}, which the remote tier alone had the beginning of"
            )
        now = _replicas(stage, topic)
        starts = {f"{t}/{p}": {b: r.log_start for b, r in now.get((t, p), {}).items()} for t, p in sorted(busy)}
        still = {place for place in busy if _begins_earlier(now.get(place, {}), _first(before[place]))}
        if still:
            return EffectProof(False, f"{named(still)} still begins in the remote tier", starts)
        return EffectProof(True, f"{named(busy)} begins where its local logs do", starts)

    return probe


def _first(replicas: Mapping[int, TieredReplica]) -> int:
    """What lies below has the remote tier alone."""
    return min(replica.local_log_start for replica in replicas.values())


def _begins_earlier(replicas: Mapping[int, TieredReplica], first: int) -> bool:
    return not replicas or any(replica.log_start < first for replica in replicas.values())
