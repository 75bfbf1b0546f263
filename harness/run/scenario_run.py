"""One scenario on one cluster, from new topics to a sealed evidence bundle. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from msgspec import structs

from harness.clusters import Cluster
from harness.clusters.metadata_history import history_of_cluster
from harness.evidence import BundleWriter
from harness.evidence.history import write_history
from harness.faults.steps import step_runner
from harness.faults.steps.step_context import StepContext
from harness.kafka.admin.client import AdminView
from harness.kafka.admin.positions import SampledTopic
from harness.model.backend import PROCESSES
from harness.model.clock import now_ns
from harness.model.contract.contract import sentinel_back_s
from harness.model.contract.internal_topics import internal_topics
from harness.model.documents.audit import AuditReport
from harness.model.documents.cluster import BrokerView, ClusterReports, ShareGroupOffset, Snapshot
from harness.model.documents.contract import Contract
from harness.model.documents.coordinators import CoordinatorLook
from harness.model.documents.manifest import Origin
from harness.model.documents.process_exit import ProcessExit
from harness.model.documents.reads import Read
from harness.model.documents.run import (
    CleanersAtRest,
    Floors,
    GroupsAtRest,
    Listener,
    Recovered,
    Run,
    Settled,
    TierAtRest,
    TransactionsEnded,
    Windows,
)
from harness.model.documents.steps import Steps
from harness.model.doubt_names import DoubtName, DoubtOrigin
from harness.model.errors import HarnessFailure, HarnessTimeout
from harness.model.pending import Pending
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.tier_rules import SEGMENTS_MIN, tiered_topics
from harness.model.verdict import Doubt
from harness.model.wait_budget import WaitBudget
from harness.run import broker_state, coordinators, load_floors, recovery, share_groups, tls_probe
from harness.run.admin_probe import AdminProbe
from harness.run.auditor import RunAuditor
from harness.run.cleaners import cleaners_at_rest
from harness.run.coordinator_states import CoordinatorStates
from harness.run.fault_windows import targets_of, windows_of
from harness.run.fetched_batches import fetch_batches
from harness.run.leader_watch import LeaderWatch, with_events
from harness.run.live_figures import LiveFigures
from harness.run.offset_lookups import AnswerWaits, look_up, look_up_again, look_up_epochs
from harness.run.position_sampler import PositionSampler
from harness.run.recorded_parts import recorded_parts
from harness.run.refusals import reads_refused, with_refusals
from harness.run.tier_probe import TierProbe
from harness.workload.access import Access
from harness.workload.consumers.catch_up import ALL_S, LEAST_S
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.consumers.unserved_reads import UnservedRead
from harness.workload.drain.drain import DrainPlan, drain
from harness.workload.drain.fetch_reads import DirectFetch
from harness.workload.drain.probe_places import COMMIT, Ask, asks_of, logs_of, non_committing_groups
from harness.workload.drain.probes import ProbeTimeouts, probe
from harness.workload.drain.replica_reads import ReadTimeouts
from harness.workload.java.java_process import JavaClients
from harness.workload.load import Load, LoadStats

Say = Callable[[str], None]

DISK_READ: Final = "disk.read"  # the capability without which no file of a broker can be read
TOPICS_DEADLINE_S: Final = 30.0
FLOWING_DEADLINE_S: Final = 45.0
# The longest transaction.timeout.ms, the coordinator's clean-up interval, and a margin for a busy machine.
TRANSACTIONS_DEADLINE_S: Final = 105.0
GROUPS_LEAST_S: Final = 10.0  # for groups, when the wait for the cluster took their time
# So many segments of each partition are in the remote tier before the first fault.
SEGMENTS_BEFORE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One run of a scenario, with all that it needs but a cluster.

    scenario: what runs. contract: of the scenario as declared, also where `scenario` is its negative control.
    negative_control: what that control changes; None for the scenario as declared.
    run: a number that marks the payloads of this run. java: the release's own clients, where the scenario has some.
    origin: release, backend and versions, for the manifest. prefix: of all names in a cluster that others use, too.
    rate_per_s: the most records a second of the whole load.
    """

    scenario: Scenario
    contract: Contract
    negative_control: str | None
    backend: str = PROCESSES
    seed: int
    run: int
    records: int
    out: Path
    java: JavaClients | None = None
    origin: Origin
    prefix: str | None = None
    rate_per_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """The bundle of a run.

    healthy: the cluster recovered without a doubt, and another scenario may use it. failed: a process of the release
    ended by itself, or every node ran and the cluster did not recover. Both are findings, whatever another run does.
    """

    bundle: Path
    healthy: bool
    doubts: tuple[Doubt, ...]
    failed: bool = False


