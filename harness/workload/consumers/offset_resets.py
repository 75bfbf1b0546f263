"""Records where a member's client starts if it does not start at the committed offset (auto.offset.reset)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Message

from harness.model.clock import now_ns
from harness.model.documents.cluster import GroupReset
from harness.model.place import Place
from harness.model.scenario.scenario import Reader


class Resets:
    """The resets of one member: a row for each start that is not at the group's committed offset."""

    def __init__(self, spec: Reader) -> None:
        self._spec = spec
        self._watching = bool(spec.reset)
        self._open: dict[Place, int] = {}  # the committed offsets of partitions without a first record yet
        self._begun: set[Place] = set()
        self.rows: list[GroupReset] = []

    def assigned(self, committed: Mapping[Place, int], *, first: bool = False) -> None:
        """Partitions were assigned; `committed` below 0 = the group has no offset. `first`: it never committed any."""
        if self._watching and not first:
            self._open.update(committed)
            self._begun = self._begun - committed.keys()
        elif self._watching:
            self._begun = self._begun | committed.keys()

    def known(self, places: Iterable[Place]) -> bool:
        """Whether it has started, or stopped, on all of these partitions."""
        return set(places) <= self._begun

    def given(self, records: Sequence[Message]) -> None:
        """Takes the records of a poll: the first one of a partition shows where the client started."""
        if self._open:
            for record in records:
                self._begins((str(record.topic()), int(record.partition() or 0)), int(record.offset() or 0))

    def at_end(self, place: Place, offset: int) -> None:
        """The client reached the end of a partition, at this offset."""
        self._begins(place, offset)

    def stopped(self, place: Place) -> None:
        """The client did not start at all (auto.offset.reset=error)."""
        self._begins(place, None)

    def _begins(self, place: Place, offset: int | None) -> None:
        committed = self._open.pop(place, None)
        if committed is None:
            return
        if offset != committed:
            self.rows.append(
                GroupReset(
                    group=self._spec.group or "",
                    reader=self._spec.name,
                    topic=place[0],
                    partition=place[1],
                    committed=committed if committed >= 0 else None,
                    began=offset,
                    at_ns=now_ns(),
                )
            )
        self._begun = self._begun | {place}
