"""Epoch nanoseconds that never go back: one wall-clock anchor plus the monotonic clock."""

from __future__ import annotations

import time
from typing import Final

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
ANCHOR_NS: Final = time.time_ns()
_MONOTONIC_AT_ANCHOR_NS: Final = time.monotonic_ns()
# Brokers and clients run on one machine, but this clock is monotonic: allowed difference between their clocks.
CLOCKS_MS: Final = 500


def now_ns() -> int:
    """Epoch nanoseconds. They do not change if the wall clock is set during a run."""
    return ANCHOR_NS + time.monotonic_ns() - _MONOTONIC_AT_ANCHOR_NS
