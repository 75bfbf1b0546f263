"""Operations of the remote tier that fail, sometimes or always."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Fault, Injection, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.storage_orders import Op, check_ops, done_by, ordered, require_tier_faults
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.scenario.scenario import Range


@dataclass(frozen=True, kw_only=True)
class TierErrors(Fault):
    """ops: copy, fetch, index or delete. of: only those of one partition.
    half: a copy stores half of the segment before it fails. kept, for negative controls: it then reports success.
    """

    do: ClassVar[str] = "tier_errors"
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_UNAVAILABLE),)
    summary: ClassVar[str] = "Fails a share of the operations (`ops`) of the remote tier, of one partition or of all."
    proof: ClassVar[str] = "the storage of a broker was asked for such an operation, and failed it"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.write"})
    ops: tuple[Op, ...]
    share: Annotated[float, Range(0.001, 1)] = 1.0
    of: PartitionExpr = ""
    half: bool = False
    kept: bool = False

    def __post_init__(self) -> None:
        check_ops(self.ops)
        if self.half and self.ops != ("copy",):
            raise BadInput('half: only a copy can stop half way; write ops = ["copy"], or leave half out')
        if self.kept and not self.half:
            raise BadInput("kept: concerns half copies only; set half = true, or leave kept out")

    def validate(self, plan: StepValidation) -> None:
        require_tier_faults(plan, self.do, self.of)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        what = ("half_kept" if self.kept else "half") if self.half else "fail"
        with ordered(context, what, self.ops, self.of, share=self.share) as order:
            probe = done_by(context, order, {"failed": "failed", "half": "stopped half way"})
            yield Injection(resolved={"ops": list(self.ops), "share": self.share}, probe=probe)
