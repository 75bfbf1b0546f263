"""A slow remote tier: brokers keep the segments that they cannot copy yet, and readers of old records wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

from harness.faults.network.slow import Milliseconds
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Fault, Injection, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.storage_orders import Op, check_ops, done_by, ordered, require_tier_faults
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.scenario.scenario import MANY, Range


@dataclass(frozen=True, kw_only=True)
class TierSlow(Fault):
    """`of`: only operations of one partition."""

    do: ClassVar[str] = "tier_slow"
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"delay_ms": (500, 2000), "rate_kb_s": (0,)}
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_SLOW),)
    summary: ClassVar[str] = (
        "Delays operations (`ops`) of the remote tier by delay_ms, and limits each transfer to rate_kb_s."
    )
    proof: ClassVar[str] = "the storage of a broker was asked for such an operation, and delayed it"
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
            raise BadInput("rate_kb_s: only copy and fetch transfer segments; name one of them in ops, or leave it out")

    def validate(self, plan: StepValidation) -> None:
        require_tier_faults(plan, self.do, self.of)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        narrow = {"delay_ms": self.delay_ms, "bytes_per_s": self.rate_kb_s * 1000}
        with ordered(context, "slow", self.ops, self.of, **narrow) as order:
            yield Injection(
                resolved={"ops": list(self.ops), **narrow}, probe=done_by(context, order, {"slowed": "slowed"})
            )
