"""Gaps in a log: offsets in the middle of a log that its leader reports as out of range.

A log that is partly in the remote tier (KIP-405) has a gap when no metadata refers to the copy of a segment any more. A
reader that only retries at its position stays before the gap forever, although the records after it can be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from harness.model.place import Place

# A position that is out of range for this long, in a cluster that has recovered, is at a gap.
GAP_AFTER_S: Final = 10.0


class GapDetector:
    """Decides when a position is at a gap, and where the log continues after it.

    `starts`: by partition, in order, the offsets at which a part of the log starts: a segment copied to the remote
    tier, or a replica's own log. A log continues after a gap at one of these. `after_s`: how long a gap must last.
    """

    def __init__(
        self,
        starts: Mapping[Place, Sequence[int]],
        after_s: float = GAP_AFTER_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._starts = starts
        self._after_s = after_s
        self._clock_s = clock_s
        self._seen: dict[Place, tuple[int, float, int]] = {}  # the position, since when, the start tried last

    def is_start(self, place: Place, offset: int) -> bool:
        """Whether a part of the log starts at this offset."""
        return offset in self._starts.get(place, ())

    def next_start(self, place: Place, position: int) -> int | None:
        """The next offset to try, for a position that is out of range once more.

        None while the error may be temporary, and if there is no start left to try.
        """
        at, since_s, tried = self._seen.get(place, (-2, 0.0, -2))
        if at != position:
            at, since_s, tried = position, self._clock_s(), position
        after = [start for start in self._starts.get(place, ()) if start > tried]
        start = after[0] if after and self._clock_s() - since_s >= self._after_s else None
        self._seen[place] = at, since_s, tried if start is None else start
        return start