def drive(task: Task, cluster: Cluster, say: Say) -> Driven:
    """Runs the scenario and seals its bundle. A failure of the cluster is evidence, and not an exception, also where a
    node does not start at all."""
    bundle = BundleWriter(task.out)
    record = _Record(task, cluster, bundle)
    record.write(finished=False)
    bundle.document("scenario.json", task.scenario.as_dict())
    try:
        cluster.bring_up()
        record.started_ns = now_ns()
        _run(record, say)
    except HarnessTimeout as late:
        record.doubt(DoubtName.HARNESS_TIMEOUT, str(late), late.origin)
    except HarnessFailure as broken:
        record.doubt(DoubtName.HARNESS_FAILED, str(broken), broken.origin)
    finally:
        bundle.close()
    record.note_exits()
    record.write(finished=record.finished)
    broker_state.save_logs(cluster, bundle)
    bundle.seal(with_java(structs.replace(task.origin, scenario=task.scenario.name, seed=task.seed), cluster.java))
    return Driven(
        bundle=task.out,
        healthy=record.finished and not record.doubts and not record.died,
        doubts=tuple(record.doubts),
        failed=record.crashed or record.recovered.pending is Pending.ISR_NOT_FULL,
    )


def with_java(origin: Origin, java: str | None) -> Origin:
    """The origin with the Java of the brokers, which is known once a cluster runs."""
    if origin.release is None or java is None:
        return origin
    return structs.replace(origin, release=structs.replace(origin.release, java=java))


