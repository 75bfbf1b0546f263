"""An application of the release's own Kafka Streams, which is killed and started again; see `StreamsDriver.java`.

A process of its own runs a topology that writes one record for each that it reads. It dies by SIGKILL after it has
written records that are not committed, with its transaction open. Its successor does not abort that transaction, since
a Kafka Streams application without state has a new transactional id in each process; the coordinator aborts it after
transaction.timeout.ms.

The process reports its work in frames through a pipe, and the pipe keeps them after a SIGKILL. It reports a record
before it sends it, so that no record in a log is of unknown origin. Start times are from the process's clock, which is
the machine's clock.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaException

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.errors import HarnessFailure
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.place import Place
from harness.model.scenario.scenario import Producer
from harness.workload.consumers.processing import ProcessorDeath, processor_lag
from harness.workload.java.java_process import Fields, JavaProcess, content, long, number
from harness.workload.java.java_settings import streams_settings
from harness.workload.load_thread import LoadThread
from harness.workload.meters import NONE
from harness.workload.producers.outcomes import NO_REPORT, outcome_of_offset_commit, outcome_of_send
from harness.workload.producers.recording_producer import ProducerContext
from harness.workload.producers.streams import Identity, Reservations, Stream
from harness.workload.producers.transactions import TxnTables

_MS_NS: Final = 10**6
_BATCH: Final = 500
_TICK_S: Final = 0.05
_CALL_S: Final = 10.0
_ARMED_S: Final = 60.0  # a process may have to start first
_REPORTED_S: Final = 10.0  # until all records that it has sent before its death are acknowledged
_LAST_WORDS_S: Final = 5.0
_CLOSE_S: Final = 10.0
CLOSE_S: Final = 20.0
_LIVES_MAX: Final = 20  # how many times it may end by itself
_ENDED: Final = frozenset({"ERROR", "NOT_RUNNING"})


@dataclass(slots=True)
class _Txn:
    number: int
    called_ns: int
    committing: bool = False  # its commit was requested, so it may be committed whatever the process reports later
    offsets: dict[Place, int] = field(default_factory=dict)


class Rows:
    """Turns the frames of one application, through all its processes, into table rows. Belongs to its thread.

    `done`: the committed offset of each partition that it reads. `frames`: the handler of each kind of frame. A `lane`
    in a frame is a partition of the output topic, and so a stream of the ledger.
    """

    def __init__(self, spec: Producer, context: ProducerContext, tables: TxnTables, processed: TableWriter) -> None:
        assert spec.processes is not None
        assert context.java is not None
        self.done: dict[Place, int] = {}
        self.outcomes: Counter[str] = Counter()
        self.made = 0
        self._spec, self._context, self._tables, self._processed = spec, context, tables, processed
        self._plan = spec.processes
        (self._sink,) = spec.topics
        who = Identity(
            producer=spec.name,
            acks="all",
            idempotent=True,
            transactional=self._plan.commits == "transaction",
            client=context.java.name,
        )
        self._reservations = Reservations(context.reservations, who)
        self._lanes: dict[int, Stream] = {}
        self._pending: dict[tuple[int, int], tuple[int, int | None]] = {}  # (lane, seq): send time, transaction
        self._ledger_rows: list[dict[str, object]] = []
        self._processed_rows: list[dict[str, object]] = []
        self._txn: _Txn | None = None
        self.frames: Mapping[bytes, Callable[[Fields], None]] = {
            b"S": self._sent,
            b"A": self._acked,
            b"T": self._transaction,
            b"O": self._offsets,
            b"G": self._committed,
        }

    @property
    def unreported(self) -> int:
        """Records that were sent and have no report yet."""
        return len(self._pending)

    def range(self, lane: int) -> tuple[int, int]:
        """The stream of an output partition and the end of its reserved sequences, after a new reservation on disk."""
        stream = self._lanes.get(lane)
        if stream is None:
            number, topic_id = self._context.numbers.stream(), self._context.targets[self._sink].topic_id
            stream = Stream(number=number, topic=self._sink, topic_id=topic_id, partition=lane)
            self._lanes[lane] = stream
        self._reservations.cover(stream, stream.reserved_end + 1)
        return stream.number, stream.reserved_end

    def over(self) -> None:
        """The process has ended: sends without a report are unknown, and the next process opens new streams."""
        for (lane, seq), (at_ms, txn) in sorted(self._pending.items()):
            self._report(lane, seq, at_ms, txn, NO_REPORT, NONE)
        self._pending.clear()
        self._end(TxnOutcome.UNKNOWN)
        self.write()
        self._lanes.clear()

    def write(self) -> None:
        """Writes the collected rows into the tables."""
        for table, rows in ((self._processed, self._processed_rows), (self._context.ledger, self._ledger_rows)):
            if rows:
                table.append({name: [row[name] for row in rows] for name in rows[0]})
                rows.clear()

    def _sent(self, frame: Fields) -> None:
        lane, seq, at_ms = frame.i32(), frame.i64(), frame.i64()
        topic, partition, offset = self._plan.reads[frame.i32()], frame.i32(), frame.i64()
        self._pending[lane, seq] = at_ms, None if self._txn is None else self._txn.number
        self.made += 1
        self._processed_rows.append(
            {
                "processor": self._spec.name,
                "topic": topic,
                "topic_id": self._context.targets[topic].topic_id,
                "partition": partition,
                "offset": offset,
                "stream": self._lanes[lane].number,
                "seq": seq,
            }
        )
        if len(self._processed_rows) >= _BATCH:
            self.write()

    def _acked(self, frame: Fields) -> None:
        lane, seq, offset, error = frame.i32(), frame.i64(), frame.i64(), frame.text()
        at_ms, txn = self._pending.pop((lane, seq))
        self._report(lane, seq, at_ms, txn, error or None, offset)

    def _report(self, lane: int, seq: int, at_ms: int, txn: int | None, error: str | None, offset: int) -> None:
        stream, at_ns = self._lanes[lane], now_ns()
        outcome, place = outcome_of_send(error, retries=True), (stream.topic, stream.partition)
        self._ledger_rows.append(
            {
                "stream": stream.number,
                "seq": seq,
                "topic": stream.topic,
                "topic_id": stream.topic_id,
                "partition": stream.partition,
                "txn_id": txn,
                "outcome": outcome.value,
                "offset": offset if offset >= 0 else None,
                "called_ns": at_ms * _MS_NS,
                "returned_ns": at_ns,
                "error": error,
            }
        )
        if outcome is Outcome.ACKED:
            self._context.meters.acked(place, [at_ms * _MS_NS], self._spec.mean_bytes, offset, at_ns)
        elif error is not None:
            self._context.meters.failed(error, unknown=outcome is Outcome.UNKNOWN)

    def _transaction(self, frame: Fields) -> None:
        what, at_ms = chr(frame.byte()), frame.i64()
        if what == "b":
            self._end(TxnOutcome.UNKNOWN)  # an earlier one that is still open
            self._txn = _Txn(self._context.numbers.transaction(), at_ms * _MS_NS)
        elif self._txn is not None and what == "t":
            self._txn.committing = True
        elif self._txn is not None and what == "c":
            self.done = self.done | self._txn.offsets
            self._end(TxnOutcome.COMMITTED)
        elif self._txn is not None:
            self._end(TxnOutcome.UNKNOWN if self._txn.committing else TxnOutcome.ABORTED)

    def _end(self, outcome: TxnOutcome) -> None:
        txn, self._txn = self._txn, None
        if txn is None:
            return
        self.outcomes[outcome.value] += 1
        self._tables.transactions.append(
            {
                "txn_id": txn.number,
                "producer": self._spec.name,
                "outcome": outcome.value,
                "called_ns": txn.called_ns,
                "ended_ns": now_ns(),
            }
        )

    def _offsets(self, frame: Fields) -> None:
        in_txn, at_ms, error = bool(frame.byte()), frame.i64(), frame.text() or None
        offsets = _offsets_of(frame)
        txn = self._txn if in_txn else None
        if error is None and txn is not None:
            txn.offsets.update(offsets)
        elif error is None:
            self.done = self.done | offsets
        for (topic, partition), offset in offsets.items():
            self._tables.offset_commits.append(
                {
                    "group": self._plan.group,
                    "topic": topic,
                    "topic_id": self._context.targets[topic].topic_id,
                    "partition": partition,
                    "offset": offset,
                    "outcome": outcome_of_offset_commit(error).value,
                    "txn_id": None if txn is None else txn.number,
                    "called_ns": at_ms * _MS_NS,
                    "returned_ns": now_ns(),
                }
            )

    def _committed(self, frame: Fields) -> None:
        """The group's offsets at the start of a process: the commit before may have succeeded without an answer."""
        self.done = self.done | _offsets_of(frame)


