"""Progress of a scenario while its load is on: phase, acknowledged records, their rate, and active faults."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from harness.model.documents.steps import Step

Say = Callable[[str], None]
EVERY_S: Final = 1.0
_RATE_S: Final = 5.0  # the rate is that of so many seconds


class LiveFigures:
    """Called with a phase, it says the phase with the figures, and again each second while it is open.

    acked: how many records are acknowledged so far. steps: the steps as far as they are known. wanted: how many records
    the scenario is to have at least.
    """

    def __init__(self, say: Say, acked: Callable[[], int], steps: Callable[[], Sequence[Step]], wanted: int) -> None:
        self._say = say
        self._acked = acked
        self._steps = steps
        self._wanted = wanted
        self._phase = "load"
        self._seen: deque[tuple[float, int]] = deque()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="live-figures", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def __call__(self, phase: str) -> None:
        self._phase = phase
        self._say(self.text())

    def text(self) -> str:
        """The line, such as "hold: 12,000 of 20,000 records acknowledged, 2,000/s, about 4 s left; active: kill"."""
        now_s, acked = time.monotonic(), self._acked()
        self._seen.append((now_s, acked))
        while len(self._seen) > 2 and now_s - self._seen[0][0] > _RATE_S:
            self._seen.popleft()
        (began_s, before), span_s = self._seen[0], now_s - self._seen[0][0]
        rate = (acked - before) / span_s if span_s > 0 and began_s < now_s else 0.0
        left = (self._wanted - acked) / rate if rate > 0 and acked < self._wanted else 0.0
        parts = [f"{acked:,} of {self._wanted:,} records acknowledged" if left else f"{acked:,} records acknowledged"]
        parts += [f"{rate:,.0f}/s"] if rate else []
        parts += [f"about {left:,.0f} s of load left"] if left >= 1 else []
        active = active_faults(self._steps())
        return f"{self._phase}: {', '.join(parts)}" + (f"; active: {', '.join(active)}" if active else "")

    def _repeat(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._say(self.text())


def active_faults(steps: Sequence[Step]) -> list[str]:
    """Names of the faults that have begun and are not healed."""
    return [one.name for one in steps if one.is_fault and one.started_ns is not None and one.healed_ns is None]