class _Record:
    """The facts of the run so far, as run.json has them."""

    def __init__(self, task: Task, cluster: Cluster, bundle: BundleWriter) -> None:
        self.task = task
        self.scenario = task.scenario
        self.cluster = cluster
        self.bundle = bundle
        self.started_ns = now_ns()
        self.ended_ns: int | None = None
        self.finished = False
        self.steps: Steps = ()
        self.snapshots: list[Snapshot] = []
        self.doubts: list[Doubt] = []
        self.notes: list[str] = []
        self.recovered = Recovered(waited_s=0.0, last_seen="not asked")
        self.transactions_settled = Settled(waited_s=0.0, last_seen="not asked")
        self.transactions_ended = TransactionsEnded(waited_s=0.0, last_seen="not asked")
        self.readers_waited: Settled | None = None
        self.groups_at_rest = GroupsAtRest(waited_s=0.0, last_seen="not asked")
        self.cleaners_at_rest: CleanersAtRest | None = None
        self.tier_at_rest: TierAtRest | None = None
        self.load: LoadStats | None = None
        self.coordinators: CoordinatorLook | None = None  # at the end
        self.coordinators_under_load: CoordinatorLook | None = None
        self.has_history = False
        self.reported: ClusterReports | None = None
        self.share_groups: list[ShareGroupOffset] = []
        self.brokers: list[BrokerView] = []
        self.access = Access(cluster.client_settings(), prefix=task.prefix or "")
        self.listeners: list[Listener] = []  # results of tls_probe
        self.exits: tuple[ProcessExit, ...] | None = ()  # None: not known
        self.audit: AuditReport | None = None
        self.died = False  # a process ended although no fault let it end
        self.crashed = False  # and the machine did not end it
        self.budget = WaitBudget()
        self.leaders: LeaderWatch | None = None  # while it watches, and afterwards

    def own(self, transactional_id: str) -> bool:
        """Whether a transaction is one of this run: on a cluster of others, there are more."""
        return self.task.prefix is None or transactional_id.startswith(self.task.prefix)

    def doubt(self, name: DoubtName, text: str, origin: DoubtOrigin | None = None) -> None:
        self.doubts.append(Doubt(name, text, origin))

    def tiered(self, tier: TierProbe, settled: Settled) -> None:
        """Adds a doubt where segments are missing in the remote tier: reads from the tier were not exercised."""
        if not settled.ok:
            too_few = DoubtOrigin.SCENARIO if tier.copied_all() else None
            self.doubt(DoubtName.TIER_UNFILLED, settled.last_seen, too_few)

    def note_exits(self) -> None:
        """Takes the ends of processes that got no signal, also when the run broke off. Those by the machine are doubts.

        A node that ended by itself is no doubt but a finding, unless a fact covers it, which the judge decides.
        """
        try:
            ended, unexpected = self.cluster.exits(), self.cluster.unexpected_exits()
            self.exits = None if ended is None else tuple(ended)
        except HarnessFailure as broken:
            self.doubt(DoubtName.HARNESS_FAILED, str(broken), broken.origin)
            return
        self.died = bool(unexpected)
        self.crashed = any(one.machine_doubt is None for one in unexpected)
        self.doubts.extend(doubt for one in unexpected if (doubt := one.machine_doubt))
        self.cluster.forget_exits()

    def windows(self) -> Windows:
        return windows_of(self.started_ns, self.ended_ns or now_ns(), self.steps)

    def on_steps(self, rows: Steps) -> None:
        """Saves the rows after each step, so that a crash leaves them."""
        self.steps = rows
        self.bundle.document("steps.json", self.steps)

    def write(self, *, finished: bool) -> None:
        floors = self.scenario.floors
        secured = tls_probe.evidence(self.listeners, self.access.traffic) if self.scenario.shape.secure else None
        run = Run(
            finished=finished,
            contract=self.task.contract,
            negative_control=self.task.negative_control,
            started_ns=self.started_ns,
            ended_ns=self.ended_ns,
            windows=self.windows(),
            floors=Floors(before=floors.before, during=floors.during, after=floors.after),
            targets=tuple(targets_of(self.scenario)),
            doubts=tuple(self.doubts),
            notes=tuple(self.notes),
            capabilities=tuple(sorted(self.cluster.capabilities)),
            timestamps="send",
            groups_resume=True,
            begin_at_start=True,
            calls_recorded=None if self.scenario.kafka_streams else True,
            has_history=self.has_history,
            recovered=self.recovered,
            transactions_settled=self.transactions_settled,
            transactions_ended=self.transactions_ended,
            groups_at_rest=self.groups_at_rest,
            readers_waited=self.readers_waited,
            cleaners_at_rest=self.cleaners_at_rest,
            tier_at_rest=self.tier_at_rest,
            secured=secured,
            exits=self.exits,
            audit=self.audit,
            load=self.load or {},
            run=self.task.run,
        )
        parts = recorded_parts(run, self.reported, self.bundle.with_rows())
        self.bundle.document("run.json", structs.replace(run, recorded=parts))
        self.bundle.document("steps.json", self.steps)


def _run(record: _Record, say: Say) -> None:
    topics = None if record.task.prefix is None else f"{record.task.prefix}*"
    with broker_state.observer(record.cluster) as admin, closing(RunAuditor(record.cluster, topics)) as auditor:
        try:
            _run_observed(record, admin, say)
        finally:
            record.audit = auditor.end()


def _run_observed(record: _Record, admin: AdminView, say: Say) -> None:
    task, cluster, scenario = record.task, record.cluster, record.scenario
    topics = [topic.name for topic in scenario.topics]
    topic_ids = admin.create_topics(scenario.topics, deadline_s=TOPICS_DEADLINE_S)
    admin_probe = AdminProbe(admin, scenario, record.bundle)
    admin_probe.begin(TOPICS_DEADLINE_S)
    tier = TierProbe(cluster, admin, scenario, record.bundle)
    load = Load(
        scenario,
        bootstrap=cluster.bootstrap(),
        bootstrap_isolated=cluster.bootstrap_isolated(),
        access=record.access,
        topic_ids=topic_ids,
        bundle=record.bundle,
        run=task.run,
        seed=task.seed,
        java=task.java,
        rate_per_s=task.rate_per_s,
    )
    share_groups.set_up(admin, scenario)
    record.listeners = tls_probe.look(cluster) if scenario.shape.secure else []
    coordinator_states = CoordinatorStates(cluster, admin, scenario) if DISK_READ in cluster.capabilities else None
    groups = scenario.groups
    record.snapshots.append(admin.snapshot("start", topics, groups))
    sampler = _position_sampler(record, load)
    with sampler, _leader_watch(record, admin) as record.leaders:
        _play(record, admin, load, tier, coordinator_states, say)
        reads = _settle_and_drain(record, admin, load, admin_probe, tier, groups, say)
    if record.leaders is not None:
        record.steps = with_events(record.steps, record.leaders.seen())
    record.notes.extend(sampler.late)
    for problem in sampler.died:
        record.doubt(DoubtName.SAMPLER, problem)
    record.coordinators = coordinator_states.look() if coordinator_states else None
    _read_the_rest(record, admin, load, tier, reads, say)
    record.finished = True


