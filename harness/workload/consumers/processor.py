"""A read-process-write application: it writes one record for each that it reads, in transactions (KIP-98, KIP-447).

It collects a batch of input records, writes their output records in one transaction, and commits its offsets in that
transaction, after it, or before it. The table `processed` says which output belongs to which input. It dies like an
application: its client is abandoned with the transaction open, and a new one with the same transactional id and in the
same group takes over. It leaves its group when it dies, so that the new one need not wait for its session timeout.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.place import Place
from harness.model.scenario.scenario import Moment
from harness.workload.client_errors import is_fatal
from harness.workload.consumers.consumer_group import CLASSIC, SESSION, commit_now
from harness.workload.consumers.crashing_consumer import spans
from harness.workload.consumers.live_readers import EOF, JUMPS, split
from harness.workload.consumers.processing import ProcessorDeath, processor_lag
from harness.workload.producers.outcomes import outcome_of_offset_commit
from harness.workload.producers.recording_producer import RecordingProducer, Tally
from harness.workload.producers.transactions import FLUSH_S, TransactionLoop, TxnTables
from harness.workload.settings import consumer_settings
from harness.workload.timed_calls import CallHung, TimedCalls

_POLL_S: Final = 0.1
_COMMITTED_S: Final = 10.0
_TICK_S: Final = 0.05


@dataclass(slots=True)
class _Zombie:
    """A client that its successor takes for dead, and its open transaction."""

    client: Producer
    group: object
    txn_id: int
    called_ns: int
    initialised_ns: int | None
    batch: list[Message] = field(default_factory=list)


class _Died(Exception):  # noqa: N818 - what happens to the application, not an error of ours
    """The application has died; a new one has to take over."""


class ProcessorLoop(TransactionLoop):
    """One thread: the application, and after a death the next one. Other threads may call `die` and `lag`."""

    def __init__(self, producer: RecordingProducer, close_s: float, tables: TxnTables, processed: TableWriter) -> None:
        super().__init__(producer, close_s, tables, {})
        assert producer.spec.processes is not None
        self.plan = producer.spec.processes
        self.spec = replace(self.spec, offsets_of=self.plan.group)  # the group in its rows of offset commits
        self._processed = processed
        self._chance = random.Random(f"{producer.context.seed}/{producer.spec.name}/aborts")
        self._consumer: Consumer | None = None
        self._held: list[Message] = []
        self._done: dict[Place, int] = {}  # next offsets, by committed transactions
        self._ends: dict[Place, int] = {}  # log ends that it reached with no input left to process
        self._death: ProcessorDeath | None = None
        self._zombie: _Zombie | None = None

    # --- for other threads ---

    def die(self, death: ProcessorDeath) -> ProcessorDeath:
        """Orders a death: it collects `death.records` records from now on, and dies at a moment of the work on them."""
        self._death = death
        return death

    def lag(self, acked: Mapping[Place, int]) -> dict[str, int]:
        """How many offsets up to `acked` it has not finished, by "topic/partition"; only partitions with lag."""
        done, ends = dict(self._done), dict(self._ends)
        finished = {place: max(done.get(place, 0), ends.get(place, 0)) for place in done.keys() | ends.keys()}
        return processor_lag(self.plan, finished, acked)

    @property
    def state(self) -> str:
        """Its current state, for messages."""
        return f"it holds {len(self._held)} records"

    # --- the application ---

    def _run(self) -> None:
        try:
            self._take_over()
            while not self._stopping.is_set():
                try:
                    self._turn()
                except _Died:
                    self._take_over()
        finally:  # a consumer that is not closed blocks the thread that frees it, and the whole run with it
            self._close_consumer()

    def _turn(self) -> None:
        assert self._consumer is not None
        self.producer.poll(0.0)
        death = self._death
        if death is not None and (death.called_off or death.between is not None):
            death = self._death = None
        size = self.spec.records if death is None else death.records
        messages = self._consumer.consume(max(1, size - len(self._held)), _POLL_S)
        records, events = split(messages)
        self._held += records
        death = self._death  # it may have been ordered during the poll; then the records of that poll count for it
        if death is not None:
            death.held = len(self._held)
        due = bool(self._held) and (death is None or len(self._held) >= death.records)
        if due:
            batch, self._held = self._held, []
            if not self._work(batch, death):
                return  # after the rewind, the events of this poll are out of date
        for event in events:
            self._on_event(event)

    def _on_event(self, event: Message) -> None:
        error = event.error()
        assert error is not None
        if error.name() == EOF and not self._held:
            place = str(event.topic()), int(event.partition() or 0)
            self._ends = self._ends | {place: int(event.offset() or 0)}
        elif is_fatal(error) or error.name() in JUMPS:
            # Input that has left the log before it was processed: the thread ends, which is a doubt.
            raise KafkaException(error)

    def _work(self, batch: list[Message], death: ProcessorDeath | None) -> bool:
        """Processes one batch; False if its transaction was aborted. _Died when a new application must take over."""
        dies_at = None if death is None else death.at
        positions = {place: end for place, (_, end) in spans(batch).items()}
        self._crash_if(dies_at == "read", batch)
        if self.plan.commits == "before":
            self._commit_alone(positions)
            self._crash_if(dies_at == "offsets", batch)
        txn_id, called_ns = self.producer.context.numbers.transaction(), now_ns()
        with self._recorded(txn_id, called_ns) as end:
            self._run_transaction(batch, positions, txn_id, called_ns, dies_at, end)
        if end.outcome is TxnOutcome.ABORTED:
            self._rewind(batch)
            return False
        self._crash_if(dies_at == "produced", batch)
        if self.plan.commits == "after":
            self._commit_alone(positions)
        self._done = self._done | positions
        self._crash_if(dies_at is not None, batch)
        return True

    def _run_transaction(
        self,
        batch: list[Message],
        positions: Mapping[Place, int],
        txn_id: int,
        called_ns: int,
        dies_at: Moment | None,
        end: _TxnEnd,
    ) -> None:
        with_offsets = self.plan.commits == "transaction"
        failed_before = self.producer.failed_sends
        self.producer.client.begin_transaction()
        self._make(batch, txn_id)
        whole = self.producer.flush(FLUSH_S) and self.producer.failed_sends == failed_before
        if with_offsets:
            self._die_with_open_transaction(dies_at == "produced", batch, txn_id, called_ns, end)
            assert self._consumer is not None
            self._group = self._consumer.consumer_group_metadata()
            whole = whole and self.producer.fatal is None and self._add_offsets(positions, txn_id)
            self._die_with_open_transaction(dies_at == "offsets", batch, txn_id, called_ns, end)
        abort = dies_at is None and self._chance.random() < self.spec.abort_share
        if dies_at == "commit" and whole:
            self._commit_without_answer()
            self._crash_if(True, batch)
        if self.producer.fatal is None:
            end.outcome = self._end(commit=whole and not abort)
        if end.outcome is TxnOutcome.UNKNOWN or not whole:
            raise _Died

    @contextmanager
    def _recorded(self, txn_id: int, called_ns: int) -> Iterator[_TxnEnd]:
        """Writes the row of a transaction, however it ends. After an error its client is unusable: _Died."""
        end = _TxnEnd()
        try:
            yield end
        except KafkaException as failure:
            self.errors.append(failure.args[0].name())
            raise _Died from None
        except CallHung as hung:
            self._give_up(f"a call of the processor {self.name} hangs ({hung})")
            raise _Died from None
        finally:
            if not end.left_open:
                self._write(txn_id, end.outcome, called_ns)

    def _make(self, batch: Sequence[Message], txn_id: int) -> None:
        """Writes a record for each input record, in order; from one input partition always to one output partition."""
        (topic,) = self.producer.spec.topics
        by_place: dict[Place, list[Message]] = {}
        for message in batch:
            by_place.setdefault((str(message.topic()), int(message.partition() or 0)), []).append(message)
        for place, messages in by_place.items():
            to = (topic, place[1] % self.producer.context.targets[topic].partitions)
            offsets = [int(message.offset() or 0) for message in messages]
            while offsets and self.producer.fatal is None:
                tally = Tally()
                self.producer.queue(to, len(offsets), txn_id=txn_id, tally=tally)
                for stream, first in tally.first_seqs.items():
                    self._note(place, offsets[: tally.queued], stream, first)
                offsets = offsets[tally.queued :]
                if offsets:
                    self.producer.poll(_TICK_S)

    def _note(self, place: Place, offsets: Sequence[int], stream: int, first: int) -> None:
        for nth, offset in enumerate(offsets):
            self._processed.append(
                {
                    "processor": self.name,
                    "topic": place[0],
                    "topic_id": self.producer.context.targets[place[0]].topic_id,
                    "partition": place[1],
                    "offset": offset,
                    "stream": stream,
                    "seq": first + nth,
                }
            )

    def _commit_alone(self, positions: Mapping[Place, int]) -> None:
        """Commits offsets outside of any transaction. _Died if the outcome of a commit is unknown."""
        assert self._consumer is not None
        called_ns = now_ns()
        errors = commit_now(self._consumer, dict(positions))
        for place, offset in positions.items():
            self.write_commit(place, offset, None, called_ns, errors.get(place))
        if any(outcome_of_offset_commit(error) is not Outcome.ACKED for error in errors.values()):
            raise _Died

    def _rewind(self, batch: Sequence[Message]) -> None:
        """Returns to the first offsets of a batch after its transaction was aborted."""
        assert self._consumer is not None
        try:
            for (topic, partition), (first, _) in spans(batch).items():
                self._consumer.seek(TopicPartition(topic, partition, first))
        except KafkaException:  # a rebalance has revoked the partition
            raise _Died from None

    # --- its death, and its successor ---

    def _crash_if(self, dies: bool, batch: Sequence[Message]) -> None:
        if dies and self._death is not None:
            self._death.between = spans(batch)
            raise _Died

    def _die_with_open_transaction(
        self, dies: bool, batch: list[Message], txn_id: int, called_ns: int, end: _TxnEnd
    ) -> None:
        """If it dies now, leaves its transaction open; for a zombie, keeps the client for a later attempt to commit."""
        if dies and self._death is not None and self._death.zombie:
            assert self._consumer is not None
            group = self._consumer.consumer_group_metadata()
            self._zombie = _Zombie(self.producer.client, group, txn_id, called_ns, self._initialised_ns, batch)
            end.left_open = True
        self._crash_if(dies, batch)

    def _commit_without_answer(self) -> None:
        """Sends the commit and does not wait for the answer."""
        commit = self.producer.client.commit_transaction
        self._end_called_ns = now_ns()
        try:
            self._timed_calls.call(lambda: commit(FLUSH_S), 0.0)
        except CallHung:
            self._timed_calls.close()
            self._timed_calls = TimedCalls(self.name)

    def _take_over(self) -> None:
        """Starts a new application: a new client with the same transactional id, at the group's committed offsets."""
        dead = self._death if self._death is not None and self._death.between is not None else None
        if self._consumer is not None:
            self._close_consumer()
            self.producer.abandon()
            self.producer.open()
        self._held, self._ends = [], {}
        self._initialise()
        if self._zombie is not None and dead is not None:
            self._run_zombie(self._zombie, dead)
        self._zombie = None
        self._consumer = Consumer(self._settings())
        self._consumer.subscribe(
            list(self.plan.reads), on_assign=self._begin, on_revoke=self._leave, on_lost=self._leave
        )

    def _begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Begins at the log's start where the group has committed nothing, as in partitions that were added later.

        Where it committed before, the client reports an error if that offset is gone.
        """
        added = [one for one in partitions if (one.topic, one.partition) not in self._done]
        fresh: set[Place] = set()
        if added and self._done:
            with suppress(KafkaException):  # the client asks again, and reports the error
                known = consumer.committed(added, _COMMITTED_S)
                fresh = {(one.topic, one.partition) for one in known if one.offset < 0 and one.error is None}
        for one in partitions:
            if (one.topic, one.partition) in fresh:
                one.offset = OFFSET_BEGINNING
        consumer.incremental_assign(partitions)

    def _leave(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Forgets what it holds of partitions that another instance gets: that one begins at the last commit."""
        left = {(one.topic, one.partition) for one in partitions}
        self._held = [one for one in self._held if (one.topic(), one.partition()) not in left]
        consumer.incremental_unassign(partitions)

    def _run_zombie(self, zombie: _Zombie, death: ProcessorDeath) -> None:
        """The old client writes its batch once more and commits. Sets `death.fenced` to the error that it gets."""
        mine, self.producer.client = self.producer.client, zombie.client
        initialised_ns, self._initialised_ns = self._initialised_ns, zombie.initialised_ns
        outcome = TxnOutcome.UNKNOWN
        self.end_error = None
        try:
            with suppress(SystemError):  # confluent-kafka raises it from a flush of a fenced client
                self._make(zombie.batch, zombie.txn_id)
                self.producer.flush(FLUSH_S)
            outcome = self._end(commit=True)
        except KafkaException as failure:
            self.end_error = failure.args[0].name()
        except CallHung as hung:
            self._hangs(f"a call of the zombie of {self.name} hangs ({hung})")
            self._timed_calls = TimedCalls(self.name)
        finally:
            self.producer.abandon()  # writes the zombie's sends without a report
            self.producer.return_to(mine)
        self._write(zombie.txn_id, outcome, zombie.called_ns)
        self._initialised_ns = initialised_ns
        death.fenced = "" if outcome is TxnOutcome.COMMITTED else self.end_error or "no answer"

    def _close_consumer(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _settings(self) -> dict[str, object]:
        context = self.producer.context
        client_id = f"{self.name}-in-{context.run:x}"
        settings = (
            consumer_settings(context.bootstrap, client_id, self.plan.group, "read_committed") | SESSION | CLASSIC
        )
        # Only before its first commit may it start at the log's start: later it would process everything again.
        first = "error" if self._done else "earliest"
        return settings | dict(context.access.settings) | {"auto.offset.reset": first, "enable.partition.eof": True}

    def _group_metadata(self, group: str) -> None:  # noqa: ARG002 - each of its consumers has its own metadata
        return None


@dataclass(slots=True)
class _TxnEnd:
    """The end of a transaction. `left_open`: a zombie has it open and will end it."""

    outcome: TxnOutcome = TxnOutcome.UNKNOWN
    left_open: bool = False
