"""How long items have been behind without any progress, by looks at them."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

# Brokers try again within a few seconds: an item without progress for this share of a wait has stalled.
STALLED_SHARE: Final = 0.75

_Key = TypeVar("_Key", bound=Hashable)
_Seen = TypeVar("_Seen")


class Stalled(NamedTuple, Generic[_Key, _Seen]):
    """An item that has stalled, as it was seen last, and for how long."""

    of: _Key
    seen: _Seen
    still_s: float


class Stalls(Generic[_Key, _Seen]):
    """The items that are behind, by key. A value that is not equal to the last one shows progress."""

    def __init__(self) -> None:
        self._since_s: dict[_Key, float] = {}
        self._last: dict[_Key, _Seen] = {}

    def look(self, behind: Mapping[_Key, _Seen]) -> None:
        """Takes one look. An item that is not behind in it, or made progress, begins again."""
        now_s = time.monotonic()
        for key, seen in behind.items():
            if self._last.get(key) != seen:
                self._since_s[key] = now_s
        self._last = dict(behind)

    def stalled(self, waited_s: float) -> Iterator[Stalled[_Key, _Seen]]:
        """The items that have been behind for most of a wait of this length."""
        now_s = time.monotonic()
        for key, seen in self._last.items():
            still_s = now_s - self._since_s[key]
            if still_s >= STALLED_SHARE * waited_s:
                yield Stalled(key, seen, round(still_s, 1))
