"""Transactions that steps open, fill and end: for scenarios that are about the moment at which one ends."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException

from harness.model.clock import now_ns
from harness.model.outcome import TxnOutcome
from harness.workload.meters import Place
from harness.workload.producers.loops import BurstResult
from harness.workload.producers.recording_producer import Tally
from harness.workload.producers.transactions import TransactionLoop
from harness.workload.watchdog import Hung

_TICK_S: Final = 0.05
_MARGIN_S: Final = 5.0


@dataclass(slots=True)
class _Asked:
    """One order to the thread that owns the client."""

    do: Callable[[], Any]
    done: threading.Event = field(default_factory=threading.Event)
    answer: Any = None


class SteppedTransactionLoop(TransactionLoop):
    """A burst opens a transaction when none is open; it stays open until a step ends it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._asked: queue.SimpleQueue[_Asked] = queue.SimpleQueue()
        self._open: tuple[int, int] | None = None  # id of the open transaction, and when its first record was sent
        self._failed_before = 0

    def burst(self, place: Place, records: int, deadline_s: float) -> BurstResult:
        """Sends records within the open transaction; waits up to `deadline_s` for their outcomes. From any thread."""
        tally = Tally()
        self._ask(lambda: self._fill(place, records, time.monotonic() + deadline_s, tally), deadline_s)
        return BurstResult.of(tally, records)

    def end(self, *, commit: bool, deadline_s: float) -> TxnOutcome:
        """Commits or aborts the open transaction; UNKNOWN when no answer came by the deadline. From any thread."""
        return self._ask(lambda: self._finish(commit=commit), deadline_s) or TxnOutcome.UNKNOWN

    def _ask(self, do: Callable[[], Any], deadline_s: float) -> Any:
        asked = _Asked(do)
        self._asked.put(asked)
        asked.done.wait(deadline_s + _MARGIN_S)
        return asked.answer

    def _run(self) -> None:
        self._initialise()
        while not self._stopping.is_set():
            try:
                asked = self._asked.get(timeout=_TICK_S)
            except queue.Empty:
                self.producer.poll(0.0)
                continue
            try:
                asked.answer = asked.do()
            finally:
                asked.done.set()
        if self._open is not None:
            self._finish(commit=False)

    def _fill(self, place: Place, records: int, give_up_at_s: float, tally: Tally) -> None:
        if self._open is None:
            self.producer.client.begin_transaction()
            self._open = (self.producer.context.numbers.transaction(), now_ns())
            self._failed_before = self.producer.failed_sends
        txn_id, _ = self._open
        while time.monotonic() < give_up_at_s and not self._stopping.is_set() and self.producer.fatal is None:
            if tally.queued < records:
                self.producer.queue(place, records - tally.queued, txn_id=txn_id, tally=tally)
            elif tally.settled:
                return
            self.producer.poll(_TICK_S)

    def _finish(self, *, commit: bool) -> TxnOutcome:
        if self._open is None:
            return TxnOutcome.UNKNOWN
        (txn_id, called_ns), self._open = self._open, None
        outcome = TxnOutcome.UNKNOWN
        try:
            whole = self.producer.flush(_MARGIN_S) and self.producer.failed_sends == self._failed_before
            if self.producer.fatal is None:
                outcome = self._end(commit=commit and whole)
        except KafkaException:
            pass  # the client is beyond use: unknown, and a new one
        except Hung as hung:
            self._give_up(f"a call of the transactional client {self.name} hangs ({hung})")
        self._write(txn_id, outcome, called_ns)
        if outcome is TxnOutcome.UNKNOWN and not self._stopping.is_set():
            self._renew()
        return outcome
