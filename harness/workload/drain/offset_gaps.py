"""Holes in a log: offsets between others that are there, of which whoever leads says that they are out of range.

A log that lies in the remote tier in part (KIP-405) has one where nobody tells of a copy any more. Who only reads on
from his position stays before it for good; what lies behind it is there, and is to be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from harness.workload.meters import Place

# So long, in a cluster that is whole again, a position is out of range before it is taken for a hole.
HOLE_S: Final = 10.0


class Holes:
    """joints: offsets by place, in their order, at which something of a log begins: copied segments, and what replicas
    have themselves. Behind a hole, which lasts for `lasts_s`, the log goes on at one of them."""

    def __init__(
        self,
        joints: Mapping[Place, Sequence[int]],
        lasts_s: float = HOLE_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._joints = joints
        self._lasts_s = lasts_s
        self._clock_s = clock_s
        self._stands: dict[Place, tuple[int, float, int]] = {}  # the position, since when, the joint tried last

    def begins(self, place: Place, offset: int) -> bool:
        """Whether something of the log begins there."""
        return offset in self._joints.get(place, ())

    def behind(self, place: Place, position: int) -> int | None:
        """The next joint to try, of a position that is out of range once more; None while that may pass, or where none
        is left."""
        at, since_s, tried = self._stands.get(place, (-2, 0.0, -2))
        if at != position:
            at, since_s, tried = position, self._clock_s(), position
        after = [joint for joint in self._joints.get(place, ()) if joint > tried]
        joint = after[0] if after and self._clock_s() - since_s >= self._lasts_s else None
        self._stands[place] = at, since_s, tried if joint is None else joint
        return joint
