"""The common part of all processors (read-process-write applications): orders to die, lag, and the wait for the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from harness.model.place import Place
from harness.model.scenario.scenario import Moment, Processing

_TICK_S: Final = 0.05
_ALL_S: Final = 60.0  # a transaction may have to time out, and a member's session as well


@dataclass(slots=True)
class ProcessorDeath:
    """A crash that a step has ordered, at a moment `at` of the work on at least `records` records.

    `held`: how many records it worked on when it died. `between`: by partition the offsets [from, to) that it had read
    and not finished then; None while it lives. `unlogged`: how many of its output records had no ack at its death.
    `zombie`: its client continues after another one has taken over; `fenced`: the error that the zombie got then, "" if
    it could commit. The step sets `called_off` to cancel it.
    """

    at: Moment
    records: int
    zombie: bool = False
    held: int = 0
    unlogged: int = 0
    between: dict[Place, tuple[int, int]] | None = None
    fenced: str | None = None
    called_off: bool = False


class Processor(Protocol):
    """The part of a processor that the load uses."""

    name: str
    failure: str | None
    plan: Processing

    @property
    def state(self) -> str:
        """Its current state, for messages."""
        ...

    def die(self, death: ProcessorDeath) -> ProcessorDeath:
        """Orders its death."""
        ...

    def lag(self, acked: Mapping[Place, int]) -> dict[str, int]:
        """How many offsets up to `acked` it has not finished, by "topic/partition"; only partitions with lag."""
        ...


def processor_lag(plan: Processing, done: Mapping[Place, int], acked: Mapping[Place, int]) -> dict[str, int]:
    """The lag of a processor that has finished the offsets below `done`; see `Processor.lag`."""
    ends = {place: done.get(place, 0) for place in acked if place[0] in plan.reads}
    return {f"{t}/{p}": acked[t, p] + 1 - end for (t, p), end in ends.items() if end <= acked[t, p]}


def application_lag(instances: Sequence[Processor], acked: Mapping[Place, int]) -> dict[str, int]:
    """The lag of an application, whose instances share its input: that of the one which got furthest, by partition."""
    lags = [one.lag(acked) for one in instances]
    return {place: min(lag[place] for lag in lags) for place in lags[0] if all(place in lag for lag in lags)}


def process_all(processors: Sequence[Processor], acked: Mapping[Place, int]) -> list[str]:
    """Waits up to 60 s until the applications have finished everything up to these offsets.

    Returns a sentence on each that has not, with the last state of its instances.
    """
    give_up_at_s = time.monotonic() + _ALL_S
    applications = [[p for p in processors if p.plan == plan] for plan in dict.fromkeys(p.plan for p in processors)]

    def unfinished() -> list[list[Processor]]:
        return [instances for instances in applications if application_lag(instances, acked)]

    while any(one.failure is None for of in unfinished() for one in of) and time.monotonic() < give_up_at_s:
        time.sleep(_TICK_S)  # between two looks at the progress of other threads
    return [
        f"processor {' and '.join(one.name for one in instances)} did not finish its input within {_ALL_S:g} s: "
        f"offsets left: {application_lag(instances, acked)}; {'; '.join(one.state for one in instances)}"
        for instances in unfinished()
    ]
