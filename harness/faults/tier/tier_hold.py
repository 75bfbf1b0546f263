"""An operation of the remote tier that waits at its begin or its end, so that a crash can happen exactly there.

Before a copy, the metadata say that it has begun, and there is no object; after it, the object is complete, and the
metadata do not say so yet. A deletion is the same (KIP-405).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Fault, Injection, PartitionExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.storage_orders import StorageAct, acts_of, done_by, ordered, require_tier_faults
from harness.model.errors import HarnessTimeout
from harness.model.facts import FactKind
from harness.model.waiting import wait_for

FIRST_LOOK_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class TierHold(Fault):
    """The step waits until an operation is held."""

    do: ClassVar[str] = "tier_hold"
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_UNAVAILABLE),)
    summary: ClassVar[str] = (
        'Holds each copy or deletion (`op`) of a partition in the remote tier "before" or "after" it (`at`).'
    )
    proof: ClassVar[str] = "the storage of a broker waits at that point"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.write"})
    op: Literal["copy", "delete"] = "copy"
    at: Literal["before", "after"]
    of: PartitionExpr

    def victims(self) -> str:
        """The leader of the partition. Its storage waits."""
        return f"leader({self.of})"

    def validate(self, plan: StepValidation) -> None:
        require_tier_faults(plan, self.do, self.of)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        with ordered(context, self.at, (self.op,), self.of) as order:

            def held() -> list[StorageAct]:
                return [act for act in acts_of(context, order) if act.did == "held"]

            with suppress(HarnessTimeout):  # the effect proof reports it
                wait_for(
                    held,
                    until=bool,
                    deadline_s=FIRST_LOOK_S,
                    what=f"a {self.op} of {self.of} in the remote tier",
                )
            now = held()
            yield Injection(
                resolved={"op": self.op, "at": self.at, "segments": [act.segment_id for act in now]},
                probe=done_by(context, order, {"held": f"held {self.at}"}),
                nodes=tuple(sorted({act.broker for act in now})),
            )
