"""An application that reads and writes: a record for each that it is given, in transactions (KIP-98, KIP-447).

It holds what it is given until that is a batch, writes what it makes of it in one transaction, and commits its offsets
in that transaction, or after it, or before. Which record was made of which goes to the table `processed`. It dies as an
application does: its client is let go of with its transaction open, and another one with the same transactional id and
in the same group takes over. It leaves its group as it dies, so that nobody has to wait for its session to time out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.scenario.scenario import Moment
from harness.workload.consumers.consumer_group import CLASSIC, SESSION, commit_now
from harness.workload.consumers.crashing_consumer import spans
from harness.workload.consumers.live_readers import EOF, JUMPS, split
from harness.workload.consumers.processing import ProcessorDeath, not_done
from harness.workload.meters import Place
from harness.workload.producers.outcomes import outcome_of_offset_commit
from harness.workload.producers.recording_producer import RecordingProducer, Tally
from harness.workload.producers.transactions import FLUSH_S, TransactionLoop, TxnTables
from harness.workload.settings import consumer_settings
from harness.workload.watchdog import Hung, Watched

_POLL_S: Final = 0.1
_TICK_S: Final = 0.05


@dataclass(slots=True)
class _Zombie:
    """A client that others take for dead, and the transaction that it has open."""

    client: Any
    group: Any
    txn_id: int
    called_ns: int
    batch: list[Message] = field(default_factory=list)


class _Died(Exception):  # noqa: N818 - what happens to the application, not an error of ours
    """The application is gone; another one has to take over."""


class ProcessorLoop(TransactionLoop):
    """One thread: the application, and whoever takes its place. Other threads may call `die` and `behind`."""

    def __init__(self, producer: RecordingProducer, close_s: float, tables: TxnTables, processed: TableWriter) -> None:
        super().__init__(producer, close_s, tables, {})
        assert producer.spec.processes is not None
        self.plan = producer.spec.processes
        self.spec = replace(self.spec, offsets_of=self.plan.group)  # whose offsets its rows of commits are about
        self._processed = processed
        self._chance = random.Random(f"{producer.context.seed}/{producer.spec.name}/aborts")
        self._consumer: Consumer | None = None
        self._held: list[Message] = []
        self._done: dict[Place, int] = {}  # committed, by the answer
        self._ends: dict[Place, int] = {}  # the end of a partition, when it was done with all before that
        self._death: ProcessorDeath | None = None
        self._zombie: _Zombie | None = None

    # --- for other threads ---

    def die(self, death: ProcessorDeath) -> ProcessorDeath:
        """It holds what it is given from now on until that is so many records, works on them, and dies at a moment of
        that."""
        self._death = death
        return death

    def behind(self, acked: Mapping[Place, int]) -> dict[str, int]:
        """How many offsets up to the highest acknowledged ones it is not done with, by partition; those only."""
        done, ends = dict(self._done), dict(self._ends)
        far = {place: max(done.get(place, 0), ends.get(place, 0)) for place in done.keys() | ends.keys()}
        return not_done(self.plan, far, acked)

    @property
    def state(self) -> str:
        """What it does just now, for who waits for it."""
        return f"it holds {len(self._held)} records"

    # --- the application ---

    def _run(self) -> None:
        self._take_over()
        while not self._stopping.is_set():
            try:
                self._turn()
            except _Died:
                self._take_over()
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
        death = self._death  # it may have been ordered since: what came meanwhile is what it is to die with
        if death is not None:
            death.held = len(self._held)
        due = bool(self._held) and (death is None or len(self._held) >= death.records)
        if due:
            batch, self._held = self._held, []
            if not self._work(batch, death):
                return  # what the client told of the end was from before it went back
        for event in events:
            self._on_event(event)

    def _on_event(self, event: Message) -> None:
        error = event.error()
        assert error is not None
        if error.name() == EOF and not self._held:
            place = str(event.topic()), int(event.partition() or 0)
            self._ends = self._ends | {place: int(event.offset() or 0)}
        elif error.fatal() or error.name() in JUMPS:
            raise KafkaException(error)  # nobody may take from it what it has not done: a doubt

    def _work(self, batch: list[Message], death: ProcessorDeath | None) -> bool:
        """One batch from the beginning to its end, False if that was an abort; _Died when another one has to take over,
        whatever the reason."""
        dies_at = None if death is None else death.at
        positions = {place: end for place, (_, end) in spans(batch).items()}
        self._crashing(dies_at == "read", batch)
        if self.plan.commits == "before":
            self._commit_alone(positions)
            self._crashing(dies_at == "offsets", batch)
        txn_id, called_ns = self.producer.context.numbers.transaction(), now_ns()
        with self._reported(txn_id, called_ns) as reported:
            self._within(batch, positions, txn_id, called_ns, dies_at, reported)
        if reported.outcome is TxnOutcome.ABORTED:
            self._rewind(batch)
            return False
        self._crashing(dies_at == "produced", batch)
        if self.plan.commits == "after":
            self._commit_alone(positions)
        self._done = self._done | positions
        self._crashing(dies_at is not None, batch)
        return True

    def _within(
        self,
        batch: list[Message],
        positions: Mapping[Place, int],
        txn_id: int,
        called_ns: int,
        dies_at: Moment | None,
        reported: _Told,
    ) -> None:
        carried = self.plan.commits == "transaction"
        failed_before = self.producer.failed_sends
        self.producer.client.begin_transaction()
        self._make(batch, txn_id)
        whole = self.producer.flush(FLUSH_S) and self.producer.failed_sends == failed_before
        if carried:
            self._leave(dies_at == "produced", batch, txn_id, called_ns, reported)
            assert self._consumer is not None
            self._group = self._consumer.consumer_group_metadata()
            whole = whole and self.producer.fatal is None and self._carry(positions, txn_id)
            self._leave(dies_at == "offsets", batch, txn_id, called_ns, reported)
        abort = dies_at is None and self._chance.random() < self.spec.abort_share
        if dies_at == "commit" and whole:
            self._commit_unheard()
            self._crashing(True, batch)
        if self.producer.fatal is None:
            reported.outcome = self._end(commit=whole and not abort)
        if reported.outcome is TxnOutcome.UNKNOWN or not whole:
            raise _Died

    @contextmanager
    def _reported(self, txn_id: int, called_ns: int) -> Iterator[_Told]:
        """Writes the row of a transaction, however it ends; its client is of no use any more where that is unknown."""
        reported = _Told()
        try:
            yield reported
        except KafkaException as failure:  # the client is beyond use: unknown, and another one
            self.errors.append(failure.args[0].name())
            raise _Died from None
        except Hung as hung:
            self._give_up(f"a call of the processor {self.name} hangs ({hung})")
            raise _Died from None
        finally:
            if not reported.left_open:
                self._write(txn_id, reported.outcome, called_ns)

    def _make(self, batch: Sequence[Message], txn_id: int) -> None:
        """Writes one record for each of a batch, in order; of one partition, to one partition."""
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
        """Commits offsets outside of any transaction. Without an answer nobody knows, and another one takes over."""
        assert self._consumer is not None
        called_ns = now_ns()
        errors = commit_now(self._consumer, dict(positions))
        for place, offset in positions.items():
            self.write_commit(place, offset, None, called_ns, errors.get(place))
        if any(outcome_of_offset_commit(error) is not Outcome.ACKED for error in errors.values()):
            raise _Died

    def _rewind(self, batch: Sequence[Message]) -> None:
        """What an aborted transaction was made of is given once more."""
        assert self._consumer is not None
        try:
            for (topic, partition), (first, _) in spans(batch).items():
                self._consumer.seek(TopicPartition(topic, partition, first))
        except KafkaException:  # the partition was taken away meanwhile
            raise _Died from None

    # --- how it dies, and who comes then ---

    def _crashing(self, dies: bool, batch: Sequence[Message]) -> None:
        if dies and self._death is not None:
            self._death.between = spans(batch)
            raise _Died

    def _leave(self, dies: bool, batch: list[Message], txn_id: int, called_ns: int, reported: _Told) -> None:
        """Dies with its transaction open, as a zombie or for good."""
        if dies and self._death is not None and self._death.zombie:
            assert self._consumer is not None
            group = self._consumer.consumer_group_metadata()
            self._zombie = _Zombie(self.producer.client, group, txn_id, called_ns, batch)
            reported.left_open = True
        self._crashing(dies, batch)

    def _commit_unheard(self) -> None:
        """Sends the commit and does not live to hear the answer."""
        commit = self.producer.client.commit_transaction
        try:
            self._watched.call(lambda: commit(FLUSH_S), 0.0)
        except Hung:
            self._watched.close()
            self._watched = Watched(self.name)

    def _take_over(self) -> None:
        """Another one: with a client of its own, the same transactional id, and what the group committed."""
        dead = self._death if self._death is not None and self._death.between is not None else None
        if self._consumer is not None:
            self._close_consumer()
            self.producer.abandon()
            self.producer.open()
        self._held, self._ends = [], {}
        self._initialise()
        if self._zombie is not None and dead is not None:
            self._haunt(self._zombie, dead)
        self._zombie = None
        self._consumer = Consumer(self._settings())
        self._consumer.subscribe(list(self.plan.reads))

    def _haunt(self, zombie: _Zombie, death: ProcessorDeath) -> None:
        """The old client writes once more what it had written, and commits. `death.fenced`: what it was told."""
        mine, self.producer.client = self.producer.client, zombie.client
        outcome = TxnOutcome.UNKNOWN
        self.end_error = None
        try:
            with suppress(SystemError):  # so confluent-kafka ends a flush of a client that was fenced
                self._make(zombie.batch, zombie.txn_id)
                self.producer.flush(FLUSH_S)
            outcome = self._end(commit=True)
        except KafkaException as failure:
            self.end_error = failure.args[0].name()
        except Hung as hung:
            self.doubts.append(f"a call of the zombie of {self.name} hangs ({hung})")
            self._watched = Watched(self.name)
        finally:
            self.producer.abandon()  # what the zombie was never told of
            self.producer.let_go(mine)
        self._write(zombie.txn_id, outcome, zombie.called_ns)
        death.fenced = "" if outcome is TxnOutcome.COMMITTED else self.end_error or "no answer"

    def _close_consumer(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _settings(self) -> dict[str, Any]:
        context = self.producer.context
        client_id = f"{self.name}-in-{context.run:x}"
        settings = (
            consumer_settings(context.bootstrap, client_id, self.plan.group, "read_committed") | SESSION | CLASSIC
        )
        # Only who has never committed begins at the log's start: later that would do everything once more.
        first = "error" if self._done else "earliest"
        return settings | dict(context.access.settings) | {"auto.offset.reset": first, "enable.partition.eof": True}

    def _group_metadata(self, group: str) -> Any:  # noqa: ARG002 - each of its consumers has its own
        return None


@dataclass(slots=True)
class _Told:
    """How a transaction ended. left_open: who has it open is not done with it."""

    outcome: TxnOutcome = TxnOutcome.UNKNOWN
    left_open: bool = False
