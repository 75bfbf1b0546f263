"""The whole load of a scenario: producers and live readers, started and stopped together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from harness.evidence.writer import BundleWriter
from harness.model.contract.contract import contract_of
from harness.model.entities import MetadataEntity, Operation
from harness.model.errors import BadInput, HarnessFailure
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.scenario.scenario import CLIENTS, Admin, Moment, Producer, Reader, Scenario
from harness.model.waiting import wait_for
from harness.workload.access import Access
from harness.workload.admins.admin_load import AdminLoop
from harness.workload.consumers.catch_up import let_catch_up
from harness.workload.consumers.consumer_group import GroupReader, behind
from harness.workload.consumers.crashing_consumer import CrashingReader, Death
from harness.workload.consumers.lagging_reader import Replay
from harness.workload.consumers.live_readers import LiveReader, ReadContext
from harness.workload.consumers.processing import ProcessorDeath, process_all
from harness.workload.consumers.reader_of import reader_of
from harness.workload.consumers.share_group import ShareReader
from harness.workload.java.java_process import JavaClients
from harness.workload.meters import Mark, Meters, Place
from harness.workload.producers.loop_of import Loop, ProcessingLoop, loop_of
from harness.workload.producers.loops import BurstLoop, BurstResult
from harness.workload.producers.recording_producer import ProducerContext, Target
from harness.workload.producers.stepped_transactions import SteppedTransactionLoop
from harness.workload.producers.streams import Numbers
from harness.workload.producers.transactions import TransactionLoop
from harness.workload.readiness import check, close_s_of

_CLOSE_MARGIN_S: Final = 10.0


class Load:
    """Everything that runs beside the steps of a scenario. Methods may be called from any one other thread.

    `run` marks the payloads of this run; `numbers` and `targets` are what the drain needs to go on with.
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
    ) -> None:
        check(scenario, java)
        self._java = java
        self.targets = {
            topic.name: Target(topic=topic.name, topic_id=topic_ids[topic.name], partitions=topic.partitions)
            for topic in scenario.topics
        }
        self._read = dict(self.targets)  # what readers are to read; nothing of a topic while it is made anew
        self.numbers = Numbers()
        self.meters = Meters()
        self.run = run
        self.seed = seed
        self._scenario = scenario
        self._contract = contract_of(scenario)
        self._bootstrap = bootstrap
        self._bootstrap_isolated = bootstrap_isolated
        self._access = access or Access()
        self._bundle = bundle
        self._doubts: list[dict[str, str]] = []
        self._producers: dict[str, Loop] = {p.name: self._producer(p) for p in scenario.producers}
        self._readers: dict[str, LiveReader] = {r.name: self._reader(r) for r in scenario.readers}
        self.admins: dict[str, AdminLoop] = {a.name: self._admin(a) for a in scenario.admin}

    def start(self) -> None:
        """Starts all readers, then all producers, then all admins."""
        for reader in self._readers.values():
            reader.start()
        for producer in self._producers.values():
            producer.start()
        for admin in self.admins.values():
            admin.start()

    def wait_flowing(self, deadline_s: float) -> None:
        """Returns once every partition of every producer that runs by itself has an ack. HarnessTimeout otherwise."""
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
        """Stops sending and waits until every send is reported or given up on; bounded by the delivery timeouts. Admins
        end first, and processors last, when they are done with what the others sent, or did not get on for a while."""
        self._stop_admins()
        processors = self._processors()
        self._end(self._producers.keys() - processors.keys())
        for left in process_all(list(processors.values()), self.highest_acked()):
            self._doubt("unprocessed", left)
        self._end(processors.keys())

    def _end(self, names: Collection[str]) -> None:
        """Stops producers, and takes over their doubts."""
        for name in names:
            self._producers[name].stop()
        for name in names:
            producer = self._producers[name]
            self._doubt("producer", producer.join(2 * close_s_of(self._spec(name), self._bootstrap) + _CLOSE_MARGIN_S))
            for error in producer.fatal if not self._contract.may_lose else ():
                self._doubt("producer_fatal", f"producer {name} was told {error}, after which a client cannot go on")
            if isinstance(producer, TransactionLoop):
                for doubt in producer.doubts:
                    self._doubt("client_hung", doubt)

    def _stop_admins(self) -> None:
        for admin in self.admins.values():
            admin.stop()
        for admin in self.admins.values():
            self._doubt("admin", admin.join(admin.spec.timeout_s + _CLOSE_MARGIN_S))

    def stop_readers(self) -> None:
        """Lets readers catch up for a few seconds, then ends them. One that hung, died or saw nothing is a doubt."""
        let_catch_up(self._readers.values(), self.meters.highest_acked())
        for reader in self._readers.values():
            reader.stop()
        for name, reader in self._readers.items():
            doubt = reader.join(_CLOSE_MARGIN_S + 5.0)
            if doubt is None and not reader.seen and self.meters.total_acked():
                doubt = f"reader {name} saw no record at all"
            self._doubt("reader", doubt)
            for topic, jump in reader.jumps:
                if not self._contract.may_jump(topic):
                    self._doubt("reader_reset", f"reader {name} was sent back to the log's start: {jump}")

    def doubts(self) -> list[dict[str, str]]:
        """What went wrong with the load itself: {name, text} each. Complete after both stops."""
        return list(self._doubts)

    def notes(self) -> list[str]:
        """Things a reader of the report may want to know and that prove nothing."""
        return [
            f"reader {r.spec.name} began again at the log's start: {jump}"
            for r in self._readers.values()
            for _, jump in r.jumps
        ]

    def group_answers(self) -> list[dict[str, Any]]:
        """Offsets that coordinators told while the load ran: the `group_answers` of cluster.json."""
        return [row for r in self._readers.values() if isinstance(r, GroupReader) for row in r.answers]

    def group_resets(self) -> list[dict[str, Any]]:
        """Where members began that did not begin where their group had committed: `group_resets` of cluster.json."""
        return [row for r in self._readers.values() if isinstance(r, GroupReader) for row in r.resets.rows]

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
        """Producers and readers of a topic take up partitions that it was given since."""
        self.targets[topic] = self._read[topic] = replace(self.targets[topic], partitions=partitions)

    def stop_reading(self, topic: str, deadline_s: float) -> None:
        """Readers let go of a topic, and what they have been given of it is written. HarnessTimeout otherwise."""
        self._read[topic] = replace(self.targets[topic], partitions=0)
        wait_for(
            lambda: [name for name, reader in self._readers.items() if reader.reads(topic)],
            until=lambda reading: not reading,
            deadline_s=deadline_s,
            what=f"readers to let go of {topic}",
        )

    def recreated(self, topic: str, topic_id: str) -> None:
        """The name means another topic from now on: producers open new streams, readers begin at its start."""
        self.targets[topic] = self._read[topic] = replace(self.targets[topic], topic_id=topic_id)
        self.meters.forget_offsets(topic)

    def replay(self, until: Mapping[Place, int]) -> Replay:
        """A consumer, not started yet, that reads partitions again and again up to an offset of each."""
        return Replay(self._bootstrap, until, self._access)

    def produced_acks(self, topic: str, partition: int, since_ns: int) -> int:
        """Acked records of a partition that were handed over since then, less up to 100 ms of them."""
        return self.meters.answered_since((topic, partition), since_ns)

    def last_ack_ns(self, topic: str, partition: int) -> int:
        """When a partition's last ack was reported, in epoch nanoseconds; 0 = never."""
        return self.meters.last_ack_ns((topic, partition))

    def ack_counts(self, topic: str, partition: int, windows: Sequence[tuple[int, int]]) -> list[int]:
        """Acks of a partition in each window [start_ns, end_ns), to the 100 ms."""
        return self.meters.acks_between((topic, partition), windows)

    def mark(self) -> Mark:
        """How far everybody has come."""
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
        """Who has not got on since then: readers without a later record, groups without a commit, producers likewise.

        Only partitions that had acks and get load of their own accord are asked about, and only readers that are alone:
        several members of a group share theirs.
        """
        transactional, groups = self._transactional(), self._groups()
        shared = {group for group in groups if groups.count(group) > 1}
        flowing = {t for p in self._scenario.producers if p.when == "always" for t in p.topics}
        behind = [
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
            if transactional[name].outcomes[TxnOutcome.COMMITTED.value] <= committed
        ]
        return [*behind, *uncommitted, *ends]

    def _groups(self) -> list[str]:
        """The group of each reader that has one: as often as it has members."""
        return [reader.spec.group for reader in self._readers.values() if reader.spec.group is not None]

    def _transactional(self) -> dict[str, TransactionLoop]:
        return {name: p for name, p in self._producers.items() if isinstance(p, TransactionLoop)}

    def _processors(self) -> dict[str, ProcessingLoop]:
        return {name: p for name, p in self._producers.items() if isinstance(p, ProcessingLoop)}

    def highest_acked(self) -> dict[Place, int]:
        """The highest acked offset of each partition that has one."""
        return {place: offset for place, offset in self.meters.highest_acked().items() if offset >= 0}

    def retries(self) -> int:
        """Records that were transmitted again, at least; by the clients' statistics, at most half a second old."""
        return self.meters.retries()

    def unknown(self) -> int:
        """Sends that ended with an error and may be in the log for all that."""
        return self.meters.unknown()

    def operations(self, admin: str) -> list[Operation]:
        """What an admin has done so far, in order."""
        return self.admins[admin].operations()

    def operations_ended(self, admin: str, since_ns: int, outcome: Outcome | None = None) -> int:
        """How many operations of an admin were begun since then and have ended: all, or those of one outcome."""
        return self.admins[admin].ended(since_ns, outcome)

    def metadata_entity(self, admin: str, entity: str) -> MetadataEntity:
        """What an operation of an admin was about."""
        return self.admins[admin].metadata_entity(entity)

    def behind(self, group: str, acked: Mapping[Place, int], *, committed: bool = False) -> dict[str, int]:
        """How many offsets up to these a group was not given yet, or has not committed yet, or is not done with if it
        is a processor's, by partition; those only."""
        for processor in self._processors().values():
            if processor.plan.group == group:
                return processor.behind(acked)
        return behind(self._in(group), acked, committed=committed)

    def let_die(self, group: str, records: int) -> Death:
        """Has the only member of a group die once it was given so many records, or one of a share group."""
        return self._in(group)[0].die(records)

    def _in(self, group: str) -> list[CrashingReader | ShareReader]:
        crashing = (r for r in self._readers.values() if isinstance(r, CrashingReader | ShareReader))
        return [member for member in crashing if member.spec.group == group]

    def other_members(self, reader: str) -> dict[str, CrashingReader]:
        """The members of a reader's group by name, itself among them."""
        return self.members(self._readers[reader].spec.group)

    def members(self, group: str | None) -> dict[str, CrashingReader]:
        """The readers of a group by name, also while they are away."""
        return {n: r for n, r in self._readers.items() if isinstance(r, CrashingReader) and r.spec.group == group}

    def let_process_and_die(self, group: str, at: Moment, records: int, *, zombie: bool) -> ProcessorDeath:
        """Has the processor of a group die while it works on what it is given."""
        (processor,) = [p for p in self._processors().values() if p.plan.group == group]
        return processor.die(ProcessorDeath(at=at, records=records, zombie=zombie))

    def commits(self, group: str) -> int:
        """Commits of a group's reader that its coordinator acknowledged so far."""
        return sum(reader.acked_commits for reader in self._readers.values() if reader.spec.group == group)

    def errors(self) -> dict[str, int]:
        """Sends that ended with an error so far, by the error's name."""
        return self.meters.errors()

    def stats(self) -> dict[str, Any]:
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

    def _producer(self, spec: Producer) -> Loop:
        context = ProducerContext(
            bootstrap=self._way_in(spec),
            targets=self.targets,
            numbers=self.numbers,
            meters=self.meters,
            ledger=self._bundle.table("ledger", spec.name),
            reservations=self._bundle.table("reservations", spec.name),
            run=self.run,
            seed=self.seed,
            access=self._access,
            java=self._java if spec.client != CLIENTS[0] else None,
        )
        return loop_of(spec, context, self._bundle, self._scenario)

    def _reader(self, spec: Reader) -> LiveReader:
        context = ReadContext(
            bootstrap=self._way_in(spec),
            targets=self._read,
            run=self.run,
            access=self._access,
            java=self._java if spec.client != CLIENTS[0] else None,
        )
        return reader_of(spec, context, self._bundle, self._scenario, self.highest_acked)

    def _admin(self, spec: Admin) -> AdminLoop:
        rng = Random(f"{self.seed}/{self._scenario.name}/admin/{spec.name}")
        return AdminLoop(spec, self._bootstrap, self._bundle.table("admin_ops", spec.name), rng)

    def _way_in(self, spec: Producer | Reader) -> str:
        return self._bootstrap_isolated if spec.isolated_client else self._bootstrap

    def isolated_places(self) -> set[Place]:
        """Partitions that nobody writes to but clients which can be cut off alone."""
        of: dict[bool, set[str]] = {True: set(), False: set()}
        for producer in self._scenario.producers:
            of[producer.isolated_client].update(producer.topics)
        return {(topic, p) for topic in of[True] - of[False] for p in range(self.targets[topic].partitions)}

    def _spec(self, name: str) -> Producer:
        return next(p for p in self._scenario.producers if p.name == name)

    def _doubt(self, name: str, text: str | None) -> None:
        if text is not None:
            self._doubts.append({"name": name, "text": text})
