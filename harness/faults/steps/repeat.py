"""What is done and undone again and again, faster than anybody gives it up, until it is healed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from harness.faults.steps.effect import Held, Probe
from harness.faults.steps.step import EffectProof
from harness.model.errors import HarnessError, HarnessFailure

TIMES_MIN: Final = 2


@dataclass(slots=True)
class Again:
    """The thread that enters what `doing` gives for `on_s` seconds and leaves it for `off_s`, in turn.

    `what` happens each time, as a text before "N times".
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
        """HarnessFailure afterwards when it had stopped before."""
        thread = threading.Thread(target=self._run, name="again", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        if self.failed is not None:
            raise HarnessFailure(f"{self.what} {self.times} times, and then no more: {self.failed}")

    def felt(self, probe: Probe, counted: str) -> Probe:
        """What doing it once would show, of what was done more than once; `counted` names that number in `seen`."""
        once = Held(probe)

        def asked() -> EffectProof:
            effect, times = once.ask(), self.times
            reported = f"{effect.because}; {self.what} {times} times"
            return EffectProof(effect.held and times >= TIMES_MIN, reported, {**effect.seen, counted: times})

        return asked

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                with self.doing():
                    self._over.wait(self.on_s)
                self.times += 1
                self._over.wait(self.off_s)
        except HarnessError as broken_down:
            self.failed = broken_down
