"""The remote tier has no room left: what does not fit stays at the brokers, and deletions make room again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from harness.faults.steps.step import Fault, Injection
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.common import foresee_folder, store_of
from harness.faults.tier.storage_orders import done_by, foresee_orders, ordered
from harness.kafka.storage.local_tier import ROOT
from harness.model.scenario.scenario import MANY, Range


@dataclass(frozen=True, kw_only=True)
class TierFull(Fault):
    """Leaves the remote tier `spare_kb` of room: a copy stores what still fits, and fails, until healed.

    `kept` is for negative controls: it says that it stored all.
    """

    do: ClassVar[str] = "tier_full"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.read", "disk.write"})
    spare_kb: Annotated[int, Range(0, MANY)] = 0
    kept: bool = False

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_folder(plan, self.do)
        foresee_orders(plan, self.do, "")

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        limit_bytes = _size_bytes(store_of(stage) / ROOT) + self.spare_kb * 1024
        what = "full_kept" if self.kept else "full"
        with ordered(stage, what, ["copy"], "", folder=ROOT, limit_bytes=limit_bytes) as order:
            probe = done_by(stage, order, {"full": "stopped where the tier was full"})
            yield Injection(resolved={"limit_bytes": limit_bytes}, probe=probe)


def _size_bytes(folder: Path) -> int:
    """Of all that is there; brokers delete and arrive meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(parent) / name).stat().st_size
    return total
