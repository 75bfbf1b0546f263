"""Breaks and heals something in turn until the fault is healed, faster than a timeout of any client or broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from harness.faults.steps.effect import Probe, StickyProbe
from harness.faults.steps.step import EffectProof
from harness.model.errors import HarnessError, HarnessFailure

TIMES_MIN: Final = 2


@dataclass(slots=True)
class Repeat:
    """A thread that enters the context manager of `doing` for `on_s` seconds and leaves it for `off_s`, in turn.

    `what` says what happens each time; messages put "N times" behind it.
    """

    doing: Callable[[], AbstractContextManager[None]]
    what: str
    on_s: float = 0.0
    off_s: float = 0.0
    times: int = 0
    failed: HarnessError | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs the thread inside; raises HarnessFailure on leaving when the thread had stopped before."""
        thread = threading.Thread(target=self._run, name="repeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        if self.failed is not None:
            raise HarnessFailure(f"{self.what} {self.times} times and then stopped: {self.failed}")

    def proof(self, probe: Probe, counted: str) -> Probe:
        """Proof: `probe` held once, and the thread did its work at least twice. `counted`: the key of that count."""
        once = StickyProbe(probe)

        def repeated() -> EffectProof:
            effect, times = once.ask(), self.times
            because = f"{effect.because}; {self.what} {times} times"
            return EffectProof(effect.held and times >= TIMES_MIN, because, {**effect.seen, counted: times})

        return repeated

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                with self.doing():
                    self._over.wait(self.on_s)
                self.times += 1
                self._over.wait(self.off_s)
        except HarnessError as error:
            self.failed = error
