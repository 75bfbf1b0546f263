"""The state of an auditor from its database: while it runs, and afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.audit.alarms.alarm import Alarm
from harness.audit.alarms.event import duration, plain, time_text
from harness.audit.alarms.incidents import alarm_from, worst_first
from harness.audit.service.budget_option import size_text
from harness.audit.service.introduction import count
from harness.audit.service.vitals import FACT, Vitals, vitals_from
from harness.audit.store.database import Database, Unwatched
from harness.audit.store.lock import running
from harness.model.clock import NS_PER_S
from harness.model.errors import BadInput

_STALE_S: Final = 10.0  # a running auditor writes its vitals once a second
_GAPS_SHOWN: Final = 10
_NAMED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """process: of the auditor that runs now; None without one."""

    process: int | None
    now_ns: int
    vitals: Vitals
    watched_since_ns: int
    unwatched: Sequence[Unwatched]
    alarms: Sequence[Alarm]
    ended: int  # alarms that have ended

    @property
    def stuck_s(self) -> float | None:
        """For how long a running auditor has said nothing; None if that is no time to speak of."""
        age_s = (self.now_ns - self.vitals.at_ns) / NS_PER_S
        return age_s if self.process is not None and age_s > _STALE_S else None

    def json(self) -> str:
        """One JSON document."""
        return json.dumps(
            {
                "running": self.process is not None,
                "process": self.process,
                "vitals": json.loads(self.vitals.text()),
                "watched_since": time_text(self.watched_since_ns),
                "unwatched": [
                    {"from": time_text(gap.from_ns), "to": time_text(gap.to_ns), "why": gap.why}
                    for gap in self.unwatched
                ],
                "alarms": [plain(alarm) for alarm in self.alarms],
                "ended_alarms": self.ended,
            },
            indent=1,
        )


def status_of(folder: Path) -> Status:
    """BadInput if the folder has no database of an auditor."""
    process = running(folder)
    database = Database(folder, read_only=True)
    try:
        text = database.fact(FACT)
        if text is None:
            raise BadInput(f"{database.path} has no auditor's state yet; try again when the auditor has started")
        vitals = vitals_from(text)
        alarms = worst_first(alarm_from(text) for _, text in database.open_alarms())
        return Status(
            process=process,
            now_ns=time.time_ns(),
            vitals=vitals,
            watched_since_ns=int(database.fact("watched_since") or vitals.started_ns),
            unwatched=database.unwatched(),
            alarms=alarms,
            ended=database.ended_alarms(),
        )
    finally:
        database.close()


def status_text(of: Status) -> Iterator[str]:
    """The same for people."""
    vitals, watch = of.vitals, of.vitals.watch
    yield f"cluster {watch.cluster_id} at {watch.bootstrap}: {_process(of)}"
    yield f"  watched since {time_text(of.watched_since_ns)}: {_watched(vitals)}"
    yield f"  {watch.feed}: {_lag(vitals, running=of.process is not None)}"
    yield f"  {_looks(vitals)}"
    memory = size_text(vitals.memory_bytes)
    yield f"  used {vitals.cpu_s:.1f} s of processor time and {memory}; the budget is {vitals.budget}"
    for source in sorted({*vitals.sources} - {*vitals.covered_now}):
        why = watch.not_covered.get(source) or vitals.refusals.get(source) or "nothing was heard in time"
        yield f"  NOT covered: {source}: {why}"
    if vitals.forbidden:
        names = ", ".join(vitals.forbidden[:_NAMED])
        yield f"  NOT covered: {len(vitals.forbidden)} topics that this client may not describe: {names}"
    for rule, why in vitals.failed_rules.items():
        yield f"  NOT covered: the rule {rule}, which failed and is off until a restart: {why}"
    yield from _gaps(of)
    for sink, delivered in vitals.undelivered.items():
        if delivered.dropped or delivered.failure:
            why = f": {delivered.failure}" if delivered.failure else ""
            yield f"  {sink}: {delivered.dropped} messages dropped, {delivered.waiting} wait{why}"
    if vitals.probe:
        yield f"  probe: {', '.join(f'{count:,} {what}' for what, count in vitals.probe.items())}"
    yield from _alarms(of)


def _process(of: Status) -> str:
    if of.process is None:
        return f"no auditor runs; the last one ended at {time_text(of.vitals.at_ns)}"
    if of.stuck_s is not None:
        return f"process {of.process} runs, but has been stuck for {duration(of.stuck_s)}"
    running_s = (of.now_ns - of.vitals.started_ns) / NS_PER_S
    return f"process {of.process}, started {duration(running_s)} ago"


def _watched(of: Vitals) -> str:
    only = f" of {', '.join(of.watch.topics)}" if of.watch.topics else ""
    groups = f", groups {', '.join(of.watch.groups)}" if of.watch.groups else ""
    parts = count(of.topics, "topic"), count(of.partitions, "partition"), count(len(of.watch.rules), "rule")
    return f"{parts[0]}{only} with {parts[1]}{groups}; {parts[2]}"


def _lag(of: Vitals, *, running: bool) -> str:
    behind = f", {of.behind:,} committed records behind" if of.behind else ""
    heard = f", last heard {duration(of.silent_s)} ago" if running else ""
    return f"read up to record {of.metadata_offset:,}{behind}{heard}; blind for {duration(of.blind_s)} in all"


def _looks(of: Vitals) -> str:
    waiting = f"; {count(of.waiting, 'suspicion')} not decided yet" if of.waiting else ""
    done = f"{of.looks:,} looks, {of.refused_looks:,} refused{waiting}"
    late = f"late by {duration(of.overdue_s)}" if of.overdue_s else ""
    if of.round_ended_ns is None:
        return f"looks: no round over all partitions has ended yet{late and f', the first one is {late}'}; {done}"
    took = f"the last round took {duration(of.round_s or 0)} and ended at {time_text(of.round_ended_ns)}"
    return f"looks: {took}{late and f'; the next one is {late}'}; {done}"


def _gaps(of: Status) -> Iterator[str]:
    if of.unwatched:
        total_s = sum(gap.to_ns - gap.from_ns for gap in of.unwatched) / NS_PER_S
        yield f"  not watched: {duration(total_s)} in {len(of.unwatched)} times"
    for gap in of.unwatched[-_GAPS_SHOWN:]:
        long = duration((gap.to_ns - gap.from_ns) / NS_PER_S)
        yield f"    from {time_text(gap.from_ns)} for {long}: {gap.why}"


def _alarms(of: Status) -> Iterator[str]:
    yield f"open alarms: {len(of.alarms)} ({of.ended} have ended)"
    for alarm in of.alarms:
        records = "" if alarm.records is None else f"; records at risk: {alarm.records:,}"
        yield f"  {alarm.severity.value.upper():6} {alarm.rule}: {alarm.what}"
        yield f"         since {time_text(alarm.opened_ns)}, last seen {time_text(alarm.seen_ns)}{records}"
        yield f"         To do: {alarm.remedy}"
