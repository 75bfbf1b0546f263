"""Watches which brokers lead, where no metadata log can be read: the samples of leaders that a verdict then rests on.

A sample is later than its election, and of several elections between two samples only the last one is seen. Where that
leaves open whether a new leader was in sync, the event says so, and permits nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec import structs

from harness.kafka.admin.topics import PartitionState
from harness.model.clock import now_ns
from harness.model.documents.steps import InternalLeaderSeen, LeaderSeen, Steps
from harness.model.errors import HarnessError
from harness.model.place import Place

LOOK_S: Final = 0.1
# Between two samples a partition may lose its leader and get another one: that is one change with two epochs.
_EPOCHS_OF_ONE: Final = 2
_JOIN_S: Final = 10.0

Seen = LeaderSeen | InternalLeaderSeen


class LeaderWatch:
    """Looks at these topics while it is entered. `internal`: those of them that are Kafka's own."""

    def __init__(
        self,
        look: Callable[[Collection[str]], Sequence[PartitionState]],
        topics: Collection[str],
        internal: Collection[str],
    ) -> None:
        self._look = look
        self._topics = [*topics, *internal]
        self._internal = frozenset(internal)
        self._changes = Changes(self._internal)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="leader-watch", daemon=True)

    def __enter__(self) -> LeaderWatch:
        self._once()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_JOIN_S)

    def seen(self) -> list[Seen]:
        """The changes so far, in the order in which they were seen."""
        with self._lock:
            return list(self._changes.seen)

    def of_topics(self) -> list[LeaderSeen]:
        """Those of topics that are not Kafka's own."""
        return [one for one in self.seen() if isinstance(one, LeaderSeen)]

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._once()

    def _once(self) -> None:
        try:
            states = self._look(self._topics)
        except HarnessError:
            return  # no broker answers now: the next look sees what changed
        with self._lock:
            self._changes.looked(states, now_ns())


class Changes:
    """Turns looks at partitions into events."""

    def __init__(self, internal: Collection[str]) -> None:
        self.seen: list[Seen] = []
        self._internal = internal
        self._last: dict[Place, PartitionState] = {}
        self._looked_ns: dict[Place, int] = {}
        self._in_sync_ns: dict[tuple[Place, int], int] = {}  # when a replica was last seen in an ISR

    def looked(self, states: Sequence[PartitionState], at_ns: int) -> None:
        """Takes a look, which began before `at_ns` and ended then."""
        for state in states:
            place = state.topic, state.partition
            before = self._last.get(place)
            if before is not None and before.topic_id == state.topic_id:  # else the topic was created again
                if state.leader_epoch < before.leader_epoch:
                    continue  # the answer of a broker that is behind
                if state.leader_epoch > before.leader_epoch and state.leader != before.leader:
                    self.seen.append(self._event(before, state, at_ns))
            self._last[place] = state
            self._looked_ns[place] = at_ns
            self._in_sync_ns |= dict.fromkeys(((place, broker) for broker in state.isr), at_ns)

    def _event(self, before: PartitionState, state: PartitionState, at_ns: int) -> Seen:
        place = state.topic, state.partition
        seen = LeaderSeen(
            topic=state.topic,
            partition=state.partition,
            at_ns=at_ns,
            old_leader=before.leader,
            new_leader=state.leader,
            leader_epoch=state.leader_epoch,
            clean=_clean(before, state),
        )
        if state.topic not in self._internal:
            return seen
        return InternalLeaderSeen(
            **structs.asdict(seen),
            since_ns=self._looked_ns[place],
            in_sync_ns=self._in_sync_ns.get((place, state.leader), 0),
        )


def _clean(before: PartitionState, state: PartitionState) -> bool | None:
    """Whether the new leader had every committed record. None = unknown: more may have happened between the looks."""
    if state.leader < 0:
        return None
    if state.leader in (*before.isr, *before.elr):
        return True
    return False if state.leader_epoch - before.leader_epoch <= _EPOCHS_OF_ONE else None


def with_events(rows: Steps, seen: Sequence[Seen]) -> Steps:
    """The steps with the changes of leaders that were seen while they ran, or between them and the next one.

    What was seen before the first step is one of its events, too: only steps have events.
    """
    began = [row for row in rows if row.started_ns is not None]
    if not began:
        return rows
    of: dict[str, list[Seen]] = {}
    for event in seen:
        earlier = [row.name for row in began if (row.started_ns or 0) <= event.at_ns]
        of.setdefault(earlier[-1] if earlier else began[0].name, []).append(event)
    return tuple(structs.replace(row, events=(*row.events, *of.get(row.name, ()))) for row in rows)
