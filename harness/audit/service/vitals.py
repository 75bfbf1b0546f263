"""How an auditor is doing: what it watches, how far it is, and what it costs. Metrics and `audit status` show it."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from harness.audit.alarms.alarm import Alarm
from harness.audit.alarms.outbox import Delivered
from harness.audit.engine.auditor import Auditor
from harness.audit.engine.looks import LookReason
from harness.audit.service.budget_option import BudgetOption
from harness.model.clock import NS_PER_S

FACT: Final = "vitals"  # its name in the database
_NAMED: Final = 1000
_COUNT_EVERY_S: Final = 10.0
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The task of this auditor, and the sources that it has. They do not change while it runs.

    covered, asked: sources that are there, and those that count from their first answer on; names as in `View.covers`.
    not_covered: source -> why it is not there.
    """

    cluster_id: str
    bootstrap: str
    feed: str
    topics: tuple[str, ...] = ()  # patterns; empty = all
    groups: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    not_covered: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """One moment of an auditor. Times are the wall clock of its machine. `alarms`: (rule, severity, open ones)."""

    watch: Watch
    pid: int
    started_ns: int
    at_ns: int
    topics: int  # that are watched
    partitions: int
    covered_now: tuple[str, ...]
    alarms: tuple[tuple[str, str, int], ...]
    alarms_by_rule: Mapping[str, int]  # all since the start
    records: int
    metadata_offset: int
    behind: int  # committed records of the metadata log that were not read yet
    silent_s: float  # since something was heard of the metadata log
    blind_s: float
    unwatched_s: float  # all times that the database knows of
    looks: int
    refused_looks: int
    suspicions: int
    dismissed: int
    round_s: float | None  # how long the last whole round of looks took
    round_ended_ns: int | None
    overdue_s: float
    cpu_s: float
    memory_bytes: int
    budget: BudgetOption
    undelivered: Mapping[str, Delivered] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)  # sources that do not answer, and why
    failed_rules: Mapping[str, str] = field(default_factory=dict)  # that are off by a defect, and why
    forbidden: tuple[str, ...] = ()  # topics that this client may not describe
    probe: Mapping[str, int] = field(default_factory=dict)
    ordered_looks: Mapping[str, int] = field(default_factory=dict)  # by their reason, see `LookReason`
    waiting: int = 0  # suspicions that no look has decided yet
    put_off: int = 0  # looks at them that were put off, see `SecondLooks`
    whole: bool = False  # it has ended, looked at every partition once more before, and no rule failed

    def text(self) -> str:
        return json.dumps(asdict(self))

    @property
    def sources(self) -> list[str]:
        """All sources, whether they are there or not."""
        return sorted({*self.watch.covered, *self.watch.asked, *self.watch.not_covered, *self.covered_now})


def vitals_from(text: str) -> Vitals:
    """The vitals that `Vitals.text` wrote."""
    plain = json.loads(text)
    watch = plain["watch"]
    lists = {key: tuple(watch[key]) for key in ("topics", "groups", "rules", "covered", "asked")}
    return Vitals(
        **{
            **plain,
            "watch": Watch(**{**watch, **lists}),
            "covered_now": tuple(plain["covered_now"]),
            "forbidden": tuple(plain["forbidden"]),
            "alarms": tuple((rule, severity, int(count)) for rule, severity, count in plain["alarms"]),
            "budget": BudgetOption(**plain["budget"]),
            "undelivered": {name: Delivered(**of) for name, of in plain["undelivered"].items()},
        }
    )


def memory_bytes() -> int:
    """The resident memory of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


def open_alarms(alarms: Iterable[Alarm]) -> tuple[tuple[str, str, int], ...]:
    counts = Counter((alarm.rule, alarm.severity.value) for alarm in alarms)
    return tuple((rule, severity, count) for (rule, severity), count in sorted(counts.items()))


@dataclass(slots=True)
class VitalSigns:
    """Takes the vitals of an auditor, in its own thread. What is slow to count is counted now and then."""

    auditor: Auditor
    watch: Watch
    budget: Callable[[], BudgetOption]
    watched: Callable[[str], bool]
    started_ns: int = field(default_factory=time.time_ns)
    _counted_s: float = -_COUNT_EVERY_S
    _topics: int = 0
    _partitions: int = 0
    _unwatched_s: float = 0.0
    _round_ended: tuple[float, int] | None = None  # the monotonic time of the engine, and the wall clock

    def take(
        self, undelivered: Mapping[str, Delivered], forbidden: Iterable[str] = (), *, whole: bool = False
    ) -> Vitals:
        auditor, counts = self.auditor, self.auditor.counts
        self._count()
        return Vitals(
            watch=self.watch,
            pid=os.getpid(),
            started_ns=self.started_ns,
            at_ns=time.time_ns(),
            topics=self._topics,
            partitions=self._partitions,
            covered_now=tuple(sorted(auditor.state.covered)),
            alarms=open_alarms(auditor.incidents.open),
            alarms_by_rule=dict(counts.by_rule),
            records=counts.records,
            metadata_offset=counts.last_offset,
            behind=counts.behind,
            silent_s=auditor.silent_s,
            blind_s=counts.blind_s,
            unwatched_s=self._unwatched_s,
            looks=counts.looks,
            refused_looks=counts.refused_looks,
            suspicions=counts.suspicions,
            dismissed=auditor.second_looks.dismissed,
            round_s=auditor.rounds.round_s,
            round_ended_ns=self._round_ended_ns(),
            overdue_s=auditor.overdue_s,
            cpu_s=time.process_time(),
            memory_bytes=memory_bytes(),
            budget=self.budget(),
            undelivered=dict(undelivered),
            refusals=dict(auditor.refusals),
            failed_rules=dict(auditor.guard.failed),
            forbidden=tuple(sorted(forbidden))[:_NAMED],
            ordered_looks={reason.value: auditor.rounds.ordered[reason] for reason in LookReason},
            waiting=len(auditor.second_looks),
            put_off=auditor.second_looks.put_off,
            whole=whole and not auditor.guard.failed,
        )

    def _count(self) -> None:
        now_s = time.monotonic()
        if now_s - self._counted_s < _COUNT_EVERY_S and self._partitions:
            return
        self._counted_s = now_s
        packed = self.auditor.state.packed
        ids = {topic_id for topic_id in packed.topic_ids() if self.watched(packed.topic(topic_id) or "")}
        self._topics, self._partitions = len(ids), sum(1 for topic_id, _ in packed.places() if topic_id in ids)
        self._unwatched_s = sum(gap.to_ns - gap.from_ns for gap in self.auditor.database.unwatched()) / NS_PER_S

    def _round_ended_ns(self) -> int | None:
        ended_s = self.auditor.rounds.ended_s
        if ended_s is None:
            return None
        if self._round_ended is None or self._round_ended[0] != ended_s:
            ago_ns = int((time.monotonic() - ended_s) * NS_PER_S)
            self._round_ended = ended_s, time.time_ns() - ago_ns
        return self._round_ended[1]