def _leader_watch(record: _Record, admin: AdminView) -> AbstractContextManager[LeaderWatch | None]:
    """Watches leaders where the run ends without a history, which would have every election."""
    if DISK_READ in record.cluster.capabilities:
        return nullcontext()
    internal = [topic.name for topic in internal_topics(record.scenario.shape)]
    return LeaderWatch(admin.partitions, [topic.name for topic in record.scenario.topics], internal)


def _position_sampler(record: _Record, load: Load) -> PositionSampler:
    tiered = tiered_topics(record.scenario)

    def topics() -> list[SampledTopic]:
        """The topics as steps have changed them."""
        now = list(load.targets.values())
        return [SampledTopic(t.topic, t.topic_id, t.partitions, t.topic in tiered) for t in now]

    addresses = {broker: record.cluster.direct_address(broker) for broker in record.cluster.brokers}
    return PositionSampler(addresses, topics, record.bundle, record.cluster.security)


def _play(
    record: _Record,
    admin: AdminView,
    load: Load,
    tier: TierProbe,
    coordinator_states: CoordinatorStates | None,
    say: Say,
) -> None:
    load.start()
    try:
        with LiveFigures(say, load.meters.total_acked, lambda: record.steps, record.task.records) as figures:
            _under_load(record, admin, load, tier, coordinator_states, figures)
    finally:
        say("stopping the load")
        load.stop_producers()
        record.share_groups = share_groups.drained(admin, record.scenario)
        load.stop_readers(record.budget.left_s(ALL_S, LEAST_S))
        record.readers_waited = load.readers_waited
        record.ended_ns = now_ns()
        record.load = load.stats()
        record.doubts.extend(load.doubts())
        record.notes.extend(load.notes())


def _under_load(
    record: _Record,
    admin: AdminView,
    load: Load,
    tier: TierProbe,
    coordinator_states: CoordinatorStates | None,
    say: Say,
) -> None:
    scenario = record.scenario
    _wait_flowing(record, admin, load, say)
    hold = partial(load_floors.hold, scenario, load, budget=record.budget)
    hold("before", targets_of(scenario), since_ns=record.started_ns, served=False)
    record.tiered(tier, tier.filled(SEGMENTS_BEFORE))
    tier.look("loaded")
    stage = StepContext(
        cluster=record.cluster,
        admin=admin,
        load=load,
        rng=Random(f"{record.task.seed}/{scenario.name}/steps"),
        topics=scenario.topics,
        internal=internal_topics(scenario.shape),
        transactional_id={p.name: p.transactional_id for p in scenario.producers}.__getitem__,
        say=say,
        budget=record.budget,
        leaders_seen=record.leaders.of_topics if record.leaders else tuple,
    )
    record.on_steps(step_runner.run_steps(stage, scenario.steps, record.on_steps))
    record.scenario = replace(scenario, topics=stage.topics)  # with the partitions that steps have added
    record.doubts.extend(step_runner.doubts(record.steps))
    record.cluster.heal()
    _wait_recovered(record, admin, load, say)
    if not record.recovered.ok:
        record.budget.begin("the cluster did not recover")
    record.groups_at_rest = coordinators.groups_at_rest(
        partial(coordinators.look_at_group, admin, load),
        load.members_by_group().keys(),
        max(coordinators.GROUPS_DEADLINE_S - (record.recovered.waited_s or 0), GROUPS_LEAST_S),
    )
    if scenario.groups and coordinator_states:
        record.coordinators_under_load = coordinator_states.look_under_load()
    hold("after", targets_of(record.scenario), since_ns=now_ns(), served=bool(scenario.floors.after))
    load_floors.fill(scenario, load, record.task.records, record.budget)
    record.tiered(tier, tier.filled(SEGMENTS_MIN, record.budget))


