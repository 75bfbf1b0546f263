"""An operation of the remote tier stands still at its begin or its end, where a crash leaves the two sides unequal.

Of a copy: before it the metadata say that it has begun, and there is no object; after it the object is whole, and the
metadata do not say so yet. Of a deletion in the same way (KIP-405).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from harness.faults.steps.step import Fault, Injection, PartitionExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.storage_orders import Deed, deeds, done_by, foresee_orders, ordered
from harness.model.errors import HarnessTimeout
from harness.model.waiting import wait_for

FIRST_LOOK_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class TierHold(Fault):
    """Holds each copy or deletion (`op`) of a partition in the remote tier, `at` its "before" or "after"."""

    do: ClassVar[str] = "tier_hold"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.write"})
    op: Literal["copy", "delete"] = "copy"
    at: Literal["before", "after"]
    of: PartitionExpr

    def victims(self) -> str:
        """The broker that stands still: who leads the partition."""
        return f"leader({self.of})"

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_orders(plan, self.do, self.of)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        with ordered(stage, self.at, (self.op,), self.of) as order:

            def held() -> list[Deed]:
                return [deed for deed in deeds(stage, order) if deed.did == "held"]

            with suppress(HarnessTimeout):  # the bite says so
                wait_for(
                    held,
                    until=bool,
                    deadline_s=FIRST_LOOK_S,
                    what=f"a {self.op} of {self.of} in the remote tier",
                )
            now = held()
            yield Injection(
                resolved={"op": self.op, "at": self.at, "segments": [deed.segment_id for deed in now]},
                probe=done_by(stage, order, {"held": f"held {self.at}"}),
                nodes=tuple(sorted({deed.broker for deed in now})),
            )
