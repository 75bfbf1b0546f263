"""Partitions in which something holds that must not last, with the time since when, in 12 bytes each.

When a broker dies, a third of all partitions may be concerned. So no object is kept for a partition, and only some
partitions of a cause are named.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from harness.audit.engine.view import View
from harness.audit.rules.retention import whole
from harness.audit.rules.sentences import NAMED_MAX
from harness.model.clock import NS_PER_MS
from harness.model.history.changes import AnyChange, PartitionChange, TopicChange, TopicEvent

Brokers: TypeAlias = tuple[int, ...]  # a cause
MIN_ISR: Final = "min.insync.replicas"
_LONG_S: Final = 0.002  # shorter surveys are made at each tick
_SHARE: Final = 0.002  # of the time for surveys, as long as the next one comes within _PAUSE_S
_SHARE_MAX: Final = 0.02  # of the time for surveys of very many partitions
_PAUSE_S: Final = 10.0  # little against what a condition may last
_NONE: Final = 0  # the condition does not hold


@dataclass(slots=True)
class Late:
    """New partitions in which the condition has lasted too long, for one cause. others: those without a name."""

    cause: Brokers
    named: list[tuple[PartitionChange, float]] = field(default_factory=list)  # with seconds
    others: int = 0


class Standing:
    """causes: the brokers that are the reason, for each reason; empty if the condition does not hold."""

    def __init__(self, causes: Callable[[PartitionChange, View], Collection[Brokers]]) -> None:
        self._causes = causes
        self._since_ms: dict[str, array[int]] = {}  # topic id -> by partition
        self._reported: dict[str, array[int]] = {}  # the same, with a bit for the first broker of each reported cause
        self._size = 0
        self._counts: dict[Brokers, int] = {}
        self._next_s = 0.0

    def __len__(self) -> int:
        return self._size

    def holds(self, topic_id: str, partition: int) -> bool:
        """Whether it holds in this partition. It costs little."""
        since = self._since_ms.get(topic_id)
        return since is not None and partition < len(since) and since[partition] != _NONE

    def holds_for(self, cause: Brokers) -> bool:
        """Whether any partition has this cause, by the last survey."""
        return cause in self._counts

    def note(self, state: PartitionChange, view: View) -> None:
        """Takes the present state of a partition."""
        since, at = self._since_ms.get(state.topic_id), state.partition
        if not self._causes(state, view):
            if since is not None and at < len(since) and since[at] != _NONE:
                self._size -= 1
                since[at] = self._reported[state.topic_id][at] = _NONE
            return
        if since is None:
            since = self._since_ms[state.topic_id] = array("q")
            self._reported[state.topic_id] = array("I")
        if len(since) <= at:
            more = [_NONE] * (at + 1 - len(since))
            since.extend(more)
            self._reported[state.topic_id].extend(more)
        if since[at] == _NONE:
            self._size += 1
            since[at] = view.now_ns // NS_PER_MS

    def note_change(self, after: AnyChange, view: View) -> None:
        if isinstance(after, PartitionChange):
            self.note(after, view)
        elif isinstance(after, TopicChange) and after.event is TopicEvent.DELETED:
            since = self._since_ms.pop(after.topic_id, None)
            self._reported.pop(after.topic_id, None)
            self._size -= 0 if since is None else sum(1 for at in since if at != _NONE)

    def survey(self, view: View, is_late: Callable[[PartitionChange, Brokers, int], bool]) -> list[Late]:
        """Returns the partitions that became late since the last survey, by cause.

        is_late: gets the time since when, in ms. After a survey that takes long, the next one comes later.
        """
        if time.monotonic() < self._next_s and self._size:
            return []
        begun_s = time.thread_time()
        self._counts = {}
        found: dict[Brokers, Late] = {}
        for state, since_ms in self._states(view):
            reported = self._reported[state.topic_id]
            for cause in self._causes(state, view):
                self._counts[cause] = self._counts.get(cause, 0) + 1
                bit = _bit(state, cause[0])
                if not reported[state.partition] & bit and is_late(state, cause, since_ms):
                    reported[state.partition] |= bit
                    self._add(found.setdefault(cause, Late(cause)), state, view.now_ns / 1e9 - since_ms / 1e3)
        used_s = time.thread_time() - begun_s
        pause_s = max(min(used_s / _SHARE, _PAUSE_S), used_s / _SHARE_MAX) if used_s > _LONG_S else 0.0
        self._next_s = time.monotonic() + pause_s
        return list(found.values())

    @staticmethod
    def _add(late: Late, state: PartitionChange, lasted_s: float) -> None:
        if len(late.named) < NAMED_MAX:
            late.named.append((state, lasted_s))
        else:
            late.others += 1

    def _states(self, view: View) -> Iterator[tuple[PartitionChange, int]]:
        for topic_id, since in list(self._since_ms.items()):
            for partition, since_ms in enumerate(since):
                if since_ms == _NONE:
                    continue
                state = view.partition(topic_id, partition)
                if state is not None:
                    yield state, since_ms


def missing_replicas(state: PartitionChange, _view: View) -> Collection[Brokers]:
    """The replicas out of the ISR, each as a cause. Those that a reassignment adds are not missing."""
    if len(state.isr) == len(state.replicas):
        return ()
    present = {*state.isr, *state.adding}
    return [(replica,) for replica in state.replicas if replica not in present]


def needed_in_sync(state: PartitionChange, view: View) -> int:
    """How many replicas must be in sync for acks=all: min.insync.replicas, but not more than there are."""
    return min(whole(view.setting(state.topic, MIN_ISR)) or 1, len(state.replicas))


def _bit(state: PartitionChange, broker: int) -> int:
    """The bit of a broker among the replicas; all other brokers share one."""
    return 1 << (state.replicas.index(broker) if broker in state.replicas else len(state.replicas))
