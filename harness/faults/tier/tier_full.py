"""A remote tier without free space: segments that do not fit stay on the brokers, and deletions free space."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Fault, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.common import require_tier_folder, store_of
from harness.faults.tier.storage_orders import done_by, ordered, require_tier_faults
from harness.kafka.storage.local_tier import ROOT
from harness.model.facts import FactKind
from harness.model.scenario.scenario import MANY, Range


@dataclass(frozen=True, kw_only=True)
class TierFull(Fault):
    """kept, for negative controls: a copy that does not fit reports success."""

    do: ClassVar[str] = "tier_full"
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_UNAVAILABLE),)
    summary: ClassVar[str] = (
        "Leaves the remote tier only `spare_kb` of free space: a copy stores what still fits, and fails."
    )
    proof: ClassVar[str] = "the storage of a broker had no space for a whole copy"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read", "disk.write"})
    spare_kb: Annotated[int, Range(0, MANY)] = 0
    kept: bool = False

    def validate(self, plan: StepValidation) -> None:
        require_tier_folder(plan, self.do)
        require_tier_faults(plan, self.do, "")

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        limit_bytes = _size_bytes(store_of(context) / ROOT) + self.spare_kb * 1024
        what = "full_kept" if self.kept else "full"
        with ordered(context, what, ["copy"], "", folder=ROOT, limit_bytes=limit_bytes) as order:
            probe = done_by(context, order, {"full": "stopped where the tier was full"})
            yield Injection(resolved={"limit_bytes": limit_bytes}, probe=probe)


def _size_bytes(folder: Path) -> int:
    """The size of all files below a folder; brokers create and delete files at the same time."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(parent) / name).stat().st_size
    return total
