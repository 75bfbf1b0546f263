"""Where the client of a group's member begins when the offset that was committed is no more (auto.offset.reset)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Message

from harness.model.clock import now_ns
from harness.model.scenario.scenario import Reader
from harness.workload.meters import Place


class Resets:
    """Of one member. Keeps a row whenever its client did not begin where the group had committed."""

    def __init__(self, spec: Reader) -> None:
        self._who = {"group": spec.group, "reader": spec.name}
        self._watching = bool(spec.reset)
        self._open: dict[Place, int] = {}  # committed, of partitions of which nothing came yet
        self._begun: set[Place] = set()
        self.rows: list[dict[str, Any]] = []

    def assigned(self, committed: Mapping[Place, int], *, first: bool = False) -> None:
        """It was given partitions; below 0 = the group has no offset there. first: nor ever had one."""
        if self._watching and not first:
            self._open.update(committed)
            self._begun = self._begun - committed.keys()
        elif self._watching:
            self._begun = self._begun | committed.keys()

    def known(self, places: Iterable[Place]) -> bool:
        """Whether it has begun, or stopped, on all of them."""
        return set(places) <= self._begun

    def given(self, records: Sequence[Message]) -> None:
        """The first record of a partition tells where it began."""
        if self._open:
            for record in records:
                self._begins((str(record.topic()), int(record.partition() or 0)), int(record.offset() or 0))

    def at_end(self, place: Place, offset: int) -> None:
        """It came to the end of a partition."""
        self._begins(place, offset)

    def stopped(self, place: Place) -> None:
        """Its client refused to begin anywhere."""
        self._begins(place, None)

    def _begins(self, place: Place, offset: int | None) -> None:
        committed = self._open.pop(place, None)
        if committed is None:
            return
        if offset != committed:
            self.rows.append(
                {
                    **self._who,
                    "topic": place[0],
                    "partition": place[1],
                    "committed": committed if committed >= 0 else None,
                    "began": offset,
                    "at_ns": now_ns(),
                }
            )
        self._begun = self._begun | {place}
