"""A link that comes and goes faster than anybody gives it up."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from harness.clusters.base import party
from harness.faults.base import Bite, Injection, LinksView
from harness.faults.bite import Held, Probe
from harness.faults.cut import Cut
from harness.faults.links import Link, between, parties
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
        targets = stage.nodes(self.dst)
        links = between(parties(stage, self.src), [party(node) for node in targets])
        flapping = _Flapping(stage.cluster.links, links, self)
        probe = _again_and_again(Held(self._felt(stage, targets)), flapping)
        with flapping.running():
            yield Injection(resolved={"links": [list(link) for link in links]}, probe=probe, nodes=targets)


@dataclass(slots=True)
class _Flapping:
    """The thread that cuts and mends."""

    links: LinksView
    which: Sequence[Link]
    how: Flap
    times: int = 0
    failed: HarnessError | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, name="flap", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self._mend()
        if self.failed is not None:
            raise HarnessFailure(f"the links stopped flapping after {self.times} times: {self.failed}")

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                for src, dst in self.which:
                    self.links.cut(src, dst, self.how.mode, self.how.direction)
                self._over.wait(self.how.down_s)
                self._mend()
                self.times += 1
                self._over.wait(self.how.up_s)
        except HarnessError as broken_down:
            self.failed = broken_down

    def _mend(self) -> None:
        for src, dst in self.which:
            self.links.heal(src, dst, "cut")


def _again_and_again(felt: Held, flapping: _Flapping) -> Probe:
    """What a single cut would show, of links that came back more than once."""

    def asked() -> Bite:
        bite, times = felt.ask(), flapping.times
        seen = {**bite.seen, "flaps": times}
        return Bite(bite.held and times >= FLAPS_MIN, f"{bite.because}; the links came back {times} times", seen)

    return asked
