"""Counts of a run in shorter intervals than those of its page, for a reader who zooms in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from harness.model.outcome import Outcome
from reports.review.operations import OUTCOMES, Operations
from reports.review.rates import Buckets, Numbers, Rates

FINER: Final = 8  # intervals of a level in one of the level before
ROWS_OF_PAGE: Final = 800_000  # up to so many operations, a page can load all of those in a quarter of the run
LEVEL_BUCKETS: Final = 4_800  # intervals in a file
_LEVELS_MAX: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Counts in intervals of `width_s`. Its files are NAME-0.js and so on."""

    name: str
    width_s: float
    buckets: int


@dataclass(slots=True)
class _Counts:
    """The counts of a level. Latencies are nanoseconds; -1 = the interval has no ack."""

    buckets: Buckets
    outcomes: Numbers = field(init=False)
    reads: Numbers = field(init=False)
    p50_ns: Numbers = field(init=False)
    p99_ns: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.outcomes = np.zeros((len(OUTCOMES), self.buckets.count), np.int64)
        self.reads = np.zeros(self.buckets.count, np.int64)
        self.p50_ns, self.p99_ns = (np.full(self.buckets.count, -1, np.int64) for _ in range(2))

    def add(self, found: Operations) -> None:
        """All operations of the intervals that it has operations of."""
        if found.sends:
            returned, outcome = found.sends["returned_ns"], found.sends["outcome"]
            for number in range(len(OUTCOMES)):
                self.outcomes[number] += self.buckets.counted(returned[outcome == number])
            acked = outcome == OUTCOMES.index(Outcome.ACKED)
            self._measure(self.buckets.of(returned[acked]), np.maximum(0, returned - found.sends["called_ns"])[acked])
        if found.reads:
            self.reads += self.buckets.counted(found.reads["given_ns"])

    def _measure(self, bucket: Numbers, took_ns: Numbers) -> None:
        """The percentiles by nearest rank."""
        if not len(bucket):
            return
        span = int(took_ns.max()) + 1
        ordered = np.sort(bucket * span + took_ns)  # by interval, and then by latency
        there, first, count = np.unique(ordered // span, return_index=True, return_counts=True)
        for figures, share in ((self.p50_ns, 0.5), (self.p99_ns, 0.99)):
            rank = np.maximum(1, np.ceil(count * share)).astype(np.int64)
            figures[there] = ordered[first + rank - 1] % span

    def part(self, first: int) -> Rates:
        """The counts of a file."""
        of = slice(first, first + LEVEL_BUCKETS)
        acked, refused, unknown = (self.outcomes[OUTCOMES.index(one)][of].tolist() for one in _SHOWN)
        return Rates(
            acked=acked,
            refused=refused,
            unknown=unknown,
            reads=self.reads[of].tolist(),
            p50_ms=_milliseconds(self.p50_ns[of]),
            p99_ms=_milliseconds(self.p99_ns[of]),
        )


_SHOWN: Final = (Outcome.ACKED, Outcome.REFUSED, Outcome.UNKNOWN)


class Levels:
    """The levels that a run needs. slots: intervals of which each is whole in every level."""

    def __init__(self, buckets: Buckets, rows: int) -> None:
        """buckets: of the timeline. rows: the operations of the run."""
        number = 0
        while number < _LEVELS_MAX and rows > ROWS_OF_PAGE * FINER**number:
            number += 1
        whole_ns = buckets.width_ns * buckets.count
        finest_ns = max(1, buckets.width_ns // FINER**_LEVELS_MAX)
        widths = [finest_ns * FINER ** (_LEVELS_MAX - 1 - level) for level in range(number or 1)]
        each = [Buckets(start_ns=buckets.start_ns, width_ns=width, count=-(-whole_ns // width)) for width in widths]
        self.slots = each[0]
        self._counts = [_Counts(one) for one in each[:number]]

    @property
    def made(self) -> Sequence[Level]:
        """The levels, the coarsest first."""
        return [
            Level(name=f"level-{number}", width_s=of.buckets.width_ns / 1e9, buckets=of.buckets.count)
            for number, of in enumerate(self._counts, 1)
        ]

    def add(self, found: Operations) -> None:
        """All operations of some slots."""
        for of in self._counts:
            of.add(found)

    def documents(self) -> Iterator[tuple[str, Rates]]:
        """The files by their names."""
        for level, of in zip(self.made, self._counts, strict=True):
            for part, first in enumerate(range(0, of.buckets.count, LEVEL_BUCKETS)):
                yield f"{level.name}-{part}", of.part(first)


def _milliseconds(figures_ns: Numbers) -> list[float | None]:
    return [None if one < 0 else one / 1e6 for one in figures_ns.tolist()]
