"""How much processor time the auditor may use: looks wait until their time is earned, and none is skipped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_SAVED_S: Final = 1.0  # processor time that an idle auditor may save up


class CpuBudget:
    """A share of one processor: 0.05 = 50 ms in each second. The share may be changed at any time."""

    def __init__(
        self,
        share: float = 1.0,
        *,
        now_s: Callable[[], float] = time.monotonic,
        used_s: Callable[[], float] = time.process_time,
    ) -> None:
        self.share = share
        self._now_s, self._used_s = now_s, used_s
        self._at_s, self._spent_s = now_s(), used_s()
        self._left_s = 0.0

    def allows(self) -> bool:
        """Whether a look may begin now."""
        now_s, spent_s = self._now_s(), self._used_s()
        earned_s = (now_s - self._at_s) * self.share
        self._left_s = min(_SAVED_S * self.share, self._left_s + earned_s - (spent_s - self._spent_s))
        self._at_s, self._spent_s = now_s, spent_s
        return self._left_s >= 0