def _offsets_of(frame: Fields) -> dict[Place, int]:
    return {(frame.text(), frame.i32()): frame.i64() for _ in range(frame.i32())}


def spans_of(frame: Fields) -> dict[Place, tuple[int, int]]:
    """From a frame: by partition the offsets [first, last + 1) that it has processed and not committed."""
    return {(frame.text(), frame.i32()): (frame.i64(), frame.i64()) for _ in range(frame.i32())}


def count_of(spans: Mapping[Place, Sequence[int]]) -> int:
    """The number of offsets in spans."""
    return sum(end - first for first, end in spans.values())


class _Application(JavaProcess):
    """One process of the application."""

    def __init__(self, spec: Producer, context: ProducerContext, rows: Rows, state_dir: str) -> None:
        assert context.java is not None
        self.state, self.why = "STARTING", ""
        self.holds: dict[Place, tuple[int, int]] | None = None
        self._rows = rows
        partitions = context.targets[spec.topics[0]].partitions
        settings = streams_settings(spec, context.bootstrap, context.run, partitions, state_dir)
        super().__init__(context.java.of_streams(), "streams", settings)

    def event(self, frame: Fields) -> None:
        """Handles a frame that is no answer to a request."""
        if (do := self._rows.frames.get(frame.op)) is not None:
            do(frame)
        elif frame.op == b"V":
            lane = frame.i32()
            stream, end = self._rows.range(lane)
            self.send(b"S", number(stream), long(end))
        elif frame.op == b"H":
            self.holds = spans_of(frame)
        elif frame.op == b"Z":
            self.state, why = frame.text(), frame.text()
            self.why = why or self.why

    def attend(self, for_s: float) -> None:
        """Handles all frames that have arrived; waits up to `for_s` for the first. KafkaException if it has ended."""
        frame = self.take(for_s)
        while frame is not None:
            self.event(frame)
            frame = self.take(0.0)

    def last_words(self) -> None:
        """Handles the frames that are still in the pipe after the process has ended."""
        give_up_at_s = time.monotonic() + _LAST_WORDS_S
        with suppress(KafkaException):
            while time.monotonic() < give_up_at_s:
                self.attend(_TICK_S)


