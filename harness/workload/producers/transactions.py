"""Transactional load: commits, aborts, offsets of a group, transactions that stay open while a partition rolls.

Outcomes. `committed` and `aborted` need the coordinator's answer to that very call. A commit that failed in any way is
`unknown` for good: EndTxn may have been sent, and librdkafka itself notes that the commit may have succeeded where it
reports an abortable error. So is everything behind a fatal error, a fencing, or a call that never returned.

Before an abort everything is flushed: librdkafka otherwise gives the sequence numbers of a batch in doubt to the next
transaction, whose records the broker then takes for duplicates. A transaction with failed sends ends its client, too.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.outcome import TxnOutcome
from harness.workload.meters import NONE, Place
from harness.workload.producers.loops import ROUND_S, ProducerLoop
from harness.workload.producers.outcomes import outcome_of_offset_commit
from harness.workload.producers.pacing import Pace
from harness.workload.producers.recording_producer import CHUNK, RecordingProducer
from harness.workload.settings import consumer_settings
from harness.workload.watchdog import Hung, Watched

_TICK_S: Final = 0.05
_CALL_S: Final = 5.0  # given to the client
_HANG_S: Final = 20.0  # beyond this the client is given up
_END_S: Final = 20.0  # for all tries of one commit or abort
FLUSH_S: Final = 20.0
_HOLD_S: Final = 6.0
_HOLD_SHARE: Final = 0.1
_FIRST_HELD: Final = 1  # a short run must hold one, too
_OFFSETS_SHARE: Final = 0.5
_INIT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnPlan:
    """What one transaction will do; drawn from the seed, so the plan repeats even where brokers do not."""

    records: int
    places: tuple[Place, ...]
    abort: bool
    with_offsets: bool
    hold: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnTables:
    """The tables a transactional producer writes beside the ledger."""

    transactions: TableWriter
    offset_commits: TableWriter


class TransactionLoop(ProducerLoop):
    """One thread, one transactional id, one transaction after the other. `segment_bytes` by topic, for spans."""

    def __init__(
        self, producer: RecordingProducer, close_s: float, tables: TxnTables, segment_bytes: dict[str, int]
    ) -> None:
        super().__init__(producer, close_s)
        assert producer.spec.transactions is not None
        self.spec = producer.spec.transactions
        self.outcomes: Counter[str] = Counter()
        self.spans = 0
        self.doubts: list[str] = []
        self.errors: list[str] = []  # of calls after which a client was given up
        self.end_error: str | None = None  # of the last end that was refused
        self._tables = tables
        self._segment_bytes = segment_bytes
        self._random = random.Random(f"{producer.context.seed}/{producer.spec.name}")
        self._pace = Pace(producer.spec.rate_per_s)
        self._watched = Watched(self.name)
        self._given_up: list[Any] = []  # clients in a call that hangs: releasing one would hang as well
        self._group: Any = None
        self._drawn = 0

    def _run(self) -> None:
        self._initialise()
        while not self._stopping.is_set():
            if not self._one(self._draw()):
                self._renew()

    def _draw(self) -> TxnPlan:
        self.producer.take_up()
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

    def _one(self, plan: TxnPlan) -> bool:
        """Runs one transaction and writes its row. False when its client must be replaced."""
        txn_id, failed_before = self.producer.context.numbers.transaction(), self.producer.failed_sends
        called_ns = now_ns()
        outcome, healthy = TxnOutcome.UNKNOWN, False
        try:
            self.producer.client.begin_transaction()
            self._send(plan, txn_id)
            whole = self.producer.flush(FLUSH_S) and self.producer.failed_sends == failed_before
            if self.producer.fatal is None:
                whole = whole and (not plan.with_offsets or self._send_offsets(plan, txn_id))
                outcome = self._end(commit=whole and not plan.abort)
                healthy = whole and outcome is not TxnOutcome.UNKNOWN
        except KafkaException:
            pass  # begin failed, or the client is beyond use: unknown, and a new client
        except Hung as hung:
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
                # Held open: what comes on top of the plan goes to one partition, which rolls the sooner.
                place = plan.places[turn % len(plan.places) if sent < plan.records else 0]
                taken = self.producer.queue(place, wanted, txn_id=txn_id)
                self._pace.spent(taken)
                sent, turn = sent + taken, turn + 1
            self.producer.poll(0.0 if due > wanted else _TICK_S / 2)

    def _bytes(self, place: Place) -> int:
        return self.producer.context.meters.acked_bytes(place)

    def _roll_bytes(self, place: Place) -> int:
        """So many acked bytes surely fill a segment: values are hexadecimal digits, which a codec halves."""
        shrink = 1 if self.producer.spec.compression == "none" else 3
        return self._bytes(place) + shrink * self._segment_bytes[place[0]]

    def _send_offsets(self, plan: TxnPlan, txn_id: int) -> bool:
        """Adds offsets of the group to the transaction; False when it must be aborted for that."""
        highest = self.producer.context.meters.highest_acked()
        offsets = {place: highest[place] + 1 for place in plan.places if highest.get(place, NONE) > NONE}
        return self._carry(offsets, txn_id) if offsets else True

    def _carry(self, offsets: Mapping[Place, int], txn_id: int) -> bool:
        """Adds these offsets to the transaction; False when it must be aborted for that."""
        parts = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        called_ns, error = now_ns(), None
        send = self.producer.client.send_offsets_to_transaction
        try:
            self._watched.call(lambda: send(parts, self._group, _CALL_S), _HANG_S)
        except KafkaException as failure:
            error = failure.args[0].name()
        except Hung:
            self._write_offsets(offsets, txn_id, called_ns, "_HUNG")
            raise
        self._write_offsets(offsets, txn_id, called_ns, error)
        return error is None

    def _end(self, *, commit: bool) -> TxnOutcome:
        """Commits or aborts, again while the client says that may be done."""
        client = self.producer.client
        end = client.commit_transaction if commit else client.abort_transaction
        give_up_at_s = time.monotonic() + _END_S
        while True:
            try:
                self._watched.call(lambda: end(_CALL_S), _HANG_S)
                self.producer.record()
                return TxnOutcome.COMMITTED if commit else TxnOutcome.ABORTED
            except KafkaException as failure:
                self.producer.record()
                self.end_error = failure.args[0].name()
                if not failure.args[0].retriable() or time.monotonic() > give_up_at_s:
                    return TxnOutcome.UNKNOWN

    def _initialise(self) -> None:
        """init_transactions ends whatever an earlier incarnation left open (KIP-98); so it is asked at the end, too."""
        if self.spec.offsets_of is not None and self._group is None:
            self._group = self._group_metadata(self.spec.offsets_of)
        give_up_at_s = time.monotonic() + _INIT_S
        while True:
            init = self.producer.client.init_transactions
            try:
                self._watched.call(partial(init, _CALL_S), _HANG_S)
                return
            except Hung as hung:
                self._give_up(f"init_transactions of {self.name} hangs ({hung})")
                self.producer.open()
            except KafkaException as failure:
                if time.monotonic() > give_up_at_s:
                    raise
                if not failure.args[0].retriable():
                    self.producer.open()
                time.sleep(_TICK_S)  # between two tries of a call that has failed at once

    def _renew(self) -> None:
        if self.producer.client not in self._given_up:
            self.producer.close(_CALL_S)
        self.producer.open()
        self._initialise()

    def _give_up(self, why: str) -> None:
        self.doubts.append(why)
        self._given_up.append(self.producer.client)
        self.producer.abandon()
        self._watched = Watched(self.name)

    def _group_metadata(self, group: str) -> Any:
        """Metadata of a group that nobody joins: its offsets are committed by transactions alone."""
        context = self.producer.context
        if context.java is not None:
            return group  # of which the Java client makes it
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
            }
        )

    def _write_offsets(self, offsets: Mapping[Place, int], txn_id: int, called_ns: int, error: str | None) -> None:
        """The outcome is that of the call; whether the offsets count is the transaction's outcome."""
        for place, offset in offsets.items():
            self.write_commit(place, offset, txn_id, called_ns, error)

    def write_commit(self, place: Place, offset: int, txn_id: int | None, called_ns: int, error: str | None) -> None:
        """The row of a commit of an offset, within a transaction or by itself."""
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
