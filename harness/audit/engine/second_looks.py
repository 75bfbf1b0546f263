"""Suspicions that wait for a second look, which confirms or dismisses them.

A look may be newer than the metadata log as the auditor knows it: brokers act on a new setting, or on a recreated
topic, before the auditor has read of it. So a suspicion is decided when the metadata log is known up to the look that
raised it, and no look is spent on it before. A look that decides nothing is repeated about once a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from harness.audit.engine.cluster_state import ClusterState
from harness.audit.engine.guard import Guard
from harness.audit.engine.looks import LookReason, Rounds
from harness.audit.look import PartitionLook
from harness.audit.rules.rule import Rule, Suspicion
from harness.model.clock import NS_PER_S
from harness.model.severity import Severity

SECOND_LOOK_S: Final = 30.0
_METADATA_S: Final = 20.0  # so long the metadata log may be unknown; the suspicion is decided without it then
_AGAIN_S: Final = 1.0  # between two looks at a partition that its suspicions ask for
# The first look may reach a broker before the change that raised the suspicion does, so the second one comes sooner.
_FIRST_AGAIN_S: Final = 0.25
_NOT_KNOWN: Final = "The metadata log could not be read since, so a change in it may be the reason."
_Place: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Waiting:
    suspicion: Suspicion
    since_ns: int
    raised_ns: int  # the look that raised it was answered before; 0 = a record did


@dataclass(slots=True)
class _Asked:
    """When suspicions asked for a look at a partition last, and how often since one of them was decided."""

    last_s: float  # monotonic
    looks: int = 1

    def due(self, now_s: float) -> bool:
        return now_s - self.last_s >= (_FIRST_AGAIN_S if self.looks == 1 else _AGAIN_S)


class SecondLooks:
    """alarm: gets what was confirmed, and what nothing could confirm or dismiss for SECOND_LOOK_S.

    put_off: how often a look was not asked for yet, as it could decide nothing, or as the last one was too recent.
    """

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
        self._asked: dict[_Place, _Asked] = {}  # in the last second, or for what waits
        self.dismissed = self.put_off = 0

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())

    def add(self, suspicion: Suspicion, partition: int, *, of_look: bool) -> None:
        """Asks for a look at the partition at once, if it can decide. of_look: a look raised it, and not a record."""
        place = suspicion.topic_id, partition
        waiting = self._waiting.setdefault(place, [])
        if any(_same(w.suspicion, suspicion) for w in waiting):
            return
        now_ns = time.time_ns()
        waiting.append(_Waiting(suspicion, now_ns, now_ns if of_look else 0))
        if of_look:
            self._ask(place, waiting)
        else:
            self._asked[place] = _Asked(time.monotonic())
            self._rounds.soon(*place, LookReason.SUSPICION)

    def ask(self) -> None:
        """More of the metadata log is known: asks for the looks that can decide now."""
        for place, waiting in self._waiting.items():
            self._ask(place, waiting)

    def _ask(self, place: _Place, waiting: Sequence[_Waiting]) -> None:
        """Asks for a look, if one can decide anything, and none was asked for just now."""
        now_s, now_ns, asked = time.monotonic(), time.time_ns(), self._asked.get(place)
        early = asked is not None and not asked.due(now_s)
        if early or not any(self._decidable(w, now_ns) for w in waiting):
            self.put_off += 1
            return
        looks = 0 if asked is None else asked.looks
        self._asked[place] = _Asked(now_s, looks + 1)
        self._rounds.soon(*place, LookReason.AGAIN if looks else LookReason.SUSPICION)

    def answered(self, look: PartitionLook) -> None:
        """Asks the rules whether the look shows what they suspected. A look that was refused shows nothing."""
        place = look.topic_id, look.partition
        for waiting in self._waiting.pop(place, ()):
            unknown = self._unknown(waiting)
            useless = look.error is not None or look.asked_ns <= waiting.since_ns
            if useless or not self._decidable(waiting, look.answered_ns):
                self._waiting.setdefault(place, []).append(waiting)
                continue
            rule, suspicion = self._rules[waiting.suspicion.rule], waiting.suspicion
            unjudged = replace(suspicion, what=f"{suspicion.what} No second look, because the rule failed.")
            confirmed = self._guard.answer(rule.name, unjudged, rule.confirmed, suspicion, look, self._state)
            if confirmed is None:
                self.dismissed += 1
            elif confirmed.again:  # a tick asks for a look
                again = replace(waiting, suspicion=replace(confirmed, again=False), since_ns=time.time_ns())
                self._waiting.setdefault(place, []).append(again)
            else:
                self._alarm(replace(confirmed, what=f"{confirmed.what} {_NOT_KNOWN}") if unknown else confirmed)
        if place in self._asked and place not in self._waiting:
            self._asked[place].looks = 0

    def _unknown(self, waiting: _Waiting) -> bool:
        """Whether the metadata log may have a reason that the auditor has not read yet."""
        return self._state.known_ns is not None and self._state.known_ns <= waiting.raised_ns

    def _decidable(self, waiting: _Waiting, at_ns: int) -> bool:
        """Whether a look that is answered at this time can decide it."""
        return not self._unknown(waiting) or at_ns - waiting.raised_ns >= _METADATA_S * NS_PER_S

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
                self._ask(place, left)
            else:
                del self._waiting[place]
            for late in waiting:
                if late.since_ns <= late_ns:
                    what = f"{late.suspicion.what} A second look was not possible for {SECOND_LOOK_S:.0f} s."
                    self._alarm(replace(late.suspicion, what=what, severity=Severity.NOTICE))
        old_s = time.monotonic() - _AGAIN_S
        self._asked = {p: asked for p, asked in self._asked.items() if p in self._waiting or asked.last_s > old_s}


def _same(one: Suspicion, other: Suspicion) -> bool:
    """Whether one look decides both. A look that decides about a record may be older than the next record."""
    return (one.rule, one.cause, one.metadata_offset) == (other.rule, other.cause, other.metadata_offset)
