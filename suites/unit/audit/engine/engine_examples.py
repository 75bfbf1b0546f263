"""An auditor with a feed and a looker that the test drives, and a rule that suspects what the test says."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from harness.audit.alarms.alarm import Alarm
from harness.audit.alarms.event import Event
from harness.audit.engine.auditor import Auditor, Sources
from harness.audit.engine.looker import Asked
from harness.audit.engine.view import View
from harness.audit.feeds.feed import FeedSilent, Portion
from harness.audit.look import PartitionLook
from harness.audit.rules.own_coverage import Blind, Overdue, RuleFailed
from harness.audit.rules.rule import Rule, Suspicion
from harness.audit.store.database import Database
from harness.audit.store.partitions import Offsets
from harness.model.history.changes import AnyChange, PartitionChange
from harness.model.history.log import LogBatch, Record, Snapshot
from harness.model.severity import Severity
from suites.unit.model.history.logs import batches


class DrivenFeed:
    """Gives the portions that the test puts."""

    name = "test"

    def __init__(self) -> None:
        self.portions: queue.Queue[Portion | str] = queue.Queue()
        self._end = 0

    def put(
        self,
        *records: Record,
        first: int | None = None,
        snapshot: Snapshot | None = None,
        missed: str | None = None,
        committed: int | None = None,
    ) -> None:
        start = self._end if first is None else first
        made: tuple[LogBatch, ...] = batches(*records, first=start)
        self._end = made[-1].last_offset + 1 if made else start
        self.portions.put(
            Portion(snapshot, made, self._end, self._end if committed is None else committed, time.monotonic(), missed)
        )

    def poll(self, wait_s: float) -> Portion | None:
        try:
            portion = self.portions.get(timeout=min(wait_s, 0.02))
        except queue.Empty:
            return None
        if isinstance(portion, str):
            raise FeedSilent(portion)
        return portion

    def close(self) -> None: ...


class DrivenLooker:
    """Answers with the offsets that the test has put; a partition without some has an error."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, int], Offsets | str] = {}
        self.asked: list[tuple[str, int]] = []
        self.hold = threading.Event()
        self.hold.set()

    def look(self, asked: Sequence[Asked]) -> Iterable[PartitionLook]:
        asked_ns = time.time_ns()
        self.hold.wait(10)
        for of in asked:
            self.asked.append((of.topic, of.partition))
            answer = self.answers.get((of.topic, of.partition), "NOT_LEADER_OR_FOLLOWER")
            error, offsets = (answer, Offsets()) if isinstance(answer, str) else (None, answer)
            yield PartitionLook(
                topic=of.topic,
                topic_id=of.topic_id,
                partition=of.partition,
                asked_ns=asked_ns,
                answered_ns=time.time_ns(),
                offsets=offsets,
                error=error,
            )

    def close(self) -> None:
        self.hold.set()


class LeaderLost(Rule):
    """Suspects each change without a leader; a second look confirms it if the high watermark is below 100."""

    name: ClassVar[str] = "leader-lost"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = "no leader"
    remedy: ClassVar[str] = "start a broker"
    source: ClassVar[str] = "test"

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        if isinstance(after, PartitionChange) and after.leader < 0:
            yield Suspicion(
                rule=self.name,
                cause=f"{after.topic}/{after.partition}",
                what=f"{after.topic}/{after.partition} has no leader.",
                at_ns=after.time_ns,
                topic=after.topic,
                topic_id=after.topic_id,
                partition=after.partition,
                metadata_offset=after.offset,
                needs_look=True,
            )

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        return suspicion if look.offsets.high_watermark < 100 else None

    def over(self, suspicion: Suspicion, view: View) -> bool:
        state = view.partition(suspicion.topic_id, suspicion.partition or 0)
        return state is None or state.leader >= 0


class WentBack(Rule):
    """Suspects each look with a lower high watermark than the last one had; every second look confirms it."""

    name: ClassVar[str] = "went-back"
    severity: ClassVar[Severity] = Severity.LOSS
    explanation: ClassVar[str] = "went back"
    remedy: ClassVar[str] = "none"
    source: ClassVar[str] = "test"

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        if look.offsets.high_watermark < before.high_watermark and look.error is None:
            yield Suspicion(
                rule=self.name,
                cause=f"{look.topic}/{look.partition}",
                what=f"{look.topic}/{look.partition} went back.",
                at_ns=look.answered_ns,
                topic=look.topic,
                topic_id=look.topic_id,
                partition=look.partition,
                needs_look=True,
            )


class Shown:
    """The sink of the test."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.alarms: list[Alarm] = []

    def show(self, event: Event, alarm: Alarm, *, repeated: bool = False) -> None:
        self.lines.append((f"{event.value} again" if repeated else event.value, alarm.incident))
        if event is Event.OPENED:
            self.alarms.append(alarm)

    @property
    def idle(self) -> bool:
        return True


class Driven:
    """An auditor that runs in a thread."""

    def __init__(self, folder: Path, rules: Iterable[Rule], *, empty: bool) -> None:
        self.feed, self.looker, self.shown = DrivenFeed(), DrivenLooker(), Shown()
        chosen = {rule.name: rule for rule in (*rules, Blind({"silent_s": 3600}), Overdue(), RuleFailed())}
        sources = Sources(self.feed, self.looker, coverage=frozenset({"metadata", "offsets"}))
        self.auditor = Auditor(sources, Database(folder), chosen, [self.shown], look_every_s=3600)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.auditor.run, args=(self._stop,))
        self._thread.start()
        if empty:
            self.feed.put()  # the log is empty at the start

    def end(self) -> None:
        self._stop.set()
        self._thread.join(20)
        self.auditor.close()


@contextmanager
def driven(folder: Path, *rules: Rule, empty: bool = True) -> Iterator[Driven]:
    """A running auditor, ended afterwards. empty: it has heard that the metadata log has no record yet."""
    running = Driven(folder, rules, empty=empty)
    try:
        yield running
    finally:
        running.end()
