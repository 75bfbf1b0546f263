"""Transactional load: commits, aborts, offsets of a group, transactions that stay open while a segment rolls.

Outcomes: `committed` and `aborted` need the coordinator's answer to that very call. A commit that failed in any way
stays `unknown`: EndTxn may have been sent, and librdkafka documents that the commit may have succeeded when it reports
an abortable error. A transaction that met a fatal error, a fencing or a call that never returned is `unknown` as well.

Everything is flushed before an abort: otherwise librdkafka gives the sequence numbers of a batch without an answer to
the next transaction, and the broker takes its records for duplicates. The client is also replaced after a
transaction with failed sends.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.outcome import TxnOutcome
from harness.model.place import Place
from harness.workload.client_errors import client_error
from harness.workload.meters import NONE
from harness.workload.pacing import Pace
from harness.workload.producers.failed_calls import Call, FailedCalls
from harness.workload.producers.loops import ROUND_S, BurstResult, ProducerLoop
from harness.workload.producers.outcomes import outcome_of_offset_commit
from harness.workload.producers.recording_producer import CHUNK, RecordingProducer, Tally
from harness.workload.settings import consumer_settings
from harness.workload.timed_calls import CallHung, TimedCalls

_T = TypeVar("_T")
_TICK_S: Final = 0.05
_CALL_S: Final = 5.0  # the client's own timeout of a call
_HANGS: Final = "librdkafka asks a group coordinator that is away for ever (its issue 5456)"
_HANG_S: Final = 20.0  # a call that takes longer hangs, and its client is abandoned
_END_S: Final = 20.0  # for all attempts of one commit or abort
FLUSH_S: Final = 20.0
_HOLD_S: Final = 6.0
_HOLD_SHARE: Final = 0.1
_FIRST_HELD: Final = 1  # the second transaction is held, so that a short run has one, too
_OFFSETS_SHARE: Final = 0.5
_INIT_S: Final = 60.0
_STALLED_S: Final = 20.0  # a client that asks in vain for so long is replaced: another one may have an answer
_MARGIN_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnPlan:
    """The plan of one transaction, drawn from the seed: the same seed gives the same plans.

    `hold`: the transaction stays open until one of its partitions has rolled a segment.
    """

    records: int
    places: tuple[Place, ...]
    abort: bool
    with_offsets: bool
    hold: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnTables:
    """The tables that a transactional producer writes besides the ledger."""

    transactions: TableWriter
    offset_commits: TableWriter
    failed_calls: TableWriter


class TransactionLoop(ProducerLoop):
    """One thread with one transactional id, which runs one transaction after another.

    `segment_bytes` by topic: a held transaction spans a segment roll after that many acked bytes; `spans` counts these.
    """

    def __init__(
        self, producer: RecordingProducer, close_s: float, tables: TxnTables, segment_bytes: dict[str, int]
    ) -> None:
        super().__init__(producer, close_s)
        assert producer.spec.transactions is not None
        self.spec = producer.spec.transactions
        self.outcomes: Counter[str] = Counter()
        self.spans = 0
        self.doubts: list[str] = []
        self.notes: list[str] = []
        # Whether a fault may take the coordinator of a group away: librdkafka waits for that one without an end.
        self.known_to_hang = False
        self.errors: list[str] = []  # of calls after which a client was abandoned
        self.end_error: str | None = None  # of the last commit or abort that failed
        self.failed_calls = FailedCalls(tables.failed_calls, self.name, producer.transaction_timeout_ms)
        self._tables = tables
        self._segment_bytes = segment_bytes
        self._random = random.Random(f"{producer.context.seed}/{producer.spec.name}")
        self._pace = Pace(producer.spec.rate_per_s)
        self._timed_calls = TimedCalls(self.name)
        self._given_up: list[object] = []  # clients in a call that hangs; kept, since destroying one would hang as well
        self._group: object = None
        self._drawn = 0
        self._initialised_ns: int | None = None  # when init_transactions of the client returned
        self._end_called_ns: int | None = None  # when the end of the transaction was called first

    @property
    def waits_for(self) -> set[Call]:
        """Calls that failed and have not succeeded since, of the kinds that it makes again and again: one that aborts
        only after failed sends may never have a reason to abort again."""
        again: set[Call] = {"init", "commit"}
        again |= {"abort"} if self.spec.abort_share else set()
        again |= {"offsets"} if self.spec.offsets_of is not None else set()
        return again & self.failed_calls.last.keys()

    def _run(self) -> None:
        self._initialise()
        while not self._stopping.is_set():
            if not self._run_one(self._draw()):
                self._renew()

    def _draw(self) -> TxnPlan:
        self.producer.add_partitions()
        chance, spec, places = self._random, self.spec, self.producer.places
        plan = TxnPlan(
            records=chance.randint(1, max(1, 2 * spec.records - 1)),
            places=tuple(chance.sample(places, chance.randint(min(2, len(places)), len(places)))),
            abort=chance.random() < spec.abort_share,
            with_offsets=spec.offsets_of is not None and chance.random() < _OFFSETS_SHARE,
            hold=spec.spans_rolls and (chance.random() < _HOLD_SHARE or self._drawn == _FIRST_HELD),
        )
        self._drawn += 1
        return plan

    def _run_one(self, plan: TxnPlan) -> bool:
        """Runs one transaction and writes its row. False when its client must be replaced."""
        txn_id, failed_before = self.producer.context.numbers.transaction(), self.producer.failed_sends
        called_ns = now_ns()
        outcome, healthy = TxnOutcome.UNKNOWN, False
        try:
            self.producer.client.begin_transaction()
            self._send(plan, txn_id)
            whole = self.producer.flush(FLUSH_S) and self.producer.failed_sends == failed_before
            if self.producer.fatal is None:
                whole = whole and (not plan.with_offsets or self._send_offsets(plan.places, txn_id))
                outcome = self._end(commit=whole and not plan.abort)
                healthy = whole and outcome is not TxnOutcome.UNKNOWN
        except KafkaException:
            pass  # begin failed, or the client is unusable: the outcome is unknown, and the client is replaced
        except CallHung as hung:
            self._give_up(f"a call of the transactional client {self.name} hangs ({hung})")
        self._write(txn_id, outcome, called_ns)
        return healthy

    def _send(self, plan: TxnPlan, txn_id: int) -> None:
        rolls = {place: self._roll_bytes(place) for place in plan.places} if plan.hold else {}
        hold_until_s = time.monotonic() + _HOLD_S
        chunk, rate = max(1, min(CHUNK, plan.records // len(plan.places))), self.producer.spec.rate_per_s
        least = chunk if rate is None else max(1, min(chunk, round(rate * ROUND_S)))
        sent = turn = 0
        while not self._stopping.is_set() and self.producer.fatal is None:
            rolled = not plan.hold or any(self._bytes(place) >= goal for place, goal in rolls.items())
            if sent >= plan.records and (rolled or time.monotonic() > hold_until_s):
                self.spans += plan.hold and rolled
                return
            due = self._pace.due(CHUNK)
            wanted = min(due, chunk if sent < plan.records else CHUNK)
            if wanted >= least:
                # Held open: records beyond the plan all go to one partition, so that it rolls sooner.
                place = plan.places[turn % len(plan.places) if sent < plan.records else 0]
                taken = self.producer.queue(place, wanted, txn_id=txn_id)
                self._pace.spent(taken)
                sent, turn = sent + taken, turn + 1
            self.producer.poll(0.0 if due > wanted else _TICK_S / 2)

    def _bytes(self, place: Place) -> int:
        return self.producer.context.meters.acked_bytes(place)

    def _roll_bytes(self, place: Place) -> int:
        """The acked bytes at which a new segment has certainly begun: values are hexadecimal, which a codec halves."""
        shrink = 1 if self.producer.spec.compression == "none" else 3
        return self._bytes(place) + shrink * self._segment_bytes[place[0]]

    def _send_offsets(self, places: Iterable[Place], txn_id: int) -> bool:
        """Commits offsets of the group in the transaction; False if that failed and the transaction must be aborted."""
        highest = self.producer.context.meters.highest_acked()
        offsets = {place: highest[place] + 1 for place in places if highest.get(place, NONE) > NONE}
        return self._add_offsets(offsets, txn_id) if offsets else True

    def _add_offsets(self, offsets: Mapping[Place, int], txn_id: int) -> bool:
        """Adds these offsets to the transaction; False if that failed and the transaction must be aborted."""
        parts = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        called_ns, error = now_ns(), None
        send = self.producer.client.send_offsets_to_transaction
        try:
            self._call("offsets", lambda: send(parts, self._group, _CALL_S))
        except KafkaException as failure:
            error = failure.args[0].name()
        except CallHung:
            self._write_offsets(offsets, txn_id, called_ns, "_HUNG")
            raise
        self._write_offsets(offsets, txn_id, called_ns, error)
        return error is None

    def _end(self, *, commit: bool) -> TxnOutcome:
        """Commits or aborts; repeats the call while the client reports a retriable error."""
        client = self.producer.client
        end = client.commit_transaction if commit else client.abort_transaction
        give_up_at_s = time.monotonic() + _END_S
        self._end_called_ns = now_ns()
        while True:
            try:
                self._call("commit" if commit else "abort", lambda: end(_CALL_S))
                self.producer.record()
                return TxnOutcome.COMMITTED if commit else TxnOutcome.ABORTED
            except (KafkaException, SystemError) as failure:
                self.producer.record()
                if (error := client_error(failure)) is None:
                    raise
                self.end_error = error.name()
                if not error.retriable() or time.monotonic() > give_up_at_s:
                    return TxnOutcome.UNKNOWN

    def _call(self, what: Call, do: Callable[[], object]) -> None:
        """Calls the client, and records an error. CallHung if the call does not return in time."""
        with self.failed_calls.of(what, self._initialised_ns):
            self._timed_calls.call(do, _HANG_S)

    def _initialise(self) -> None:
        """Calls init_transactions, which also ends a transaction that an earlier incarnation left open (KIP-98)."""
        if self.spec.offsets_of is not None and self._group is None:
            self._group = self._group_metadata(self.spec.offsets_of)
        began_s, self._initialised_ns = time.monotonic(), None
        give_up_at_s, renew_at_s = began_s + _INIT_S, began_s + _STALLED_S
        while True:
            init = self.producer.client.init_transactions
            try:
                self._call("init", partial(init, _CALL_S))
                self._initialised_ns = now_ns()
                return
            except CallHung as hung:
                self._give_up(f"init_transactions of {self.name} hangs ({hung})")
                self.producer.open()
            except KafkaException as failure:
                if time.monotonic() > give_up_at_s:
                    raise
                # librdkafka was seen to repeat COORDINATOR_LOAD_IN_PROGRESS for a minute after one such answer.
                if not failure.args[0].retriable() or time.monotonic() > renew_at_s:
                    self.producer.open()
                    renew_at_s = time.monotonic() + _STALLED_S
                time.sleep(_TICK_S)  # between two attempts of a call that failed immediately

    def _renew(self) -> None:
        if self.producer.client not in self._given_up:
            self.producer.close(_CALL_S)
        self.producer.open()
        self._initialise()

    def _hangs(self, why: str) -> None:
        """A call that hangs: a doubt, unless its client is known to hang in it by itself. Then another one continues,
        and one that cannot is a doubt of its own."""
        if self.known_to_hang and self.failed_calls.hung == "offsets" and self.producer.context.java is None:
            self.notes.append(f"{why}; {_HANGS}")
        else:
            self.doubts.append(why)

    def _give_up(self, why: str) -> None:
        self._hangs(why)
        self._given_up.append(self.producer.client)
        self.producer.abandon()
        self._timed_calls = TimedCalls(self.name)

    def _group_metadata(self, group: str) -> object:
        """Metadata of a group without members: only transactions commit its offsets."""
        context = self.producer.context
        if context.java is not None:
            return group  # the Java client creates the metadata from the name
        settings = consumer_settings(context.bootstrap, f"{self.name}-group", group, "read_committed")
        consumer = Consumer(settings | dict(context.access.settings))
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _write(self, txn_id: int, outcome: TxnOutcome, called_ns: int) -> None:
        self.outcomes[outcome.value] += 1
        self._tables.transactions.append(
            {
                "txn_id": txn_id,
                "producer": self.name,
                "outcome": outcome.value,
                "called_ns": called_ns,
                "ended_ns": now_ns(),
                "initialised_ns": self._initialised_ns,
                "end_called_ns": self._end_called_ns,
            }
        )
        self._end_called_ns = None

    def _write_offsets(self, offsets: Mapping[Place, int], txn_id: int, called_ns: int, error: str | None) -> None:
        """Writes rows with the outcome of the call; the transaction's outcome decides whether the offsets count."""
        for place, offset in offsets.items():
            self.write_commit(place, offset, txn_id, called_ns, error)

    def write_commit(self, place: Place, offset: int, txn_id: int | None, called_ns: int, error: str | None) -> None:
        """Writes the row of an offset commit, within a transaction or (`txn_id` None) outside of one."""
        self._tables.offset_commits.append(
            {
                "group": self.spec.offsets_of,
                "topic": place[0],
                "topic_id": self.producer.context.targets[place[0]].topic_id,
                "partition": place[1],
                "offset": offset,
                "outcome": outcome_of_offset_commit(error).value,
                "txn_id": txn_id,
                "called_ns": called_ns,
                "returned_ns": now_ns(),
            }
        )


