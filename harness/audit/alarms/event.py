"""The events of an alarm, as a sentence for people and as JSON for machines. Every sink shows the same."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from harness.audit.alarms.alarm import Alarm
from harness.audit.rules.rule import Suspicion
from harness.model.clock import NS_PER_S

FORMAT: Final = 1  # of the JSON; it changes only when a key gets another meaning or is removed


class Event(StrEnum):
    """The events of an alarm. GREW: more partitions, more records, or a worse severity."""

    OPENED = "opened"
    GREW = "grew"
    ENDED = "ended"


def time_text(at_ns: int) -> str:
    """A wall-clock time in UTC, as 2026-11-28T14:52:57.123Z."""
    text = datetime.fromtimestamp(at_ns / NS_PER_S, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def event_plain(
    event: Event, alarm: Alarm, cluster_id: str, at_ns: int, *, repeated: bool = False
) -> dict[str, object]:
    """The JSON of one event. Times are the wall clock of the auditor's machine; null = not known, or not yet.

    repeated: after a restart; the receiver may have got this event of the same `id` before.
    """
    head = {"format": FORMAT, "event": event.value, "repeated": repeated, "at": time_text(at_ns)}
    return {**head, "cluster_id": cluster_id, **plain(alarm)}


def plain(alarm: Alarm) -> dict[str, object]:
    """An alarm as JSON."""
    return {
        "id": alarm.id,
        "incident": alarm.incident,
        "rule": alarm.rule,
        "cause": alarm.cause,
        "severity": alarm.severity.value,
        "what": alarm.what,
        "explanation": alarm.explanation,
        "remedy": alarm.remedy,
        "source": alarm.source,
        "opened": time_text(alarm.opened_ns),
        "seen": time_text(alarm.seen_ns),
        "ended": None if alarm.ended_ns is None else time_text(alarm.ended_ns),
        "ended_why": alarm.ended_why or None,
        "partitions": alarm.partitions,
        "records": alarm.records,
        "places": [_place(suspicion) for suspicion in alarm.suspicions],
    }


def _place(of: Suspicion) -> Mapping[str, object]:
    return {
        "topic": of.topic or None,
        "topic_id": of.topic_id or None,
        "partition": of.partition,
        "what": of.what,
        "at": time_text(of.at_ns),
        "first_offset": of.first_offset,
        "end_offset": of.end_offset,
        "records": of.records,
        "deleted_from": None if of.deleted_at_ns is None else time_text(of.deleted_at_ns),
        "leader_epoch": of.leader_epoch,
        "metadata_offset": of.metadata_offset,
    }


def line(event: Event, alarm: Alarm, at_ns: int, *, repeated: bool = False) -> str:
    """One line for a terminal: the time, the event, the severity, the rule, and what happened."""
    again = " (repeated after a restart)" if repeated else ""
    head = f"{time_text(at_ns)} {event.value:6} {alarm.severity.value.upper():6} {alarm.rule}{again}: {alarm.what}"
    match event:
        case Event.OPENED:
            return f"{head}{_at_risk(alarm, at_ns)} To do: {alarm.remedy}"
        case Event.GREW:
            return f"{head}{_at_risk(alarm, at_ns)}"
        case Event.ENDED:
            open_s = ((alarm.ended_ns or at_ns) - alarm.opened_ns) / NS_PER_S
            return f"{head} The alarm ended after {duration(open_s)}: {alarm.ended_why}."


def _at_risk(alarm: Alarm, at_ns: int) -> str:
    parts = []
    if alarm.records is not None:
        of = "" if alarm.partitions <= len(alarm.suspicions) else f" in {len(alarm.suspicions)} of the partitions"
        parts.append(f"records at risk: {alarm.records:,}{of}")
    if first := min((s.deleted_at_ns for s in alarm.suspicions if s.deleted_at_ns is not None), default=None):
        left_s = (first - at_ns) / NS_PER_S
        when = f"in {duration(left_s)}, at {time_text(first)}" if left_s > 0 else "may have begun"
        parts.append(f"deletion: {when}")
    return f" ({'; '.join(parts)})" if parts else ""


def duration(seconds: float) -> str:
    """A time span as people say it: 40 ms, 1.4 s, 12 s, 5 min, 3 h, 4 d."""
    if seconds < 1:
        return f"{max(0.0, 1000 * seconds):.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, unit_s, limit in (("s", 1, 120), ("min", 60, 120 * 60), ("h", 3600, 48 * 3600)):
        if seconds < limit:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
