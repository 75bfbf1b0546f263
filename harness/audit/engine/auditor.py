"""The auditor: follows the metadata log, looks at partitions, asks the rules, and keeps what it knows.

One thread reads the metadata log, and one looks at partitions. A third, which calls `run`, alone has the state, the
rules and the database, so changes and looks have one order.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from harness.audit.alarms.incidents import Incidents, Sink
from harness.audit.engine.budget import CpuBudget
from harness.audit.engine.cluster_state import ClusterState
from harness.audit.engine.failure import Failed
from harness.audit.engine.follower import FollowerThread, Silence
from harness.audit.engine.guard import Guard
from harness.audit.engine.looker import Looked, Looker, LookThread
from harness.audit.engine.looks import LookReason, Rounds
from harness.audit.engine.second_looks import SecondLooks
from harness.audit.engine.source import Row, Rows, Source, SourceThread
from harness.audit.engine.view import View
from harness.audit.feeds.feed import Feed, Portion
from harness.audit.feeds.tier_metadata import TierRow
from harness.audit.look import CommitLook, LogStartReason, ObjectLook, PartitionLook, TransactionLook
from harness.audit.rules.own_coverage import RuleFailed
from harness.audit.rules.rule import Rule, Suspicion
from harness.audit.store.database import Database, Progress, Unwatched
from harness.model.clock import NS_PER_S
from harness.model.history.changes import AnyChange, PartitionChange, Problem, UnknownChange

TICK_S: Final = 1.0
_LATENCY_S: Final = 0.1  # after which it sees that it is to stop
_SILENT_POLL_S: Final = 3.0  # a feed that had nothing new may have asked its source so long ago
_SAVE_OFFSETS_S: Final = 30.0  # offsets in the file may be older than those in memory: they only make rules weaker
Event: TypeAlias = Portion | Silence | Looked | Rows | Failed | None


@dataclass(slots=True)
class Counts:
    """What the auditor has done since it was started, for metrics."""

    records: int = 0
    looks: int = 0
    refused_looks: int = 0
    suspicions: int = 0
    last_offset: int = -1
    behind: int = 0  # committed records of the metadata log that the feed has still to deliver
    blind_s: float = 0.0
    by_rule: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the auditor gets its knowledge. Each is optional; what lacks is stated as coverage."""

    feed: Feed | None = None
    looker: Looker | None = None
    others: Sequence[Source] = ()
    coverage: frozenset[str] = frozenset()  # of feed and looker; the others name their own


