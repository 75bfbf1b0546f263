"""The remote tier is away: brokers keep what they cannot copy, and readers of old records wait."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from harness.faults.steps.step import Fault, Injection
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.common import copies_failed, foresee_folder, store_of
from harness.kafka.storage.local_tier import ROOT
from harness.model.errors import HarnessFailure

_AWAY: Final = "away"
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


@dataclass(frozen=True, kw_only=True)
class TierOutage(Fault):
    """Puts a file in the place of the remote tier's folder: no copy to it and no read from it succeeds until healed."""

    do: ClassVar[str] = "tier_outage"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.write"})

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        foresee_folder(plan, self.do)

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        store = store_of(stage)
        folder, away = store / ROOT, store / _AWAY
        probe = copies_failed(stage)
        away.touch()
        try:
            exchange(folder, away)
            yield Injection(resolved={"folder": ROOT}, probe=probe)
        finally:
            if away.is_dir():
                exchange(folder, away)
            away.unlink()


def exchange(one: Path, other: Path) -> None:
    """Each takes the other's place at one instant: a folder that is missing for a moment would be made anew."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise HarnessFailure(f"{one} and {other} cannot change places: {os.strerror(number)}")
