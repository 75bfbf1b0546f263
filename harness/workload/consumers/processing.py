"""What applications that read and write have in common, whatever they are made of."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from harness.model.scenario.scenario import Moment, Processing
from harness.workload.meters import Place

_TICK_S: Final = 0.05
_ALL_S: Final = 60.0  # a transaction may have to time out, and the session of a member


@dataclass(slots=True)
class ProcessorDeath:
    """Ordered by a step. between: of each partition the offsets [from, to) that it was given and was not done with when
    it died; None while it lives. unlogged: how many records of what it had made then no log had acknowledged. zombie:
    its client lives on, and goes on where it was when another one has taken over. fenced: what it was told then, "" for
    that it could commit."""

    at: Moment
    records: int
    zombie: bool = False
    held: int = 0
    unlogged: int = 0
    between: dict[Place, tuple[int, int]] | None = None
    fenced: str | None = None
    called_off: bool = False


class Processor(Protocol):
    """As the load sees it."""

    name: str
    failure: str | None
    plan: Processing

    @property
    def state(self) -> str:
        """What it does just now, for who waits for it."""
        ...

    def die(self, death: ProcessorDeath) -> ProcessorDeath:
        """Orders its death."""
        ...

    def behind(self, acked: Mapping[Place, int]) -> dict[str, int]:
        """How many offsets up to the highest acknowledged ones it is not done with, by partition; those only."""
        ...


def not_done(plan: Processing, done: Mapping[Place, int], acked: Mapping[Place, int]) -> dict[str, int]:
    """How many offsets of what it reads it is not done with, by partition; those only. done: the next one of each."""
    far = {place: done.get(place, 0) for place in acked if place[0] in plan.reads}
    return {f"{t}/{p}": acked[t, p] + 1 - end for (t, p), end in far.items() if end <= acked[t, p]}


def process_all(processors: Sequence[Processor], acked: Mapping[Place, int]) -> list[str]:
    """Waits until they are done with everything up to these offsets, or for some seconds; a sentence on each that is
    not, with what was last seen of it."""
    give_up_at_s = time.monotonic() + _ALL_S
    while any(p.failure is None and p.behind(acked) for p in processors) and time.monotonic() < give_up_at_s:
        time.sleep(_TICK_S)  # between two looks at what other threads have done
    return [
        f"{p.name} did not get to the end of what it reads: {p.behind(acked)} offsets are left; {p.state}"
        for p in processors
        if p.behind(acked)
    ]