@dataclass(slots=True)
class _Order(Generic[_T]):
    """A call for the thread that owns the client."""

    do: Callable[[], _T]
    done: threading.Event = field(default_factory=threading.Event)
    answer: _T | None = None

    def run(self) -> None:
        try:
            self.answer = self.do()
        finally:
            self.done.set()


class SteppedTransactionLoop(TransactionLoop):
    """Transactions that steps open, fill and end. A burst opens one if none is open; it stays open until `end`."""

    def __init__(
        self, producer: RecordingProducer, close_s: float, tables: TxnTables, segment_bytes: dict[str, int]
    ) -> None:
        super().__init__(producer, close_s, tables, segment_bytes)
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._open: tuple[int, int] | None = None  # id of the open transaction, and when its first record was sent
        self._failed_before = 0
        self._with_offsets = True  # those that it was to have are in it

    def burst(self, place: Place, records: int, deadline_s: float) -> BurstResult:
        """Sends records within the open transaction; waits up to `deadline_s` for their outcomes. From any thread."""
        tally = Tally()
        self._order(lambda: self._fill(place, records, time.monotonic() + deadline_s, tally), deadline_s)
        return BurstResult.of(tally, records)

    def end(self, *, commit: bool, deadline_s: float) -> TxnOutcome:
        """Commits or aborts the open transaction; UNKNOWN when no answer came by the deadline. From any thread."""
        return self._order(lambda: self._finish(commit=commit), deadline_s) or TxnOutcome.UNKNOWN

    def _order(self, do: Callable[[], _T], deadline_s: float) -> _T | None:
        order = _Order(do)
        self._orders.put(order.run)
        order.done.wait(deadline_s + _MARGIN_S)
        return order.answer

    def _run(self) -> None:
        self._initialise()
        while not self._stopping.is_set():
            try:
                order = self._orders.get(timeout=_TICK_S)
            except queue.Empty:
                self.producer.poll(0.0)
                continue
            order()
        if self._open is not None:
            self._finish(commit=False)

    def _fill(self, place: Place, records: int, give_up_at_s: float, tally: Tally) -> None:
        if self._open is None:
            self.producer.client.begin_transaction()
            self._open = (self.producer.context.numbers.transaction(), now_ns())
            self._failed_before, self._with_offsets = self.producer.failed_sends, True
        txn_id, _ = self._open
        while time.monotonic() < give_up_at_s and not self._stopping.is_set() and self.producer.fatal is None:
            if tally.queued < records:
                self.producer.queue(place, records - tally.queued, txn_id=txn_id, tally=tally)
            elif tally.settled:
                break
            self.producer.poll(_TICK_S)
        if self.spec.offsets_of is not None and tally.settled:
            self._fill_offsets(place, txn_id)

    def _fill_offsets(self, place: Place, txn_id: int) -> None:
        try:
            self._with_offsets &= self._send_offsets([place], txn_id)
        except CallHung as hung:
            self._with_offsets = False
            self._give_up(f"a call of the transactional client {self.name} hangs ({hung})")

    def _finish(self, *, commit: bool) -> TxnOutcome:
        if self._open is None:
            return TxnOutcome.UNKNOWN
        (txn_id, called_ns), self._open = self._open, None
        outcome = TxnOutcome.UNKNOWN
        try:
            whole = self.producer.flush(_MARGIN_S) and self.producer.failed_sends == self._failed_before
            if self.producer.fatal is None:
                outcome = self._end(commit=commit and whole and self._with_offsets)
        except KafkaException:
            pass  # the client is unusable: the outcome is unknown, and the client is replaced
        except CallHung as hung:
            self._give_up(f"a call of the transactional client {self.name} hangs ({hung})")
        self._write(txn_id, outcome, called_ns)
        if outcome is TxnOutcome.UNKNOWN and not self._stopping.is_set():
            self._renew()
        return outcome
