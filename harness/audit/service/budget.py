"""Keeps the budget of processor time, memory and network: looks wait until it allows them, and none is skipped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from harness.audit.engine.budget import Allowance, CpuBudget
from harness.audit.service.budget_option import BudgetOption
from harness.audit.service.vitals import memory_bytes

_MEASURED_EVERY_S: Final = 1.0
_SLOW_S: Final = 5.0  # between two orders of looks while the memory is over its budget


class Budget(CpuBudget):
    """The three limits together. read_bytes: what the looks have read from brokers so far."""

    def __init__(
        self,
        option: BudgetOption,
        read_bytes: Callable[[], int] = lambda: 0,
        *,
        now_s: Callable[[], float] = time.monotonic,
        used_s: Callable[[], float] = time.process_time,
        memory: Callable[[], int] = memory_bytes,
    ) -> None:
        super().__init__(option.cpu, now_s=now_s, used_s=used_s)
        self.option = option
        self._clock_s, self._memory = now_s, memory
        self._network = Allowance(read_bytes, now_s)
        self._measured_s = self._slow_since_s = -_SLOW_S
        self.memory_bytes = memory()

    def change(self, option: BudgetOption) -> None:
        """Another budget from now on."""
        self.option, self.share = option, option.cpu

    @property
    def over_memory(self) -> bool:
        """Whether the memory is over its budget, as measured at most a second ago."""
        now_s = self._clock_s()
        if now_s - self._measured_s >= _MEASURED_EVERY_S:
            self._measured_s, self.memory_bytes = now_s, self._memory()
        return self.memory_bytes > self.option.memory_bytes

    def allows(self) -> bool:
        if not (super().allows() and self._network.allows(self.option.bytes_s)):
            return False
        if not self.over_memory:
            return True
        now_s = self._clock_s()
        if now_s - self._slow_since_s < _SLOW_S:
            return False
        self._slow_since_s = now_s
        return True
