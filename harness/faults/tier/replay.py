"""A consumer that reads all tiered records again, while others write and read at the end of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import EffectProof, Fault, Injection, PartitionsExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.common import require_tier
from harness.model.errors import HarnessFailure
from harness.model.facts import FactKind
from harness.model.place import Place

_END_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Replay(Fault):
    """It reads each partition up to the local log start offset of its leader."""

    do: ClassVar[str] = "replay"
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_READ),)
    summary: ClassVar[str] = (
        "Reads the tiered records of partitions repeatedly, as consumers do that have fallen behind."
    )
    proof: ClassVar[str] = "the consumer received records below the local log start offset from each partition"
    on: PartitionsExpr = ()

    def validate(self, plan: StepValidation) -> None:
        require_tier(plan, self.do, plan.topics_of(self.on) if self.on else ())

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        until = _tiered_below(context, context.places(self.on) if self.on else [])
        replay = context.load.replay(until)
        replay.start()

        def probe() -> EffectProof:
            read = {f"{t}/{p}": n for (t, p), n in sorted(replay.read.items())}
            silent = sorted(f"{t}/{p}" for t, p in until if not replay.read[t, p])
            if not until or silent:
                where = ", ".join(silent) or "any partition"
                return EffectProof(False, f"no tiered record of {where} was read", read)
            return EffectProof(True, f"{sum(read.values()):,} records were read from the remote tier", read)

        try:
            yield Injection(resolved={"below": {f"{t}/{p}": end for (t, p), end in until.items()}}, probe=probe)
        finally:
            replay.stop()
            if wrong := replay.join(_END_S):
                raise HarnessFailure(wrong)


def _tiered_below(context: StepContext, places: list[Place]) -> dict[Place, int]:
    """The local log start offset of each leader that has records only in the tier: those below it."""
    topics = sorted({topic for topic, _ in places} or {topic.name for topic in context.topics})
    leaders = {(s.topic, s.partition): s.leader for s in context.admin.partitions(topics)}
    reported = context.admin.tiered_replicas(topics)
    return {
        (topic, p): replica.local_log_start
        for (topic, p, broker), replica in reported.items()
        if leaders.get((topic, p)) == broker
        and (not places or (topic, p) in places)
        and replica.local_log_start > replica.log_start
    }