def _wait_flowing(record: _Record, admin: AdminView, load: Load, say: Say) -> None:
    """HarnessTimeout if a partition gets no first acknowledgement.

    A cluster without a fault owes at least what it owes after healing. So the wait for recovery follows, and its end is
    evidence: a release whose ISRs never fill is condemned, although the run ends here.
    """
    try:
        load.wait_flowing(FLOWING_DEADLINE_S)
    except HarnessTimeout:
        _wait_recovered(record, admin, load, say)
        raise


def _wait_recovered(record: _Record, admin: AdminView, load: Load, say: Say) -> None:
    say("waiting for the cluster to recover")
    flowing = [place for place in targets_of(record.scenario) if record.scenario.floors.after]
    topics = [topic.name for topic in record.scenario.topics]
    record.recovered = recovery.recovered(record.cluster, admin, topics, load, flowing)


def _settle_and_drain(
    record: _Record,
    admin: AdminView,
    load: Load,
    admin_probe: AdminProbe,
    tier: TierProbe,
    groups: Sequence[str],
    say: Say,
) -> list[Read]:
    """Returns what the drain read, and where each read ended."""
    bundle = record.bundle
    topics = [topic.name for topic in record.scenario.topics]
    say("waiting for transactions to be over and every ISR to be full")
    settled = _settle(record, admin, topics)
    if not settled.ok:  # not the same as `recovered`: an ISR may shrink again
        record.budget.begin("an ISR was not full")
        record.doubt(DoubtName.ISR_NOT_FULL, settled.last_seen)
    if DISK_READ in record.cluster.capabilities and record.transactions_settled.ok:
        record.cleaners_at_rest = cleaners_at_rest(record.cluster, admin, topics)
    record.tier_at_rest = tier.at_rest()
    tier.look("healed")
    record.snapshots.append(recovery.snapshot(admin, "healed", topics, groups, record.budget))
    admin_probe.look("healed", load.admins)
    if unseen := recovery.not_reported(record.snapshots[-1], record.scenario.topics):
        record.doubt(
            DoubtName.PARTITION_UNSEEN, f"no broker reported {unseen} after healing, so that they are not read"
        )
    plan = DrainPlan(
        bootstrap=_observer_bootstrap(record),
        targets=load.targets,
        copies=broker_state.copies_of(record.snapshots[-1], tier.segment_starts()),
        run=record.task.run,
        seed=record.task.seed,
        sentinel_back_s=sentinel_back_s(record.scenario),
        timeouts=ReadTimeouts(budget=record.budget),
        access=record.access,
        direct=_direct_fetch(record.cluster),
        transactional=frozenset(t for p in record.scenario.producers if p.transactions is not None for t in p.topics),
    )
    reads = with_refusals(drain(plan, bundle, load.numbers, say), admin)
    bundle.document("reads.json", reads)
    record.snapshots.append(recovery.snapshot(admin, "drained", topics, groups, record.budget))
    waited = recovery.metadata_applied(admin)
    record.brokers = [structs.replace(view, waited_s=waited.waited_s) for view in admin.broker_views(topics)]
    admin_probe.look("drained", load.admins)
    return reads


def _settle(record: _Record, admin: AdminView, topics: Sequence[str]) -> Settled:
    """Waits side by side for what must come to an end after the load. Returns the wait for every ISR to be full."""
    pool = ThreadPoolExecutor(thread_name_prefix="settle")
    try:
        over = pool.submit(recovery.transactions_over, admin, topics, TRANSACTIONS_DEADLINE_S)
        ended = pool.submit(coordinators.transactions_ended, record.cluster, admin, TRANSACTIONS_DEADLINE_S, record.own)
        full = recovery.isr_full(record.cluster, admin, topics, record.budget)
        record.transactions_settled, record.transactions_ended = over.result(), ended.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # what still waits ends with the observer
    return full


