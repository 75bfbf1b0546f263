"""The remote tier takes its time: brokers keep what they cannot copy yet, and readers of old records wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

from harness.faults.network.slow import Milliseconds
from harness.faults.steps.step import Fault, Injection, PartitionExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.storage_orders import Op, check_ops, done_by, foresee_orders, ordered
from harness.model.errors import BadInput
from harness.model.scenario.scenario import MANY, Range


@dataclass(frozen=True, kw_only=True)
class TierSlow(Fault):
    """Delays operations (`ops`) of the remote tier by delay_ms, and moves segments at no more than rate_kb_s each."""

    do: ClassVar[str] = "tier_slow"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.write"})
    ops: tuple[Op, ...] = ("copy", "fetch")
    delay_ms: Milliseconds = 0
    rate_kb_s: Annotated[int, Range(0, MANY)] = 0
    of: PartitionExpr = ""

    def __post_init__(self) -> None:
        check_ops(self.ops)
        if not self.delay_ms and not self.rate_kb_s:
            raise BadInput("this slows nothing; give delay_ms or rate_kb_s")
        if self.rate_kb_s and not {"copy", "fetch"} & set(self.ops):
            raise BadInput('rate_kb_s: only segments have one; name "copy" or "fetch" in ops, or leave it out')

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_orders(plan, self.do, self.of)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        narrow = {"delay_ms": self.delay_ms, "bytes_per_s": self.rate_kb_s * 1000}
        with ordered(stage, "slow", self.ops, self.of, **narrow) as order:
            yield Injection(
                resolved={"ops": list(self.ops), **narrow}, probe=done_by(stage, order, {"slowed": "slowed"})
            )
