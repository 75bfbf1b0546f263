"""The segments of a log at one place, the disk of a broker or the remote tier, and which of them were due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness.model.clock import CLOCKS_MS
from harness.verify.checks.not_deleted.due import Limits
from harness.verify.engine.case import NO_BROKER, Place
from harness.verify.engine.tables import UNBOUNDED


class Segment(NamedTuple):
    """broker: NO_BROKER in the remote tier. old_bytes: of what was there before the quiet time."""

    place: Place
    broker: int
    base: int
    last: int
    max_ms: int
    old_bytes: int

    @property
    def held_by(self) -> str:
        return "the remote tier" if self.broker == NO_BROKER else f"broker {self.broker}"


def overdue(of_one: Sequence[Segment], limits: Limits, *, deleted: int, until: int = UNBOUNDED) -> Iterator[Segment]:
    """The oldest segments of a log up to the first one that may stay. The newest segment on a disk always may.

    deleted: everything below this offset was deleted by DeleteRecords. until: nothing from this offset on is due.
    """
    rest = sum(segment.old_bytes for segment in of_one)
    for segment in of_one:
        rest -= segment.old_bytes
        newest = segment is of_one[-1] and segment.broker != NO_BROKER
        aged = limits.keep_ms is not None and 0 <= segment.max_ms < limits.by_ms - limits.keep_ms - CLOCKS_MS
        large = limits.keep_bytes is not None and rest >= limits.keep_bytes
        if newest or segment.last >= until or not (aged or large or segment.last < deleted):
            return
        yield segment
