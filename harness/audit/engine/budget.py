"""How much processor time the auditor may use: looks wait until their time is earned, and none is skipped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_SAVED_S: Final = 1.0  # so much of what was not used is kept


class Allowance:
    """Something that may be used at a rate. A large use is known only afterwards, and is paid for by waiting.

    used: the total so far.
    """

    def __init__(self, used: Callable[[], float], now_s: Callable[[], float]) -> None:
        self._used, self._now_s = used, now_s
        self._at_s, self._before = now_s(), used()
        self._left = 0.0

    def allows(self, rate: float | None) -> bool:
        """Whether more may be used now. rate: for each second; None = there is no limit, and nothing is owed later."""
        now_s, used = self._now_s(), self._used()
        if rate is None:
            self._left = 0.0
        else:
            earned = (now_s - self._at_s) * rate
            self._left = min(_SAVED_S * rate, self._left + earned - (used - self._before))
        self._at_s, self._before = now_s, used
        return self._left >= 0


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
        self._time = Allowance(used_s, now_s)

    def allows(self) -> bool:
        """Whether a look may begin now."""
        return self._time.allows(self.share)
