"""The last seconds of live readers: until each was given what is acknowledged, or none gets on any more."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from itertools import groupby
from typing import Final, Protocol

from harness.model.scenario.scenario import Reader
from harness.workload.consumers.consumer_group import left
from harness.workload.meters import Place

_CATCH_UP_S: Final = 10.0
# A transaction holds back what a read_committed reader is given at its end, after a while without anything.
_QUIET_S: Final = 2.0
_LOOK_S: Final = 0.1


class Reading(Protocol):
    """A reader by itself, or a member of a group."""

    @property
    def spec(self) -> Reader: ...
    @property
    def positions(self) -> Mapping[Place, int]: ...


def let_catch_up(readers: Collection[Reading], acked: Mapping[Place, int]) -> None:
    """Until nobody is behind the highest acknowledged offsets, until those who are get on no more, or for some seconds:
    what they miss, the drain reads anyway. Who is away, or has stopped, is waited for no longer than that."""
    began_s = moved_s = time.monotonic()
    then = late = _late(readers, acked)
    while late and (now_s := time.monotonic()) - moved_s < _QUIET_S and now_s - began_s < _CATCH_UP_S:
        time.sleep(_LOOK_S)  # between two looks at the same counters
        then, late = late, _late(readers, acked)
        moved_s = time.monotonic() if late != then else moved_s


def _late(readers: Collection[Reading], acked: Mapping[Place, int]) -> list[dict[str, int]]:
    """What each reader by itself, or each group together, was not given yet; of those who are behind."""
    by_group = sorted(readers, key=_whose)
    together = [[(r.spec.topics, r.positions) for r in members] for _, members in groupby(by_group, _whose)]
    return [missing for reading in together if (missing := left(reading, acked))]


def _whose(reader: Reading) -> tuple[bool, str]:
    return reader.spec.group is None, reader.spec.group or reader.spec.name
