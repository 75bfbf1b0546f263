"""A link that comes and goes faster than anybody gives it up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from harness.clusters.base import party
from harness.faults.base import Bite, Injection
from harness.faults.bite import Held, Probe
from harness.faults.cut import Cut
from harness.faults.links import between, broken, parties
from harness.faults.stage import Stage
from harness.model.errors import HarnessError, HarnessFailure
from harness.model.scenario import Deadline

FLAPS_MIN = 2


@dataclass(frozen=True, kw_only=True)
class Flap(Cut):
    """Cuts links for down_s and mends them for up_s, again and again, until healed; otherwise as `cut`."""

    do: ClassVar[str] = "flap"
    down_s: Deadline = 1.0
    up_s: Deadline = 1.0

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        targets, cluster = stage.nodes(self.dst), stage.cluster
        links = between(parties(stage, self.src), [party(node) for node in targets])

        def cut(src: str, dst: str) -> None:
            cluster.links.cut(src, dst, self.mode, self.direction)

        flapping = Flapping(lambda: broken(cluster.links, links, cut), self.down_s, self.up_s)
        probe = again_and_again(Held(self._felt(stage, targets)), flapping)
        with flapping.running():
            yield Injection(resolved={"links": [list(link) for link in links]}, probe=probe, nodes=targets)


@dataclass(slots=True)
class Flapping:
    """The thread that breaks what `breaking` breaks for `down_s` and mends it for `up_s`, in turn."""

    breaking: Callable[[], AbstractContextManager[None]]
    down_s: float
    up_s: float
    times: int = 0
    failed: HarnessError | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        """HarnessFailure afterwards when it had stopped before."""
        thread = threading.Thread(target=self._run, name="flap", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        if self.failed is not None:
            raise HarnessFailure(f"the flapping stopped after {self.times} times: {self.failed}")

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                with self.breaking():
                    self._over.wait(self.down_s)
                self.times += 1
                self._over.wait(self.up_s)
        except HarnessError as broken_down:
            self.failed = broken_down


def again_and_again(felt: Held, flapping: Flapping) -> Probe:
    """What a single cut would show, of links that came back more than once."""

    def asked() -> Bite:
        bite, times = felt.ask(), flapping.times
        seen = {**bite.seen, "flaps": times}
        return Bite(bite.held and times >= FLAPS_MIN, f"{bite.because}; the links came back {times} times", seen)

    return asked
