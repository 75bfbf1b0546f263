"""Open alarms: one for each rule and cause, kept in the database, and shown by every sink."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Final, Protocol

from harness.audit.alarms.alarm import PLACES_MAX, Alarm
from harness.audit.alarms.event import Event
from harness.audit.engine.guard import Guard
from harness.audit.engine.view import View
from harness.audit.rules.rule import Rule, Suspicion
from harness.audit.store.database import Database
from harness.model.clock import NS_PER_S
from harness.model.severity import Severity

_REPEAT_S: Final = 10  # an open alarm that grows is shown again after this time
_DOUBTFUL: Final = "doubtful events"  # the name of the fact in the database
_DOUBTFUL_MAX: Final = 1000  # a sink drops its oldest messages, too
_ORDER: Final = {severity: at for at, severity in enumerate(Severity)}


class Sink(Protocol):
    """Something that shows alarms: the terminal, a webhook. It must not block, and must not raise."""

    def show(self, event: Event, alarm: Alarm, *, repeated: bool = False) -> None:
        """repeated: it may have been shown before."""
        ...

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be delivered any more."""
        ...


class Incidents:
    """The open alarms. After a restart those of the database are open again and are not shown as new.

    An alarm is in the file before any sink has it, and stays in a list of doubtful events until all sinks have
    delivered it. After a crash the doubtful ones are shown once more, so each event is delivered at least once.
    """

    def __init__(
        self, database: Database, rules: Mapping[str, Rule], sinks: Iterable[Sink], guard: Guard | None = None
    ) -> None:
        self._database = database
        self._rules = rules
        self._sinks = tuple(sinks)
        self._guard = guard or Guard()
        self._open: dict[str, tuple[int, Alarm]] = {}
        self._shown_ns: dict[str, int] = {}
        self._doubtful: list[tuple[int, str]] = json.loads(database.fact(_DOUBTFUL) or "[]")  # alarm's number, event
        for number, text in database.open_alarms():
            alarm = alarm_from(text)
            self._open[alarm.incident] = number, alarm

    def repeat(self) -> None:
        """At the start: shows what the last auditor may not have delivered before it was killed."""
        for number, event in self._doubtful:
            text = self._database.alarm(number)
            if text is not None:
                self._show(Event(event), alarm_from(text), repeated=True)

    def settle(self) -> None:
        """Once a second: what all sinks have delivered is doubtful no more."""
        if self._doubtful and all(sink.idle for sink in self._sinks):
            self._doubtful.clear()
            self._database.keep_fact(_DOUBTFUL, "[]")

    @property
    def open(self) -> list[Alarm]:
        """The worst first."""
        return worst_first(alarm for _, alarm in self._open.values())

    def add(self, suspicion: Suspicion, now_ns: int) -> None:
        """Opens an alarm, or adds to the open one of this cause."""
        rule = self._rules[suspicion.rule]
        severity = suspicion.severity or rule.severity
        known = self._open.get(f"{suspicion.rule}: {suspicion.cause}")
        if known is None:
            texts = (rule.explanation, suspicion.remedy or rule.remedy, rule.source)
            alarm = Alarm(suspicion.rule, suspicion.cause, severity, *texts, now_ns, now_ns, [suspicion])
            alarm.partitions = 1 + suspicion.others
            number = self._database.put_alarm(alarm.incident, now_ns, alarm_text(alarm))
            self._open[alarm.incident] = number, alarm
            self._database.put_fact(_DOUBTFUL, self._doubt(number, Event.OPENED))
            self._shown_ns[alarm.incident] = now_ns
            self._show(Event.OPENED, alarm)
            return
        number, alarm = known
        alarm.seen_ns = now_ns
        if _joined(alarm, suspicion) or _ORDER[severity] < _ORDER[alarm.severity]:
            alarm.severity = min(alarm.severity, severity, key=lambda s: _ORDER[s])
            self._database.change_alarm(number, alarm_text(alarm))
            if now_ns - self._shown_ns.get(alarm.incident, 0) > _REPEAT_S * NS_PER_S:
                self._shown_ns[alarm.incident] = now_ns
                self._show(Event.GREW, alarm)

    def end_over(self, view: View) -> None:
        """Ends each alarm whose rule says that it is over for all of its partitions."""
        for number, alarm in [*self._open.values()]:
            rule = self._rules.get(alarm.rule)
            if rule is None:
                self._end(number, alarm, view.now_ns, "its rule is switched off")
            elif all(self._guard.answer(rule.name, False, rule.over, of, view) for of in alarm.suspicions):
                self._end(number, alarm, view.now_ns, "it is over")

    def end(self, incident: str, now_ns: int, why: str) -> None:
        """Ends one alarm, if it is open."""
        if incident in self._open:
            self._end(*self._open[incident], now_ns, why)

    def _end(self, number: int, alarm: Alarm, now_ns: int, why: str) -> None:
        alarm.ended_ns, alarm.ended_why = now_ns, why
        del self._open[alarm.incident]
        self._shown_ns.pop(alarm.incident, None)
        self._database.change_alarm(number, alarm_text(alarm), now_ns)
        self._database.keep_fact(_DOUBTFUL, self._doubt(number, Event.ENDED))
        self._show(Event.ENDED, alarm)

    def _doubt(self, number: int, event: Event) -> str:
        """The doubtful events with one more, as the database keeps them."""
        self._doubtful = [*self._doubtful[1 - _DOUBTFUL_MAX :], (number, event.value)]
        return json.dumps(self._doubtful)

    def _show(self, event: Event, alarm: Alarm, *, repeated: bool = False) -> None:
        for sink in self._sinks:
            sink.show(event, alarm, repeated=repeated)


def _joined(alarm: Alarm, suspicion: Suspicion) -> bool:
    """Adds a suspicion to an alarm. Returns whether it says something new.

    Other records of a partition that the alarm names are something new, and no new partition.
    """
    of_place = [
        (at, known)
        for at, known in enumerate(alarm.suspicions)
        if (known.topic_id, known.partition) == (suspicion.topic_id, suspicion.partition)
    ]
    for at, known in of_place:
        if _overlap(known, suspicion):
            more = (suspicion.records or 0) > (known.records or 0)
            if more:
                alarm.suspicions[at] = suspicion
            return more
    if not of_place:
        alarm.partitions += 1 + suspicion.others
    if len(alarm.suspicions) < PLACES_MAX:
        alarm.suspicions.append(suspicion)
    return True


def _overlap(one: Suspicion, other: Suspicion) -> bool:
    """Whether two suspicions may be about the same records."""
    ranges = [(of.first_offset, of.end_offset) for of in (one, other)]
    if ranges[0] == ranges[1] or any(None in each for each in ranges):  # two ranges may be equal and empty
        return True
    return (one.first_offset or 0) < (other.end_offset or 0) and (other.first_offset or 0) < (one.end_offset or 0)


def worst_first(alarms: Iterable[Alarm]) -> list[Alarm]:
    """Alarms by severity; among equals the oldest first."""
    return sorted(alarms, key=lambda alarm: (_ORDER[alarm.severity], alarm.opened_ns))


def alarm_text(alarm: Alarm) -> str:
    """An alarm as JSON."""
    return json.dumps(asdict(alarm))


def alarm_from(text: str) -> Alarm:
    """The alarm that `alarm_text` wrote."""
    plain = json.loads(text)
    suspicions = [
        Suspicion(**{**of, "severity": Severity(of["severity"]) if of["severity"] else None})
        for of in plain["suspicions"]
    ]
    return Alarm(**{**plain, "severity": Severity(plain["severity"]), "suspicions": suspicions})
