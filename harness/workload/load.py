"""The whole load of a scenario: producers, live readers and admins, started and stopped together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from random import Random
from typing import Final, TypedDict

from harness.evidence.writer import BundleWriter, TableWriter
from harness.model.contract.contract import contract_of
from harness.model.documents.cluster import GroupAnswer, GroupReset, MemberRefused
from harness.model.documents.run import Settled
from harness.model.doubt_names import DoubtName
from harness.model.entities import MetadataEntity, Operation
from harness.model.errors import BadInput, HarnessFailure
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.place import Place
from harness.model.scenario.scenario import BY_ITSELF, CLIENTS, STREAMS, Admin, Moment, Producer, Reader, Scenario
from harness.model.verdict import Doubt
from harness.model.waiting import wait_for
from harness.workload.access import Access
from harness.workload.admins.admin_load import AdminLoop
from harness.workload.consumers.auto_commit import AutoReader
from harness.workload.consumers.catch_up import ALL_S, behind, let_catch_up, read_all
from harness.workload.consumers.consumer_group import GroupReader, group_lag
from harness.workload.consumers.crashing_consumer import CrashingReader, Death
from harness.workload.consumers.lagging_reader import Replay
from harness.workload.consumers.live_readers import LiveReader, ReadContext
from harness.workload.consumers.ownership import Ownership
from harness.workload.consumers.processing import ProcessorDeath, application_lag, process_all
from harness.workload.consumers.processor import ProcessorLoop
from harness.workload.consumers.share_group import Acked, ShareReader
from harness.workload.consumers.stuck_client import WHY
from harness.workload.consumers.unserved_reads import UnservedRead
from harness.workload.java.java_process import JavaClients
from harness.workload.java.kafka_streams import StreamsLoop
from harness.workload.meters import Mark, Meters
from harness.workload.pacing import Cap
from harness.workload.producers.loops import BurstLoop, BurstResult, ProducerLoop, SteadyLoop
from harness.workload.producers.recording_producer import ProducerContext, RecordingProducer, Target
from harness.workload.producers.streams import Numbers
from harness.workload.producers.transactions import SteppedTransactionLoop, TransactionLoop, TxnTables
from harness.workload.readiness import bootstrap_of, check, close_s_of, segment_bytes_of
from harness.workload.settings import reader_settings

_CLOSE_MARGIN_S: Final = 10.0


class LoadStats(TypedDict):
    """Figures of the load by name of client: sessions, ends of transactions, records read, ends of operations."""

    acked: int
    errors: dict[str, int]
    retries: int
    incarnations: dict[str, int]
    transactions: dict[str, dict[str, int]]
    spans: dict[str, int]  # transactions that span a segment roll
    read: dict[str, int]
    operations: dict[str, Counter[str]]


Loop = ProducerLoop | StreamsLoop
ProcessingLoop = ProcessorLoop | StreamsLoop


class Load:
    """All clients that run while a scenario's steps run. Methods may be called from any one other thread.

    `run` marks the payloads of this run; the drain continues with `numbers` and `targets`. `rate_per_s`: the most
    records a second that all producers together send.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        bootstrap: str,
        bootstrap_isolated: str = "",
        access: Access | None = None,
        topic_ids: Mapping[str, str],
        bundle: BundleWriter,
        run: int,
        seed: int,
        java: JavaClients | None = None,
        rate_per_s: int | None = None,
    ) -> None:
        check(scenario, java)
        self._java = java
        # Kafka Streams writes a record for each that it reads, and nothing of ours limits it.
        self._cap = Cap(max(1, rate_per_s // 2 if scenario.kafka_streams else rate_per_s)) if rate_per_s else None
        self.targets = {
            topic.name: Target(topic=topic.name, topic_id=topic_ids[topic.name], partitions=topic.partitions)
            for topic in scenario.topics
        }
        self._read_targets = dict(self.targets)  # for readers; no partitions of a topic that is being recreated
        self.numbers = Numbers()
        self.meters = Meters()
        self.ownership = Ownership()
        self.run = run
        self.seed = seed
        self._scenario = scenario
        self.readers_waited: Settled | None = None  # the wait for readers, once it is over
        self.unserved: list[UnservedRead] = []  # what they had not been given by then
        self._contract = contract_of(scenario)
        self._bootstrap = bootstrap
        self._bootstrap_isolated = bootstrap_isolated
        self._access = access or Access()
        self._bundle = bundle
        self._doubts: list[Doubt] = []
        self._producers: dict[str, Loop] = {p.name: self._producer(p) for p in scenario.producers}
        self._readers: dict[str, LiveReader] = {r.name: self._reader(r) for r in scenario.readers}
        self.admins: dict[str, AdminLoop] = {a.name: self._admin(a) for a in scenario.admin}

    # --- for the run ---

    def start(self) -> None:
        """Starts all readers, then all producers, then all admins."""
        for reader in self._readers.values():
            reader.start()
        for producer in self._producers.values():
            producer.start()
        for admin in self.admins.values():
            admin.start()

    def wait_flowing(self, deadline_s: float) -> None:
        """Waits until every partition of every producer with when = "always" has an ack. HarnessTimeout otherwise."""
        wanted = {
            (topic, partition)
            for producer in self._scenario.producers
            if producer.when == "always"
            for topic in producer.topics
            for partition in range(self.targets[topic].partitions)
        }
        wait_for(
            lambda: sorted(wanted - self.meters.highest_acked().keys()),
            until=lambda missing: not missing,
            deadline_s=deadline_s,
            what="a first ack on every partition",
        )

    def stop_producers(self) -> None:
        """Stops sending and waits until every send is reported or given up; the delivery timeouts bound the wait.

        Admins stop first. Processors stop last: they first process what the other producers sent, within a deadline.
        """
        self._stop_admins()
        processors = self._processors()
        self._stop_loops(self._producers.keys() - processors.keys())
        for unprocessed in process_all(list(processors.values()), self.highest_acked()):
            self._doubt(DoubtName.UNPROCESSED, unprocessed)
        self._stop_loops(processors.keys())

    def _stop_loops(self, names: Collection[str]) -> None:
        """Stops producers and collects their doubts."""
        for name in names:
            self._producers[name].stop()
        for name in names:
            producer = self._producers[name]
            self._doubt(
                DoubtName.PRODUCER, producer.join(2 * close_s_of(self._spec(name), self._bootstrap) + _CLOSE_MARGIN_S)
            )
            for error in producer.fatal if not self._contract.may_lose else ():
                self._doubt(
                    DoubtName.PRODUCER_FATAL,
                    f"producer {name} met the fatal error {error}, and its client was replaced",
                )
            for tries in producer.producer.tries if isinstance(producer, ProducerLoop) else ():
                self._doubt(DoubtName.TRIES_UNREAD, tries.problem)
            if isinstance(producer, TransactionLoop):
                for doubt in producer.doubts:
                    self._doubt(DoubtName.CLIENT_HUNG, doubt)

    def _stop_admins(self) -> None:
        for admin in self.admins.values():
            admin.stop()
        for admin in self.admins.values():
            self._doubt(DoubtName.ADMIN, admin.join(admin.spec.timeout_s + _CLOSE_MARGIN_S))

    def _wait_for_readers(self, deadline_s: float) -> Settled:
        """Waits for readers of records that stay: not in transactions, which may abort, nor where records may be lost,
        superseded or deleted on request. A reader that may have stopped, as configured, is not waited for."""
        written = [p for p in self._scenario.producers if p.transactions is not None or p.processes or p.acks != "all"]
        changing = {topic for producer in written for topic in producer.topics}
        stay = {name for name, topic in self._contract.topics.items() if topic.lasting} - changing
        acked = {place: offset for place, offset in self.meters.highest_acked().items() if place[0] in stay}
        readers = [r for r in self._readers.values() if not (r.spec.shares or r.spec.reset)]
        waited = read_all(readers, acked, deadline_s)
        self.unserved = [
            UnservedRead.of(
                spec.name, place, offset, self.targets[place[0]].topic_id, reader_settings(spec, "", "", {})
            )
            for spec, place, offset in ([] if waited.ok else behind(readers, acked))
        ]
        return waited

    def stop_readers(self, deadline_s: float = ALL_S) -> None:
        """Waits for readers to catch up, then stops them. One that hung, died or read nothing is a doubt."""
        let_catch_up(self._readers.values(), self.meters.highest_acked())
        self.readers_waited = self._wait_for_readers(deadline_s)
        for reader in self._readers.values():
            reader.stop()
        for name, reader in self._readers.items():
            doubt = reader.join(_CLOSE_MARGIN_S + 5.0)
            if doubt is None and not reader.seen and self.meters.total_acked():
                doubt = f"reader {name} read no record at all, although records were acknowledged"
            self._doubt(DoubtName.READER, doubt)
            for topic, jump in reader.jumps:
                if not self._contract.may_jump(topic):
                    self._doubt(DoubtName.READER_RESET, f"reader {name} had to start again at the log's start: {jump}")

    def doubts(self) -> list[Doubt]:
        """Problems of the load itself. Complete after both stops."""
        return list(self._doubts)

    def notes(self) -> list[str]:
        """Remarks for the reader of the report, which prove nothing."""
        jumps = [
            f"reader {r.spec.name} started again at the log's start: {jump}"
            for r in self._readers.values()
            for _, jump in r.jumps
        ]
        stuck = [
            f"the client of reader {r.spec.name} was replaced {r.stuck} times: {WHY}"
            for r in self._readers.values()
            if r.stuck
        ]
        return [*jumps, *stuck, *(note for loop in self._transactional().values() for note in loop.notes)]

    def group_answers(self) -> list[GroupAnswer]:
        """Committed offsets that coordinators returned while the load ran."""
        return [row for r in self._readers.values() if isinstance(r, GroupReader) for row in r.answers]

    def group_resets(self) -> list[GroupReset]:
        """Where members started, if not at their group's committed offset."""
        return [row for r in self._readers.values() if isinstance(r, GroupReader) for row in r.resets.rows]

    def members_refused(self) -> list[MemberRefused]:
        """Members whose clients gave up because a coordinator refused them."""
        return [row for r in self._readers.values() if isinstance(r, GroupReader) for row in r.refused]

    def stats(self) -> LoadStats:
        """Figures for the terminal and for run.json."""
        transactional = self._transactional()
        return {
            "acked": self.meters.total_acked(),
            "errors": self.errors(),
            "retries": self.retries(),
            "incarnations": {name: p.incarnations for name, p in self._producers.items()},
            "transactions": {name: dict(p.outcomes) for name, p in transactional.items()},
            "spans": {name: p.spans for name, p in transactional.items()},
            "read": {name: reader.seen for name, reader in self._readers.items()},
            "operations": {n: Counter(op.outcome for op in a.operations()) for n, a in self.admins.items()},
        }

    def mark(self) -> Mark:
        """The progress of all producers and groups at this moment, for `unserved_since`."""
        return Mark(
            acked=self.highest_acked(),
            commits={group: self.commits(group) for group in self._groups()},
            committed={
                name: producer.outcomes[TxnOutcome.COMMITTED.value]
                for name, producer in self._transactional().items()
                if self._spec(name).when == "always"
            },
        )

    def unserved_since(self, mark: Mark) -> list[str]:
        """Clients without progress since the mark: readers without a later record, groups and producers without a
        later commit, and producers with a call that failed and has not succeeded since.

        It checks only partitions with acks and with a producer that runs all the time, and no reader that shares its
        partitions with other members of a group.
        """
        transactional, groups, flowing = self._transactional(), self._groups(), self._scenario.fed
        shared = {group for group in groups if groups.count(group) > 1}
        stalled = [
            f"reader {name} of {topic}/{partition}"
            for name, reader in self._readers.items()
            for (topic, partition), acked in mark.acked.items()
            if topic in flowing & set(reader.spec.topics)
            and reader.spec.group not in shared
            and reader.positions.get((topic, partition), 0) <= acked + 1
        ]
        fed = {r.spec.group for r in self._readers.values() if flowing & set(r.spec.topics)}
        uncommitted = [f"group {g}" for g, at in mark.commits.items() if g in fed and self.commits(g) <= at]
        ends = [
            f"transactions of {name}"
            for name, committed in mark.committed.items()
            if transactional[name].outcomes[TxnOutcome.COMMITTED.value] <= committed or transactional[name].waits_for
        ]
        return [*stalled, *uncommitted, *ends]

    # --- for steps ---

    def burst(self, producer: str, topic: str, partition: int, records: int, deadline_s: float) -> BurstResult:
        """Sends `records` records by a producer with when = "steps" and waits up to `deadline_s` for their outcomes."""
        loop = self._producers.get(producer)
        if not isinstance(loop, BurstLoop | SteppedTransactionLoop):
            raise BadInput(f'a step asks producer {producer!r} for a burst: declare it with when = "steps"')
        if loop.failure is not None:
            raise HarnessFailure(f"producer {producer} died: {loop.failure}")
        return loop.burst((topic, partition), records, deadline_s)

    def end_transaction(self, producer: str, *, commit: bool, deadline_s: float) -> TxnOutcome:
        """Ends the transaction that bursts of a producer with when = "steps" have opened; UNKNOWN without an answer."""
        loop = self._producers.get(producer)
        if not isinstance(loop, SteppedTransactionLoop):
            raise BadInput(f'a step ends a transaction of {producer!r}: make it transactional, with when = "steps"')
        return loop.end(commit=commit, deadline_s=deadline_s)

    def grow(self, topic: str, partitions: int) -> None:
        """Extends the load to partitions that were added to a topic; `partitions` is the new total."""
        self.targets[topic] = self._read_targets[topic] = replace(self.targets[topic], partitions=partitions)

    def stop_reading(self, topic: str, deadline_s: float) -> None:
        """Makes readers release a topic and write what they have read of it. HarnessTimeout if they do not in time."""
        self._read_targets[topic] = replace(self.targets[topic], partitions=0)
        wait_for(
            lambda: [name for name, reader in self._readers.items() if reader.reads(topic)],
            until=lambda reading: not reading,
            deadline_s=deadline_s,
            what=f"readers to release topic {topic}",
        )

    def recreated(self, topic: str, topic_id: str) -> None:
        """Switches the load to the new topic of this name: producers open new streams, readers start at its start."""
        self.targets[topic] = self._read_targets[topic] = replace(self.targets[topic], topic_id=topic_id)
        self.meters.forget_offsets(topic)

    def replay(self, until: Mapping[Place, int]) -> Replay:
        """A consumer, not started yet, that repeatedly reads partitions from their start up to an offset of each."""
        return Replay(self._bootstrap, until, self._access)

    def produced_acks(self, topic: str, partition: int, since_ns: int) -> int:
        """Acked records of a partition that were sent since then, less up to 100 ms of them."""
        return self.meters.answered_since((topic, partition), since_ns)

    def last_ack_ns(self, topic: str, partition: int) -> int:
        """When a partition's last ack was reported, in epoch nanoseconds; 0 = never."""
        return self.meters.last_ack_ns((topic, partition))

    def highest_acked(self) -> dict[Place, int]:
        """The highest acked offset of each partition that has one."""
        return {place: offset for place, offset in self.meters.highest_acked().items() if offset >= 0}

    def retries(self) -> int:
        """A lower bound of the records that were transmitted again, from client statistics at most 0.5 s old."""
        return self.meters.retries()

    def unknown(self) -> int:
        """Sends that ended with an error and may nevertheless be in the log."""
        return self.meters.unknown()

    def errors(self) -> dict[str, int]:
        """Sends that ended with an error so far, by the error's name."""
        return self.meters.errors()

    def operations(self, admin: str) -> list[Operation]:
        """The finished operations of an admin, in order."""
        return self.admins[admin].operations()

    def operations_ended(self, admin: str, since_ns: int, outcome: Outcome | None = None) -> int:
        """How many operations of an admin began since then and have ended: all, or those of one outcome."""
        return self.admins[admin].ended(since_ns, outcome)

    def metadata_entity(self, admin: str, entity: str) -> MetadataEntity:
        """The metadata entity that an operation of an admin changed, by its text."""
        return self.admins[admin].metadata_entity(entity)

    def behind(self, group: str, acked: Mapping[Place, int], *, committed: bool = False) -> dict[str, int]:
        """The lag of a group up to these offsets, by "topic/partition"; only partitions with lag.

        The lag counts offsets that the group was not given yet or, with `committed`, has not committed yet; for the
        group of a processor, offsets that the processor has not finished.
        """
        if instances := self._instances(group):
            return application_lag(instances, acked)
        return group_lag(self._crashing_members(group), acked, committed=committed)

    def members_by_group(self) -> dict[str, dict[str, frozenset[Place]]]:
        """By consumer group the partitions of each member, by the name of its client. Without groups of which a member
        died of an error, since its client may still be in the group."""
        found: dict[str, dict[str, frozenset[Place]]] = {}
        readers = [r for r in self._readers.values() if isinstance(r, GroupReader) and r.spec.group is not None]
        failed = {reader.spec.group for reader in readers if not reader.alive}
        for reader in readers:
            if reader.spec.group is not None and reader.spec.group not in failed and reader.is_member:
                found.setdefault(reader.spec.group, {})[reader.client_id] = reader.places
        return found

    def wanted_by_group(self) -> dict[str, set[Place]]:
        """By consumer group the partitions of the topics that its members subscribe to."""
        found: dict[str, set[Place]] = {}
        for reader in self._readers.values():
            if isinstance(reader, GroupReader) and reader.spec.group is not None:
                wanted = found.setdefault(reader.spec.group, set())
                wanted |= {(t, p) for t in reader.spec.topics for p in range(self._read_targets[t].partitions)}
        return found

    def crash_member(self, group: str, records: int, *, frozen: bool) -> Death:
        """Makes a group's only member, or one member of a share group, crash while it holds `records` records.

        `frozen`: see `Death`.
        """
        return self._crashing_members(group)[0].die(records, frozen=frozen)

    def other_members(self, reader: str) -> dict[str, CrashingReader]:
        """The members of a reader's group by name, including the reader itself."""
        return self.members(self._readers[reader].spec.group)

    def members(self, group: str | None) -> dict[str, CrashingReader]:
        """The readers of a group by name, including those that have left it for a while."""
        return {n: r for n, r in self._readers.items() if isinstance(r, CrashingReader) and r.spec.group == group}

    def crash_processor(self, group: str, at: Moment, records: int, *, zombie: bool) -> ProcessorDeath:
        """Makes a group's processor, or the first of its instances, crash at a moment of its work on `records` records
        (`at`: see `ProcessorDeath`)."""
        return self._instances(group)[0].die(ProcessorDeath(at=at, records=records, zombie=zombie))

    def commits(self, group: str) -> int:
        """Commits of a group's readers that its coordinator acknowledged so far."""
        return sum(reader.acked_commits for reader in self._readers.values() if reader.spec.group == group)

    def isolated_places(self) -> set[Place]:
        """Partitions to which only isolated clients write; the links of these clients can be cut separately."""
        topics: dict[bool, set[str]] = {True: set(), False: set()}
        for producer in self._scenario.producers:
            topics[producer.isolated_client].update(producer.topics)
        isolated = topics[True] - topics[False]
        return {(topic, p) for topic in isolated for p in range(self.targets[topic].partitions)}

    # --- construction and look-up ---

    def _producer(self, spec: Producer) -> Loop:
        tables = _ThreadTables(self._bundle)
        context = ProducerContext(
            bootstrap=self._bootstrap_of(spec),
            targets=self.targets,
            numbers=self.numbers,
            meters=self.meters,
            ledger=tables.table("ledger", spec.name),
            reservations=tables.table("reservations", spec.name),
            failed_sends=tables.table("failed_sends", spec.name),
            run=self.run,
            seed=self.seed,
            access=self._access,
            java=self._java if spec.client != CLIENTS[0] else None,
            cap=self._cap,
        )
        loop = _loop_of(spec, context, tables, self._scenario)
        loop.tables = tables.opened
        if isinstance(loop, TransactionLoop):
            loop.known_to_hang = bool(self._scenario.steps)
        return loop

    def _reader(self, spec: Reader) -> LiveReader:
        tables = _ThreadTables(self._bundle)
        context = ReadContext(
            bootstrap=self._bootstrap_of(spec),
            targets=self._read_targets,
            run=self.run,
            access=self._access,
            java=self._java if spec.client != CLIENTS[0] else None,
            ownership=self.ownership,
        )
        reader = _reader_of(spec, context, tables, self._scenario, self.highest_acked)
        reader.tables = tables.opened
        return reader

    def _admin(self, spec: Admin) -> AdminLoop:
        tables = _ThreadTables(self._bundle)
        rng = Random(f"{self.seed}/{self._scenario.name}/admin/{spec.name}")
        loop = AdminLoop(spec, self._bootstrap, tables.table("admin_ops", spec.name), rng)
        loop.tables = tables.opened
        return loop

    def _bootstrap_of(self, spec: Producer | Reader) -> str:
        return bootstrap_of(spec, self._bootstrap_isolated if spec.isolated_client else self._bootstrap)

    def _groups(self) -> list[str]:
        """The group of each reader that has one; a group with several members occurs several times."""
        return [reader.spec.group for reader in self._readers.values() if reader.spec.group is not None]

    def _transactional(self) -> dict[str, TransactionLoop]:
        return {name: p for name, p in self._producers.items() if isinstance(p, TransactionLoop)}

    def _processors(self) -> dict[str, ProcessingLoop]:
        return {name: p for name, p in self._producers.items() if isinstance(p, ProcessingLoop)}

    def _instances(self, group: str) -> list[ProcessingLoop]:
        return [processor for processor in self._processors().values() if processor.plan.group == group]

    def _crashing_members(self, group: str) -> list[CrashingReader | ShareReader]:
        crashing = (r for r in self._readers.values() if isinstance(r, CrashingReader | ShareReader))
        return [member for member in crashing if member.spec.group == group]

    def _spec(self, name: str) -> Producer:
        return next(p for p in self._scenario.producers if p.name == name)

    def _doubt(self, name: str, text: str | None) -> None:
        if text is not None:
            self._doubts.append(Doubt(name, text))


class _ThreadTables:
    """Opens the tables of one thread of the load and keeps a list of them."""

    def __init__(self, bundle: BundleWriter) -> None:
        self._bundle = bundle
        self.opened: list[TableWriter] = []

    def table(self, name: str, writer: str) -> TableWriter:
        """A new writer of a table of the bundle."""
        opened = self._bundle.table(name, writer)
        self.opened.append(opened)
        return opened


def _loop_of(spec: Producer, context: ProducerContext, tables: _ThreadTables, scenario: Scenario) -> Loop:
    """The thread for a producer of a scenario, not started yet: steady load, transactions, bursts, or a processor."""
    if spec.client == STREAMS:
        return StreamsLoop(spec, context, _txn_tables(spec, tables), tables.table("processed", spec.name))
    producer, close_s = RecordingProducer(spec, context), close_s_of(spec, context.bootstrap)
    if spec.transactions is None:
        return BurstLoop(producer, close_s) if spec.when == "steps" else SteadyLoop(producer, close_s)
    txn_tables = _txn_tables(spec, tables)
    if spec.processes is not None:
        return ProcessorLoop(producer, close_s, txn_tables, tables.table("processed", spec.name))
    kind = SteppedTransactionLoop if spec.when == "steps" else TransactionLoop
    return kind(producer, close_s, txn_tables, segment_bytes_of(scenario))


def _txn_tables(spec: Producer, tables: _ThreadTables) -> TxnTables:
    return TxnTables(
        transactions=tables.table("transactions", spec.name),
        offset_commits=tables.table("offset_commits", f"{spec.name}-txn"),
        failed_calls=tables.table("failed_calls", spec.name),
    )


def _reader_of(
    spec: Reader, context: ReadContext, tables: _ThreadTables, scenario: Scenario, acked: Acked
) -> LiveReader:
    """The thread for a reader of a scenario, not started yet: assigned partitions, a consumer group, or a share group.

    `acked`: returns the highest acknowledged offsets so far.
    """
    observations = tables.table("observations", f"live-{spec.name}")
    if spec.group is None:
        return LiveReader(spec, context, observations)
    if spec.shares:
        alone = len(scenario.share_groups[spec.group]) == 1
        return ShareReader(spec, context, observations, tables.table("deliveries", spec.name), acked, alone=alone)
    kind = AutoReader if spec.commits in BY_ITSELF else CrashingReader
    return kind(spec, context, observations, tables.table("offset_commits", spec.name))
