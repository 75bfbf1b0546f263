"""What was stored in the remote tier cannot be read yet: storage that is consistent only after a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

from harness.faults.steps.step import Fault, Injection, PartitionExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.storage_orders import done_by, foresee_orders, ordered
from harness.model.scenario.scenario import DAY_S, Range


@dataclass(frozen=True, kw_only=True)
class TierLate(Fault):
    """The remote tier says of segments that were copied in the last late_s seconds that it has them not."""

    do: ClassVar[str] = "tier_late"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.write"})
    late_s: Annotated[float, Range(0.1, DAY_S)]
    of: PartitionExpr = ""

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_orders(plan, self.do, self.of)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        with ordered(stage, "late", ("fetch", "index"), self.of, delay_ms=round(self.late_s * 1000)) as order:
            yield Injection(resolved={"late_s": self.late_s}, probe=done_by(stage, order, {"late": "came too early"}))
