"""Segments that cannot be read from the remote tier at once: a storage that is only eventually consistent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Fault, Injection, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.storage_orders import done_by, ordered, require_tier_faults
from harness.model.facts import FactKind
from harness.model.scenario.scenario import DAY_S, Range


@dataclass(frozen=True, kw_only=True)
class TierLate(Fault):
    """`of`: only segments of one partition."""

    do: ClassVar[str] = "tier_late"
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"late_s": (1.0, 5.0)}
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_UNAVAILABLE),)
    summary: ClassVar[str] = (
        "Makes the remote tier answer that segments copied in the last late_s seconds do not exist."
    )
    proof: ClassVar[str] = "the storage of a broker was asked for such a young segment"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.write"})
    late_s: Annotated[float, Range(0.1, DAY_S)]
    of: PartitionExpr = ""

    def validate(self, plan: StepValidation) -> None:
        require_tier_faults(plan, self.do, self.of)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        with ordered(context, "late", ("fetch", "index"), self.of, delay_ms=round(self.late_s * 1000)) as order:
            yield Injection(
                resolved={"late_s": self.late_s}, probe=done_by(context, order, {"late": "asked for too early"})
            )