def _read_the_rest(
    record: _Record, admin: AdminView, load: Load, tier: TierProbe, reads: Sequence[Read], say: Say
) -> None:
    """Reads everything that the drain does not: offset lookups, the tier, the disks, the history."""
    bundle = record.bundle
    topics = [topic.name for topic in record.scenario.topics]
    say("asking for offsets by time and by leader epoch")
    holed = set(logs_of(reads).holes)
    waits = AnswerWaits(record.budget)
    none = look_up(admin, topics, bundle, record.started_ns, record.ended_ns or now_ns(), waits, holed)
    look_up_epochs(admin, topics, bundle, waits)
    tier.look("end")
    disks = _read_disks(record, admin, topics, say)
    for damage in disks.damage:
        record.doubt(DoubtName.DISK_DAMAGE, damage)
    look_up_again(admin, topics, bundle, none, waits, holed)
    unserved = _read_from_anywhere(record, load, reads, say)
    record.reported = ClusterReports(
        snapshots=tuple(record.snapshots),
        lineages=disks.lineages,
        empty_segments=disks.empty_segments,
        group_answers=tuple(load.group_answers()),
        group_resets=tuple(load.group_resets()),
        members_refused=tuple(load.members_refused()),
        reads_refused=reads_refused([*unserved, *load.unserved], admin),
        owned_twice=load.ownership.twice(),
        share_groups=tuple(record.share_groups),
        brokers=tuple(record.brokers),
        coordinators=record.coordinators,
        coordinators_under_load=record.coordinators_under_load,
    )
    bundle.document("cluster.json", record.reported)
    _write_history(record, admin)


def _read_disks(record: _Record, admin: AdminView, topics: Sequence[str], say: Say) -> broker_state.Disks:
    """The batches of every replica: from the disks, or as brokers serve them."""
    cluster, bundle = record.cluster, record.bundle
    if DISK_READ in cluster.capabilities:
        say("reading batch headers on every disk")
        return broker_state.read_disks(cluster, topics, bundle)
    say("fetching batch headers from every broker")
    addresses = {broker: cluster.direct_address(broker) for broker in cluster.brokers}
    fetched = fetch_batches(addresses, cluster.security, record.snapshots[-1], bundle)
    for problem in fetched.not_read:
        record.doubt(DoubtName.NO_BATCHES, problem)
    lineages = broker_state.lineages_of_leaders(admin, topics)
    return broker_state.Disks(lineages, empty_segments=(), damage=fetched.damage)


def _write_history(record: _Record, admin: AdminView) -> None:
    """Writes the cluster's history from the metadata logs of all nodes, which also show what is committed.

    The high watermark is asked first: then the logs contain everything below it. Without the disks there is none.
    """
    if DISK_READ not in record.cluster.capabilities:
        return
    try:
        committed_end = admin.quorum().high_watermark
    except HarnessTimeout:
        committed_end = None
    since_ms = record.started_ns // 10**6
    write_history(record.bundle.path, history_of_cluster(record.cluster, committed_end, since_ms))
    record.has_history = True


def _direct_fetch(cluster: Cluster) -> DirectFetch | None:
    """How the drain reads followers where the cluster does not send a reader to them."""
    if cluster.selects_replicas:
        return None
    return DirectFetch({broker: cluster.direct_address(broker) for broker in cluster.brokers}, cluster.security)


def _observer_bootstrap(record: _Record) -> str:
    """The listener that observers use. It is plaintext; on a secured cluster they use the clients' own instead."""
    return record.cluster.bootstrap() if record.access.settings else record.cluster.bootstrap_direct()


def _read_from_anywhere(record: _Record, load: Load, reads: Sequence[Read], say: Say) -> list[UnservedRead]:
    """Reads from offsets at which no reader has begun: inside batches and segments, and at committed offsets.

    A read that is given nothing, or for which there is no time, is a doubt. Returns those that were given nothing.
    """
    say("reading from anywhere")
    logs, bundle = logs_of(reads), record.bundle
    asks = asks_of(logs, bundle.path, Random(f"{record.task.seed}/{record.scenario.name}/probes"))
    context = ReadContext(
        bootstrap=_observer_bootstrap(record), targets=load.targets, run=record.task.run, access=record.access
    )
    groups: dict[str, list[str]] = {}
    non_committing = non_committing_groups(record.scenario)
    for row in record.snapshots[-1].groups:
        place = row.topic, row.partition
        if row.offset is None or place not in logs.starts:
            continue
        if row.group in non_committing:
            asks.setdefault(place, []).append(Ask(place, row.offset, COMMIT))
        elif row.topic not in groups.setdefault(row.group, []):
            groups[row.group].append(row.topic)
    doubts, unserved = probe(asks, groups, logs, context, bundle, ProbeTimeouts().within(record.budget))
    for name, text in doubts:
        record.doubt(name, text)
    return unserved
