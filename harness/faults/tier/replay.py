"""Somebody reads everything again from the first record, while others write and read at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.steps.step import EffectProof, Fault, Injection, PartitionsExpr, Place
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.common import foresee_tier
from harness.model.errors import HarnessFailure

_END_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Replay(Fault):
    """Reads what is in the remote tier of partitions (`on`) over and over, as consumers do that have fallen behind."""

    do: ClassVar[str] = "replay"
    on: PartitionsExpr = ()

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_tier(plan, self.do, plan.topics_of(self.on) if self.on else ())

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        until = _tiered_below(stage, stage.places(self.on) if self.on else [])
        replay = stage.load.replay(until)
        replay.start()

        def probe() -> EffectProof:
            read = {f"{t}/{p}": n for (t, p), n in sorted(replay.read.items())}
            silent = sorted(f"{t}/{p}" for t, p in until if not replay.read[t, p])
            if not until or silent:
                return EffectProof(
                    False, f"nothing of the remote tier was read of {', '.join(silent) or 'any partition'}", read
                )
            return EffectProof(True, f"{sum(read.values()):,} records were read from the remote tier", read)

        try:
            yield Injection(resolved={"below": {f"{t}/{p}": end for (t, p), end in until.items()}}, probe=probe)
        finally:
            replay.stop()
            if wrong := replay.join(_END_S):
                raise HarnessFailure(wrong)


def _tiered_below(stage: Stage, places: list[Place]) -> dict[Place, int]:
    """Where the logs of the leaders begin: what lies below, they have from the tier alone."""
    topics = sorted({topic for topic, _ in places} or {topic.name for topic in stage.topics})
    leaders = {(s.topic, s.partition): s.leader for s in stage.admin.partitions(topics)}
    reported = stage.admin.tiered_replicas(topics)
    return {
        (topic, p): replica.local_log_start
        for (topic, p, broker), replica in reported.items()
        if leaders.get((topic, p)) == broker
        and (not places or (topic, p) in places)
        and replica.local_log_start > replica.log_start
    }
