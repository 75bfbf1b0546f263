"""Suspicions that wait for a second look, which confirms or dismisses them.

A look may be newer than the metadata log as the auditor knows it: brokers act on a new setting, or on a recreated
topic, before the auditor has read of it. So a suspicion is decided when the metadata log is known up to the look that
raised it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from harness.audit.engine.cluster_state import ClusterState
from harness.audit.engine.guard import Guard
from harness.audit.engine.looks import Rounds
from harness.audit.look import PartitionLook
from harness.audit.rules.rule import Rule, Suspicion
from harness.model.clock import NS_PER_S
from harness.model.severity import Severity

SECOND_LOOK_S: Final = 30.0
_METADATA_S: Final = 20.0  # so long the metadata log may be unknown; the suspicion is decided without it then
_NOT_KNOWN: Final = "The metadata log could not be read since, so a change in it may be the reason."
_Place: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Waiting:
    suspicion: Suspicion
    since_ns: int
    raised_ns: int  # the look that raised it was answered before; 0 = a record did


class SecondLooks:
    """alarm: gets what was confirmed, and what nothing could confirm or dismiss for SECOND_LOOK_S."""

    def __init__(
        self,
        state: ClusterState,
        rounds: Rounds,
        rules: Mapping[str, Rule],
        alarm: Callable[[Suspicion], None],
        guard: Guard,
    ) -> None:
        self._state = state
        self._rounds = rounds
        self._rules = rules
        self._alarm = alarm
        self._guard = guard
        self._waiting: dict[_Place, list[_Waiting]] = {}
        self.dismissed = 0

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())

    def add(self, suspicion: Suspicion, partition: int, *, of_look: bool) -> None:
        """Asks for a look at the partition at once. of_look: a look raised it, and not a record."""
        place = suspicion.topic_id, partition
        waiting = self._waiting.setdefault(place, [])
        if all((w.suspicion.rule, w.suspicion.cause) != (suspicion.rule, suspicion.cause) for w in waiting):
            now_ns = time.time_ns()
            waiting.append(_Waiting(suspicion, now_ns, now_ns if of_look else 0))
        self._rounds.soon(*place)

    def ask(self) -> None:
        """Asks for looks at the partitions of all suspicions."""
        for place in self._waiting:
            self._rounds.soon(*place)

    def answered(self, look: PartitionLook) -> None:
        """Asks the rules whether the look shows what they suspected. A look that was refused shows nothing."""
        place = look.topic_id, look.partition
        for waiting in self._waiting.pop(place, ()):
            unknown = self._unknown(waiting)
            early = unknown and look.answered_ns - waiting.raised_ns < _METADATA_S * NS_PER_S
            if early or look.error is not None or look.asked_ns <= waiting.since_ns:
                self._waiting.setdefault(place, []).append(waiting)
                continue
            rule, suspicion = self._rules[waiting.suspicion.rule], waiting.suspicion
            unjudged = replace(suspicion, what=f"{suspicion.what} No second look, because the rule failed.")
            confirmed = self._guard.answer(rule.name, unjudged, rule.confirmed, suspicion, look, self._state)
            if confirmed is None:
                self.dismissed += 1
            elif confirmed.again:  # the next tick asks for a look
                again = replace(waiting, suspicion=replace(confirmed, again=False), since_ns=time.time_ns())
                self._waiting.setdefault(place, []).append(again)
            else:
                self._alarm(replace(confirmed, what=f"{confirmed.what} {_NOT_KNOWN}") if unknown else confirmed)

    def _unknown(self, waiting: _Waiting) -> bool:
        """Whether the metadata log may have a reason that the auditor has not read yet."""
        return self._state.known_ns is not None and self._state.known_ns <= waiting.raised_ns

    def refused(self, places: Collection[_Place]) -> None:
        """No broker could be asked about these partitions: asks again."""
        for place in self._waiting.keys() & places:
            self._rounds.soon(*place)

    def tick(self) -> None:
        """Asks for looks again. A suspicion that none could decide is shown, with a lower severity."""
        late_ns = time.time_ns() - int(SECOND_LOOK_S * NS_PER_S)
        for place, waiting in [*self._waiting.items()]:
            left = [w for w in waiting if w.since_ns > late_ns]
            if self._state.partition(*place) is None:  # it was deleted
                del self._waiting[place]
                continue
            if left:
                self._waiting[place] = left
                self._rounds.soon(*place)
            else:
                del self._waiting[place]
            for late in waiting:
                if late.since_ns <= late_ns:
                    what = f"{late.suspicion.what} A second look was not possible for {SECOND_LOOK_S:.0f} s."
                    self._alarm(replace(late.suspicion, what=what, severity=Severity.NOTICE))
