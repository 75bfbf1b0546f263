"""Token buckets: a number of records a second, without catching up after a stall."""

from __future__ import annotations

import threading
import time


class Pace:
    """Allows `rate_per_s` records a second; None = no limit. After a pause, `burst_s` seconds' worth is due at most."""

    def __init__(self, rate_per_s: float | None, burst_s: float = 0.25) -> None:
        self._rate_per_s = rate_per_s
        self._most = 0.0 if rate_per_s is None else max(1.0, rate_per_s * burst_s)
        self._owed = 0.0
        self._then_s = time.monotonic()

    def due(self, most: int) -> int:
        """How many records may be sent now, at most `most`."""
        if self._rate_per_s is None:
            return most
        now_s = time.monotonic()
        self._owed = min(self._most, self._owed + (now_s - self._then_s) * self._rate_per_s)
        self._then_s = now_s
        return min(most, int(self._owed))

    def spent(self, records: int) -> None:
        """Subtracts the records that were really sent."""
        if self._rate_per_s is not None:
            self._owed -= records


class Cap:
    """The most records a second that all producers of a load together may send. Thread-safe."""

    def __init__(self, rate_per_s: int) -> None:
        self._lock = threading.Lock()
        self._pace = Pace(rate_per_s, burst_s=0.05)

    def take(self, most: int) -> int:
        """How many records may be sent now, at most `most`; they count as sent."""
        with self._lock:
            due = self._pace.due(most)
            self._pace.spent(due)
            return due