class StreamsLoop(LoadThread):
    """One thread: the application, and after a death the next process. Other threads may call `die` and `lag`."""

    def __init__(self, spec: Producer, context: ProducerContext, tables: TxnTables, processed: TableWriter) -> None:
        super().__init__("application", spec.name)
        assert spec.processes is not None
        self.name, self.spec, self.plan = spec.name, spec, spec.processes
        self.incarnations = 0
        self.fatal: list[str] = []
        self.errors: list[str] = []  # with which processes ended by themselves
        self._context = context
        self._rows = Rows(spec, context, tables, processed)
        self._death: ProcessorDeath | None = None
        self._armed = threading.Event()
        self._seen = "it was never started"
        self._before = 0  # records that it had written when its death was ordered

    # --- for other threads ---

    def die(self, death: ProcessorDeath) -> ProcessorDeath:
        """Orders a death at a moment of its work, with `death.records` records written and not committed.

        Returns when the process has the order: from then on it commits nothing before its death.
        """
        self._armed.clear()
        self._death = death
        self._armed.wait(_ARMED_S)
        return death

    def lag(self, acked: Mapping[Place, int]) -> dict[str, int]:
        """How many offsets up to `acked` it has not committed, by "topic/partition"; only partitions with lag."""
        return processor_lag(self.plan, self._rows.done, acked)

    @property
    def state(self) -> str:
        """Its last known state, for messages."""
        return self._seen

    @property
    def outcomes(self) -> dict[str, int]:
        """The number of its transactions by outcome."""
        return dict(self._rows.outcomes)

    # --- the application ---

    def _live(self) -> None:
        with tempfile.TemporaryDirectory(prefix="kafka-streams-") as state_dir:
            while not self._stopping.is_set():
                self.incarnations += 1
                app = _Application(self.spec, self._context, self._rows, state_dir)
                try:
                    self._run(app)
                finally:
                    app.kill()
                    app.last_words()
                    self._rows.over()

    def _run(self, app: _Application) -> None:
        armed: ProcessorDeath | None = None
        try:
            while not self._stopping.is_set():
                app.attend(_TICK_S)
                self._rows.write()
                self._seen = f"its state is {app.state}{f', after {app.why}' if app.why else ''}"
                if app.state in _ENDED:
                    self._ended_by_itself(app.why or app.state)
                    return
                armed = self._arm(app, armed)
                if armed is not None and app.holds is not None:
                    self._kill(app, armed)
                    return
            app.close(_CLOSE_S)
        except KafkaException as gone:
            self._ended_by_itself(str(gone.args[0]))

    def _arm(self, app: _Application, armed: ProcessorDeath | None) -> ProcessorDeath | None:
        """Passes on to the process that a death was ordered or called off."""
        death = self._death
        if death is not None and death.called_off:
            app.ask("live", timeout_s=_CALL_S)
            self._death = app.holds = None
            return None
        if death is not None and death is not armed:
            app.ask("die", content(death.at), number(death.records), timeout_s=_CALL_S)
            self._before = self._rows.made
            self._armed.set()
        if death is not None:
            death.held = self._rows.made - self._before
        return death

    def _kill(self, app: _Application, death: ProcessorDeath) -> None:
        """Kills the process, which stands still at the ordered moment, once the log has all records that it sent."""
        give_up_at_s = time.monotonic() + _REPORTED_S
        while self._rows.unreported and time.monotonic() < give_up_at_s:
            app.attend(_TICK_S)
        assert app.holds is not None
        app.kill()
        self._death, spans = None, app.holds
        death.held, death.unlogged = count_of(spans), self._rows.unreported
        death.between = spans

    def _ended_by_itself(self, why: str) -> None:
        self.errors.append(why)
        if len(self.errors) > _LIVES_MAX:
            raise HarnessFailure(f"it ended by itself {len(self.errors)} times, the last time with {why}")