class Auditor:
    """One cluster. `run` returns when `stop` is set; `close` ends the threads.

    watched: whether a topic is audited. look_every_s: how often each partition is looked at, if the budget allows.
    heartbeats: False if the controllers write no NoOp records (metadata.max.idle.interval.ms=0), so that silence of
    the metadata log says nothing as long as its source answers.
    """

    def __init__(
        self,
        sources: Sources,
        database: Database,
        rules: Mapping[str, Rule],
        sinks: Iterable[Sink] = (),
        *,
        budget: CpuBudget | None = None,
        look_every_s: float = 1.0,
        watched: Callable[[str], bool] = lambda _topic: True,
        heartbeats: bool = True,
        on_tick: Callable[[Auditor], None] = lambda _auditor: None,
    ) -> None:
        self.counts: Final = Counts()
        self.state: Final = ClusterState(self._changed)
        self.budget: Final = budget or CpuBudget()
        self.database: Final = database
        self.rules: Final = rules
        self.guard: Final = Guard(self._rule_failed)
        self.incidents: Final = Incidents(database, rules, sinks, self.guard)
        self.rounds: Final = Rounds(self.state, look_every_s, watched)
        self.second_looks: Final = SecondLooks(self.state, self.rounds, rules, self._alarm, self.guard)
        self._of_changes = [(r.name, r.on_change) for r in rules.values() if type(r).on_change is not Rule.on_change]
        self._of_looks = [(r.name, r.on_look) for r in rules.values() if type(r).on_look is not Rule.on_look]
        self._watched = watched
        self._heartbeats = heartbeats
        self._on_tick = on_tick
        self._coverage = sources.coverage
        self._events: queue.Queue[Event] = queue.Queue(maxsize=64)
        self._refusals: dict[str, str] = {}  # sources that do not answer, and why
        self._answered: set[str] = set()  # sources that have given all that was there at least once
        self._offsets_saved_s = time.monotonic()
        self.state.restore(database)
        self._know_restored()
        self._progress = database.progress()
        self._fresh = self._progress.epoch < 0
        # At the first start: records below it happened before, and only one that cannot be read still matters.
        self._history_end = 0
        # Until the log was read to its end, the state may lack what an open alarm is about.
        self._caught_up = sources.feed is None
        self._heard_s = time.monotonic()
        self._silence = "no record came"
        if sources.feed is not None and "metadata" in sources.coverage:
            self.state.known_ns = 0
        self._follower = FollowerThread(sources.feed, self._events.put) if sources.feed else None
        self._looks = LookThread(sources.looker, self._events.put) if sources.looker else None
        self._others = SourceThread(sources.others, self._events.put) if sources.others else None

    def run(self, stop: threading.Event) -> None:
        """Works until `stop` is set, and saves then."""
        self.incidents.repeat()
        self._work(stop.is_set)
        self.incidents.settle()
        self.save(offsets_too=True)

    def finish(self, deadline_s: float) -> bool:
        """After `run`: looks at every partition once more, and at suspicions. Returns whether that ended in time."""
        self.rounds.restart()
        give_up_s = time.monotonic() + deadline_s
        self._work(lambda: self._finished or time.monotonic() > give_up_s)
        self.save(offsets_too=True)
        return self._finished

    @property
    def _finished(self) -> bool:
        idle = self._looks is None or (self._looks.free and self.rounds.ended_s is not None)
        return idle and self._events.empty() and not len(self.second_looks)

    def _work(self, done: Callable[[], bool]) -> None:
        next_tick_s = time.monotonic()
        while not done():
            left_s = next_tick_s - time.monotonic()
            if left_s > 0:
                self._next_event(min(left_s, _LATENCY_S))
            else:
                self._tick()
                next_tick_s = time.monotonic() + TICK_S
            self._order()

    def close(self) -> None:
        """Ends the threads, then the database."""
        for thread in (self._follower, self._looks, self._others):
            if thread is not None:
                thread.close()
        self.database.close()

    @property
    def silent_s(self) -> float:
        """Since something was heard of the metadata log."""
        return time.monotonic() - self._heard_s

    @property
    def overdue_s(self) -> float:
        """The age of the oldest look beyond its due time. Without a looker none is due."""
        return 0.0 if self._looks is None else self.rounds.late_s

    @property
    def refusals(self) -> Mapping[str, str]:
        """The sources that did not answer when they were asked last, and why."""
        return self._refusals

    def _next_event(self, wait_s: float) -> None:
        try:
            event = self._events.get(timeout=wait_s)
        except queue.Empty:
            return
        self.take(event)
        if isinstance(event, Looked) and self._looks is not None:
            self._looks.used()
        elif not isinstance(event, Rows) and self._follower is not None:
            self._follower.used()

    def take(self, event: Event) -> None:
        """Uses one event of a source. Events of different sources may come in any order."""
        match event:
            case Portion():
                self._portion(event)
            case Looked():
                self._looked(event)
            case Rows():
                self._rows(event)
            case Failed():
                raise event.failure()
            case Silence():
                self._silence = event.why
            case None if not self._heartbeats:
                self._heard_s = time.monotonic()
                self._know(self._heard_s - _SILENT_POLL_S)

    def _know_restored(self) -> None:
        """Rules about what lasts begin with the partitions that the database has."""
        of_known = [rule for rule in self.rules.values() if type(rule).on_known is not Rule.on_known]
        for state in self.state.partitions() if of_known else ():
            for rule in of_known:
                self.guard.answer(rule.name, None, rule.on_known, state, self.state)

    # The metadata log

    def _portion(self, portion: Portion) -> None:
        now_ns = time.time_ns()
        if portion.missed is not None and not self._fresh:
            self.database.put_unwatched(Unwatched(self._progress.watched_ns, now_ns, portion.missed))
        if self._fresh:
            self._history_end = portion.high_watermark
        if portion.snapshot is not None:
            self.state.load(portion.snapshot)
        self.state.apply(portion.batches)
        for problem in self.state.take_problems():
            self._ask(partial(_on_problem, problem, self.state))
        self.counts.records += sum(len(batch.entries) for batch in portion.batches)
        self.counts.last_offset = portion.next_offset - 1
        self.counts.behind = max(0, portion.high_watermark - portion.next_offset)
        self._caught_up = self._caught_up or not self.counts.behind
        self._heard_s = time.monotonic()  # and not that of the answer, as a large snapshot takes seconds to load
        self._fresh = False
        if portion.batches:  # a snapshot is older than the question
            self._know(portion.asked_at_s)
        position = portion.position
        # Records of an open transaction have no effect yet: after a restart all of them are read again.
        if position is not None and self.state.replay.open_from is None:
            self._progress = Progress(position.offset, position.epoch, now_ns)

    def _know(self, asked_at_s: float) -> None:
        """All that was committed when the feed asked is known, if nothing of it is left. Looks up to then count."""
        if self.counts.behind == 0 and self.state.known_ns is not None:
            self.state.known_ns = time.time_ns() - int((time.monotonic() - asked_at_s) * NS_PER_S)
            self.second_looks.ask()

    def _changed(self, after: AnyChange, before: AnyChange | None) -> None:
        for rule, on_change in self._of_changes:
            for suspicion in self.guard.suspicions(rule, on_change, after, before, self.state):
                if after.offset >= self._history_end or isinstance(after, UnknownChange):
                    self._suspect(suspicion)
        if isinstance(after, PartitionChange) and not after.from_snapshot and self._watched(after.topic):
            self.rounds.soon(after.topic_id, after.partition, LookReason.CHANGE)

    # Looks

    def _order(self) -> None:
        if self._looks is None or not self._looks.free:
            return
        asked = self.rounds.urgent()  # the budget slows rounds down, and never a suspicion
        if not asked and self.budget.allows():
            asked = self.rounds.next()
        if asked:
            self._looks.order(asked)

    def _looked(self, looked: Looked) -> None:
        if looked.refused is not None:
            self.counts.refused_looks += len(looked.asked)
            return  # ticks ask again for suspicions, and rounds for the rest
        for look in looked.looks:
            self._look(look)

    def _look(self, look: PartitionLook) -> None:
        self.counts.looks += 1
        place = look.topic_id, look.partition
        if self.state.partition(*place) is None:
            return  # deleted meanwhile
        before = self.state.offsets(*place)
        self.second_looks.answered(look)
        for rule, on_look in self._of_looks:
            for suspicion in self.guard.suspicions(rule, on_look, look, before, self.state):
                self._suspect(suspicion, of_look=True)
        # An answer of a deposed leader that was on its way is older than what is known.
        if look.error is None and look.offsets.leader_epoch >= before.leader_epoch and look.offsets != before:
            self.state.packed.put_offsets(*place, look.offsets)
        if look.epochs:
            self.state.put_epochs(*place, look.epochs, look.offsets.log_start)

    # Other sources

    def _rows(self, rows: Rows) -> None:
        if rows.refused is not None:
            self._refusals[rows.covers] = rows.refused
        else:
            self._refusals.pop(rows.covers, None)
            self._answered.add(rows.covers)
            self.state.covered.add(rows.covers)
        for row in rows.rows:
            self._row(row)

    def _row(self, row: Row) -> None:
        match row:
            case CommitLook():
                before = self.state.put_commit(row)
                self._ask(lambda rule: rule.on_commit(row, before, self.state))
            case TransactionLook():
                self._ask(lambda rule: rule.on_transaction(row, self.state))
            case LogStartReason():
                self._ask(lambda rule: rule.on_log_start(row, self.state))
            case ObjectLook():
                self._ask(lambda rule: rule.on_object(row, self.state))
            case TierRow():
                changed = self.state.segments.apply(row.record)
                if changed is not None and not row.past:
                    self._ask(lambda rule: rule.on_segment(*changed, self.state))

    def _ask(self, question: Callable[[Rule], Iterable[Suspicion]]) -> None:
        """Asks every rule."""
        for rule in self.rules.values():
            for suspicion in self.guard.suspicions(rule.name, question, rule):
                self._suspect(suspicion)

    def _rule_failed(self, rule: str, why: str) -> None:
        known = self.rules[RuleFailed.name]
        assert isinstance(known, RuleFailed)  # it cannot be switched off
        self._alarm(known.suspicion(rule, why, time.time_ns()))

    def _suspect(self, suspicion: Suspicion, *, of_look: bool = False) -> None:
        if suspicion.topic and not self._watched(suspicion.topic):
            return
        self.counts.suspicions += 1
        if not suspicion.needs_look or suspicion.partition is None or self._looks is None:
            self._alarm(suspicion)
            return
        self.second_looks.add(suspicion, suspicion.partition, of_look=of_look)

    def _alarm(self, suspicion: Suspicion) -> None:
        rated = self.rules[suspicion.rule].rated(suspicion)
        if rated is None:
            return
        self.counts.by_rule[suspicion.rule] = self.counts.by_rule.get(suspicion.rule, 0) + 1
        self.incidents.add(rated, time.time_ns())

    # Once a second

    def _tick(self) -> None:
        self._cover()
        self._ask(lambda rule: rule.on_tick(self.state))
        self.second_looks.tick()
        self.incidents.settle()
        if self._caught_up:
            self.incidents.end_over(self.state)
        self._on_tick(self)
        self.save(offsets_too=time.monotonic() - self._offsets_saved_s > _SAVE_OFFSETS_S)

    def _cover(self) -> None:
        """What is covered now, and alarms about what is not."""
        covered = set(self._coverage)
        silent_s = self.silent_s
        if self._follower is None or silent_s > self.rules["blind"].limit["silent_s"]:
            covered.discard("metadata")
            if self._follower is not None:
                self.counts.blind_s += TICK_S
                what = f"The metadata log has been silent for {silent_s:.1f} s ({self._silence})."
                self._suspect(Suspicion(rule="blind", cause="metadata log", what=what, at_ns=time.time_ns()))
        late_s, limit_s = self.overdue_s, self.rules["overdue"].limit["round_s"]
        if late_s > limit_s:
            covered.discard("offsets")
            what = f"A round over all partitions should have been over {late_s:.0f} s ago."
            self._suspect(Suspicion(rule="overdue", cause="round of looks", what=what, at_ns=time.time_ns()))
        self.state.covered = covered | (self._answered - self._refusals.keys())

    def save(self, *, offsets_too: bool) -> None:
        """Writes what the database lacks."""
        self.database.save(
            self.state.packed,
            self._progress,
            offsets_too=offsets_too,
            entities=self.state.take_entities(),
            chains=self.state.take_chains(),
        )
        if offsets_too:
            self._offsets_saved_s = time.monotonic()


def _on_problem(problem: Problem, view: View, rule: Rule) -> Iterable[Suspicion]:
    return rule.on_problem(problem, view)
