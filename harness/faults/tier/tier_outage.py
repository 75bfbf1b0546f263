"""An outage of the remote tier: brokers keep the segments that they cannot copy, and readers of old records wait."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Fault, Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.tier.common import copies_failed, require_tier_folder, store_of
from harness.kafka.storage.local_tier import ROOT
from harness.model.errors import HarnessFailure
from harness.model.facts import FactKind

_AWAY: Final = "away"
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


@dataclass(frozen=True, kw_only=True)
class TierOutage(Fault):
    """A file takes the place of the folder."""

    do: ClassVar[str] = "tier_outage"
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_UNAVAILABLE),)
    summary: ClassVar[str] = "Makes the folder of the remote tier unavailable: every copy to it and read from it fails."
    proof: ClassVar[str] = "tiered partitions had acks, and a broker's own log says that it failed to copy a segment"
    needs: ClassVar[frozenset[str]] = frozenset({"disk.write"})

    def validate(self, plan: StepValidation) -> None:
        require_tier_folder(plan, self.do)

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        store = store_of(context)
        folder, away = store / ROOT, store / _AWAY
        probe = copies_failed(context)
        away.touch()
        try:
            exchange(folder, away)
            yield Injection(resolved={"folder": ROOT}, probe=probe)
        finally:
            if away.is_dir():
                exchange(folder, away)
            away.unlink()


def exchange(one: Path, other: Path) -> None:
    """Swaps two paths atomically: a broker would create a folder again that is missing for a moment."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise HarnessFailure(f"{one} and {other} cannot be swapped: {os.strerror(number)}")
