"""The wait for live readers to catch up with the acknowledged offsets before they are stopped."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from itertools import groupby
from typing import Final, Protocol

from harness.model.documents.run import Settled
from harness.model.place import Place
from harness.model.scenario.scenario import Reader
from harness.model.waiting import settled
from harness.workload.consumers.consumer_group import lag

_CATCH_UP_S: Final = 10.0
# Without progress for this long, the wait ends. A read_committed reader gets nothing until an open transaction ends.
_QUIET_S: Final = 2.0
_LOOK_S: Final = 0.1
ALL_S: Final = 30.0  # a reader that is no further by then does not go on
LEAST_S: Final = 2.0  # when the run has no time left for waits


class Reading(Protocol):
    """A reader with assigned partitions, or a member of a group."""

    @property
    def spec(self) -> Reader: ...
    @property
    def positions(self) -> Mapping[Place, int]: ...


def let_catch_up(readers: Collection[Reading], acked: Mapping[Place, int]) -> None:
    """Waits until every reader has read the highest acknowledged offsets: at most 10 s, or 2 s without any progress.

    The drain reads the rest anyway. Readers that have left their group or have died also keep it waiting only that
    long.
    """
    began_s = moved_s = time.monotonic()
    before = lags = _lags(readers, acked)
    while lags and (now_s := time.monotonic()) - moved_s < _QUIET_S and now_s - began_s < _CATCH_UP_S:
        time.sleep(_LOOK_S)  # between two looks at the same counters
        before, lags = lags, _lags(readers, acked)
        moved_s = time.monotonic() if lags != before else moved_s


def read_all(readers: Collection[Reading], acked: Mapping[Place, int], deadline_s: float = ALL_S) -> Settled:
    """Waits until every reader, or its group, has read up to these offsets. They must be of records that stay, and that
    every isolation returns."""

    def pending() -> str:
        return ", ".join(f"{place}: {offsets}" for lags in _lags(readers, acked) for place, offsets in lags.items())

    what = "every live reader to have read what was acknowledged, by offsets that are left"
    return settled(pending, what=what, deadline_s=deadline_s)


def behind(readers: Collection[Reading], acked: Mapping[Place, int]) -> list[tuple[Reader, Place, int]]:
    """Single readers that have not read up to these offsets, each with the offset that it wants next."""
    return [
        (reader.spec, place, position)
        for reader in readers
        for place, position in reader.positions.items()
        if reader.spec.group is None and position <= acked.get(place, -1)
    ]


def _lags(readers: Collection[Reading], acked: Mapping[Place, int]) -> list[dict[str, int]]:
    """The lag of each single reader and each group that has one."""
    by_group = sorted(readers, key=_group_of)
    together = [[(r.spec.topics, r.positions) for r in members] for _, members in groupby(by_group, _group_of)]
    return [missing for reading in together if (missing := lag(reading, acked))]


def _group_of(reader: Reading) -> tuple[bool, str]:
    return reader.spec.group is None, reader.spec.group or reader.spec.name
