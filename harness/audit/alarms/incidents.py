"""Open alarms: one for each rule and cause, kept in the database, and shown by every sink."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Final, Protocol

from harness.audit.alarms.alarm import PLACES_MAX, Alarm
from harness.audit.engine.view import View
from harness.audit.rules.rule import Rule, Suspicion
from harness.audit.store.database import Database
from harness.model.clock import NS_PER_S
from harness.model.severity import Severity

_REPEAT_S: Final = 10  # an open alarm that grows is shown again after this time
_ORDER: Final = {severity: at for at, severity in enumerate(Severity)}


class Sink(Protocol):
    """Something that shows alarms: the terminal, a webhook, metrics. It must not block, and must not raise."""

    def opened(self, alarm: Alarm) -> None: ...
    def grew(self, alarm: Alarm) -> None: ...
    def ended(self, alarm: Alarm) -> None: ...


class Incidents:
    """The open alarms. After a restart those of the database are open again and are not shown as new."""

    def __init__(self, database: Database, rules: Mapping[str, Rule], sinks: Iterable[Sink]) -> None:
        self._database = database
        self._rules = rules
        self._sinks = tuple(sinks)
        self._open: dict[str, tuple[int, Alarm]] = {}
        self._shown_ns: dict[str, int] = {}
        for number, text in database.open_alarms():
            alarm = alarm_from(text)
            self._open[alarm.incident] = number, alarm

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
            texts = (rule.explanation, rule.remedy, rule.source)
            alarm = Alarm(suspicion.rule, suspicion.cause, severity, *texts, now_ns, now_ns, [suspicion])
            alarm.partitions = 1 + suspicion.others
            self._open[alarm.incident] = self._database.put_alarm(alarm.incident, now_ns, alarm_text(alarm)), alarm
            self._show(alarm, now_ns, lambda sink: sink.opened(alarm))
            return
        number, alarm = known
        alarm.seen_ns = now_ns
        if _joined(alarm, suspicion) or _ORDER[severity] < _ORDER[alarm.severity]:
            alarm.severity = min(alarm.severity, severity, key=lambda s: _ORDER[s])
            self._database.change_alarm(number, alarm_text(alarm))
            if now_ns - self._shown_ns.get(alarm.incident, 0) > _REPEAT_S * NS_PER_S:
                self._show(alarm, now_ns, lambda sink: sink.grew(alarm))

    def end_over(self, view: View) -> None:
        """Ends each alarm whose rule says that it is over for all of its partitions."""
        for number, alarm in [*self._open.values()]:
            rule = self._rules.get(alarm.rule)
            if rule is None:
                self._end(number, alarm, view.now_ns, "its rule is switched off")
            elif all(rule.over(suspicion, view) for suspicion in alarm.suspicions):
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
        for sink in self._sinks:
            sink.ended(alarm)

    def _show(self, alarm: Alarm, now_ns: int, by: Callable[[Sink], None]) -> None:
        self._shown_ns[alarm.incident] = now_ns
        for sink in self._sinks:
            by(sink)


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
    if None in (one.first_offset, one.end_offset, other.first_offset, other.end_offset):
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
