"""The remote tier fails, now and then or always, at what it is asked for; everything else it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

from harness.faults.steps.step import Fault, Injection, PartitionExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.storage_orders import Op, check_ops, done_by, foresee_orders, ordered
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Range


@dataclass(frozen=True, kw_only=True)
class TierErrors(Fault):
    """Fails a share of operations (`ops`: copy, fetch, index, delete) of the remote tier, of a partition or of all.

    half: a copy stores half of the log before it fails. `kept` is for negative controls: it says that it stored all.
    """

    do: ClassVar[str] = "tier_errors"
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
            raise BadInput("kept: is about half a copy; say half = true, or leave kept out")

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_orders(plan, self.do, self.of)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        what = ("half_kept" if self.kept else "half") if self.half else "fail"
        with ordered(stage, what, self.ops, self.of, share=self.share) as order:
            probe = done_by(stage, order, {"failed": "failed", "half": "stopped half way"})
            yield Injection(resolved={"ops": list(self.ops), "share": self.share}, probe=probe)
