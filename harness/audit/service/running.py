"""One auditor from its start to its end: connects its sources, rules and sinks, and works until a signal ends it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TextIO

from harness.audit.alarms.lines import Lines
from harness.audit.alarms.sink import EventSink
from harness.audit.alarms.webhook import Webhook
from harness.audit.engine.auditor import Auditor
from harness.audit.feeds.feed import Position
from harness.audit.rules.own_coverage import Blind
from harness.audit.rules.reported import OverBudget, Probe
from harness.audit.rules.rule import Rule, Suspicion
from harness.audit.service.budget import Budget
from harness.audit.service.budget_option import size_text
from harness.audit.service.introduction import introduction, introduction_json, watching
from harness.audit.service.options import AuditOptions
from harness.audit.service.probe import ProbeChild, task_of
from harness.audit.service.rules_file import Configured, configured
from harness.audit.service.signals import EndedEarly, Signals
from harness.audit.service.sources import Opened, open_sources
from harness.audit.service.static import STATIC, StaticSettings
from harness.audit.service.vitals import FACT, Vitals, VitalSigns, Watch, vitals_from
from harness.audit.service.watch_list import watched
from harness.audit.store.database import Database, Unwatched
from harness.audit.store.lock import locked
from harness.kafka.admin.addresses import addresses_of
from harness.kafka.admin.client_config import client_config
from harness.kafka.admin.described_cluster import DescribedCluster
from harness.kafka.admin.reach import reach
from harness.kafka.admin.security import security_in
from harness.model.errors import BadInput

if TYPE_CHECKING:
    from harness.audit.alarms.metrics import Metrics

_CLUSTER: Final = "cluster_id"
_SOURCE: Final = "source"
_DESCRIBED_S: Final = 60.0
_SINCE: Final = "watched_since"
_IDLE: Final = "metadata.max.idle.interval.ms"
_TIER: Final = "remote.log.storage.system.enable"
Post = Callable[[bytes], str | None]


def watch(options: AuditOptions, out: TextIO, post: Post | None) -> None:
    """Watches the cluster until SIGTERM or SIGINT. post: sends a body to the webhook, see `Webhook`.

    BadInput, in one sentence, if it cannot start.
    """
    with Signals() as signals:
        try:
            _watch(options, out, post, signals)
        except EndedEarly:
            what = "A signal ended the auditor before it watched; it continues where the last one stopped."
            print(_said("ended", what, as_json=options.as_json), file=out, flush=True)


def _watch(options: AuditOptions, out: TextIO, post: Post | None, signals: Signals) -> None:
    rules = configured(options.rules, options.budget)
    bootstrap = addresses_of(options.bootstrap)
    security = security_in(options.command_config)
    with ExitStack() as stack:
        stack.enter_context(locked(options.db))
        cluster = reach(bootstrap, security)
        database = _database(options, cluster)
        stack.callback(database.close)
        static = StaticSettings(cluster.brokers, security)
        stack.callback(static.close)
        _check_source(options, database)
        opened = open_sources(options, cluster, security, _resume(database), static.missing)
        stack.callback(opened.close)
        opened.coverage.add("probe", None if options.probe is not None else "no --probe was given")
        _Running(options, rules, cluster, database, static, opened, stack, signals).run(out, post)


def _database(options: AuditOptions, cluster: DescribedCluster) -> Database:
    """The database of this cluster; BadInput if it is that of another one."""
    database = Database(options.db)
    known = database.fact(_CLUSTER)
    if known is not None and known != cluster.cluster_id:
        database.close()
        raise BadInput(
            f"--db {options.db} is about the cluster {known}, and --bootstrap is {cluster.cluster_id}; give each "
            "cluster a folder of its own"
        )
    if known is None:
        database.put_fact(_CLUSTER, cluster.cluster_id)
        database.put_fact(_SINCE, str(time.time_ns()))
    return database


def _check_source(options: AuditOptions, database: Database) -> None:
    """BadInput if the database is that of an auditor with the metadata log, and this one has none, or the other way
    round: what one of them saw is not where the other one could continue."""
    known = database.fact(_SOURCE)
    wanted = "brokers" if options.without_log else "log"
    if known is not None and known != wanted:
        has = "without" if options.without_log else "with"
        other = "with" if options.without_log else "without"
        raise BadInput(
            f"--db {options.db} is of an auditor {other} the metadata log, and this one is {has} it; give another "
            "folder"
        )
    if known is None:
        database.put_fact(_SOURCE, wanted)


def _resume(database: Database) -> Position | None:
    progress = database.progress()
    return Position(progress.next_offset, progress.epoch) if progress.epoch >= 0 else None


class _Running:
    """The parts of one auditor. Its methods run in the thread of the engine."""

    def __init__(
        self,
        options: AuditOptions,
        rules: Configured,
        cluster: DescribedCluster,
        database: Database,
        static: StaticSettings,
        opened: Opened,
        stack: ExitStack,
        signals: Signals,
    ) -> None:
        self._signals = signals
        self._options, self._rules, self._database, self._static, self._stack = options, rules, database, static, stack
        self._opened = opened
        self._cluster_id = cluster.cluster_id
        self._budget = Budget(rules.budget, lambda: opened.looker.received_bytes)
        self._watched = watched(options.topics)
        self._watch = Watch(
            cluster_id=cluster.cluster_id,
            bootstrap=options.bootstrap,
            feed=opened.feed.name,
            topics=options.topics,
            groups=options.groups,
            rules=tuple(rules.rules),
            covered=tuple(sorted(opened.coverage.covered)),
            asked=tuple(sorted(opened.coverage.asked)),
            not_covered=opened.coverage.missing,
        )
        self._sinks: dict[str, EventSink] = {}
        self._metrics: Metrics | None = None
        self._signs: VitalSigns | None = None
        self._probe: ProbeChild | None = None
        self._known: Mapping[str, str] | None = None  # the static settings that the database has
        self._said = False

    def run(self, out: TextIO, post: Post | None) -> None:
        self._open_sinks(out, post)
        self._start_probe()
        _allow_idle(self._rules.rules, self._static.newest, without_log=self._options.without_log)
        self._note_downtime()
        auditor = Auditor(
            self._opened.for_engine(),
            self._database,
            self._rules.rules,
            self._sinks.values(),
            budget=self._budget,
            watched=self._watched,
            heartbeats=self._static.newest.get(_IDLE) != "0" and not self._options.without_log,
            on_tick=self._tick,
        )
        self._stack.callback(auditor.close)
        self._opened.use(auditor.state)
        self._signs = VitalSigns(auditor, self._watch, lambda: self._budget.option, self._watched)
        self._introduce(None if self._metrics is None else self._metrics.port)
        self._signals.watching()
        auditor.run(self._signals.stop)
        whole = self._options.last_round_s > 0 and auditor.finish(self._options.last_round_s)
        self._database.put_fact(FACT, self._vitals(whole=whole).text())
        self._say("ended", "A signal ended the auditor; all that it knows is saved.")

    def _open_sinks(self, out: TextIO, post: Post | None) -> None:
        lines = Lines(out, cluster_id=self._cluster_id, as_json=self._options.as_json)
        self._sinks["lines"] = lines
        if post is not None:
            self._sinks["webhook"] = Webhook(post, cluster_id=self._cluster_id)
        for sink in self._sinks.values():
            self._stack.callback(sink.close)
        if self._options.metrics is not None:
            from harness.audit.alarms.metrics import Metrics  # its library takes 4 MiB

            self._metrics = Metrics(self._options.metrics)
            self._stack.callback(self._metrics.close)

    def _start_probe(self) -> None:
        options, rule = self._options, self._rules.rules.get(Probe.name)
        if options.probe is None:
            return
        client = {} if options.command_config is None else client_config(options.command_config)
        tiered = self._static.newest.get(_TIER) == "true"
        task = task_of(options.bootstrap, client, options.probe, options.db, tiered=tiered)
        self._probe = ProbeChild(task, rule if isinstance(rule, Probe) else None)
        self._stack.callback(self._probe.close)

    def _introduce(self, port: int | None) -> None:
        budget, db = self._budget.option, self._options.db
        if self._options.as_json:
            self._sinks["lines"].put(introduction_json(self._watch, budget, db, port))
            return
        for text in introduction(self._watch, self._rules.rules, budget, db, port):
            self._sinks["lines"].put(text)

    def _say(self, event: str, text: str) -> None:
        """A line on standard output that is about no alarm."""
        self._sinks["lines"].put(_said(event, text, as_json=self._options.as_json))

    def _note_downtime(self) -> None:
        """The time since the last auditor of this database ended is one that was not watched."""
        text = self._database.fact(FACT)
        if text is None:
            return
        why = "no auditor ran; the metadata log of this time is read now, but offsets were not looked at"
        self._database.put_unwatched(Unwatched(vitals_from(text).at_ns, time.time_ns(), why))

    # Once a second

    def _tick(self, auditor: Auditor) -> None:
        if self._static.newest is not self._known:
            self._known = auditor.state.static = self._static.newest
            self._database.keep_fact(STATIC, json.dumps(self._known))
        if self._signals.reload.is_set():
            self._signals.reload.clear()
            self._read_again()
        self._check_memory()
        vitals = self._vitals()
        self._database.keep_fact(FACT, vitals.text())
        if self._metrics is not None:
            self._metrics.show(vitals)
        if not self._said and auditor.counts.last_offset >= 0:
            self._said = True
            self._say("watching", watching(vitals))

    def _vitals(self, *, whole: bool = False) -> Vitals:
        assert self._signs is not None
        delivered = {name: sink.delivered for name, sink in self._sinks.items()}
        vitals = self._signs.take(delivered, self._opened.looker.forbidden, whole=whole)
        probe = self._probe
        if probe is None:
            return vitals
        vitals = replace(vitals, probe=dict(probe.counts))
        if probe.problem is None:
            return vitals
        covered = tuple(source for source in vitals.covered_now if source != Probe.name)
        return replace(vitals, covered_now=covered, refusals={**vitals.refusals, Probe.name: probe.problem})

    def _check_memory(self) -> None:
        rule = self._rules.rules.get(OverBudget.name)
        if not isinstance(rule, OverBudget):
            return
        rule.now = self._budget.over_memory
        if rule.now:
            used, allowed = size_text(self._budget.memory_bytes), size_text(self._budget.option.memory_bytes)
            what = f"The auditor uses {used} of memory, and its budget allows {allowed}."
            rule.mailbox.report(Suspicion(rule=rule.name, cause="memory", what=what, at_ns=time.time_ns()))

    def _read_again(self) -> None:
        """After SIGHUP: limits, severities and the budget of the file. A file that cannot be used changes nothing."""
        try:
            changed = configured(self._options.rules, self._options.budget)
        except BadInput as refused:
            self._say("refused", f"SIGHUP changed nothing: {refused}")
            return
        self._budget.change(changed.budget)
        kept = self._rules.rules
        for name in kept.keys() & changed.rules.keys():
            kept[name].reconfigure(changed.rules[name])
        _allow_idle(kept, self._static.newest, without_log=self._options.without_log)
        self._say("changed", f"SIGHUP: limits and severities were read again; budget: {changed.budget}")
        if switched := sorted(kept.keys() ^ changed.rules.keys()):
            self._say("refused", f"rules are switched on or off by a restart only: {', '.join(switched)}")


def _said(event: str, text: str, *, as_json: bool) -> str:
    return json.dumps({"event": event, "what": text}) if as_json else text


def _allow_idle(rules: Mapping[str, Rule], static: Mapping[str, str], *, without_log: bool) -> None:
    """Controllers that write their heartbeat more rarely than by default are not silent for that, and brokers take a
    while to describe a large cluster."""
    blind, idle_ms = rules.get(Blind.name), static.get(_IDLE, "")
    if blind is not None:
        least_s = _DESCRIBED_S if without_log else 2 * int(idle_ms) / 1000 + 1 if idle_ms.isdigit() else 0.0
        blind.limit = {**blind.limit, "silent_s": max(blind.limit["silent_s"], least_s)}
