"""The time that a run still spends on waits after the first wait that ended in vain."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

TOTAL_S: Final = 120.0


class WaitBudget:
    """One per run. A cluster that is broken for good would otherwise cost the full time of every wait and read.

    It begins with the first wait that ended in vain, and all waits share it that come later and that no finding rests
    on. A wait whose end is a finding always has its whole time. Any thread may use it.
    """

    def __init__(self, total_s: float = TOTAL_S, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._total_s, self._clock_s = total_s, clock_s
        self._lock = threading.Lock()
        self._ends_at: float | None = None
        self.cause = ""  # the wait that ended in vain

    def begin(self, cause: str) -> None:
        """A wait ended in vain. Only the first one begins the budget."""
        with self._lock:
            if self._ends_at is None:
                self._ends_at, self.cause = self._clock_s() + self._total_s, cause

    @property
    def spent(self) -> bool:
        """Whether it has begun, and nothing is left."""
        return self._ends_at is not None and self._clock_s() >= self._ends_at

    def left_s(self, asked_s: float, least_s: float) -> float:
        """How long a wait may take that wants `asked_s`: what is left, but `least_s` in any case."""
        if self._ends_at is None:
            return asked_s
        return min(asked_s, max(least_s, self._ends_at - self._clock_s()))

    def __repr__(self) -> str:
        return f"WaitBudget({self.cause!r})"
