"""What an application of Kafka Streams tells of its work, as rows: records, transactions, offsets, and what of what.

Frames come through a pipe, which keeps what was told before a SIGKILL: a record is told before it is sent, so that none
in the log is of nobody's making. Times that begin something are the application's own clock's, which is the machine's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.outcome import Outcome, TxnOutcome
from harness.model.scenario.scenario import Producer
from harness.workload.java.java_process import Fields
from harness.workload.meters import NONE, Place
from harness.workload.producers.outcomes import NO_REPORT, outcome_of_offset_commit, outcome_of_send
from harness.workload.producers.recording_producer import ProducerContext
from harness.workload.producers.streams import Identity, Reservations, Stream
from harness.workload.producers.transactions import TxnTables

_MS_NS: Final = 10**6
_BATCH: Final = 500


@dataclass(slots=True)
class _Txn:
    number: int
    called_ns: int
    tried: bool = False  # its commit was asked for, whatever is said of it afterwards
    offsets: dict[Place, int] = field(default_factory=dict)


class Rows:
    """Of one application through all its lives; belongs to its thread. done: of each partition that it reads, the
    offset that is committed. frames: by their operations, what to do with each."""

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
        self._pending: dict[tuple[int, int], tuple[int, int | None]] = {}  # (lane, seq): when, in which transaction
        self._reported: list[dict[str, Any]] = []
        self._worked: list[dict[str, Any]] = []
        self._txn: _Txn | None = None
        self.frames: Mapping[bytes, Callable[[Fields], None]] = {
            b"S": self._sent,
            b"A": self._acked,
            b"T": self._transaction,
            b"O": self._offsets,
            b"G": self._known,
        }

    @property
    def unreported(self) -> int:
        """Records that were sent and of which nothing came back yet."""
        return len(self._pending)

    def range(self, lane: int) -> tuple[int, int]:
        """The stream of a partition of the sink, and up to which sequence it is reserved now; durably."""
        stream = self._lanes.get(lane)
        if stream is None:
            number, topic_id = self._context.numbers.stream(), self._context.targets[self._sink].topic_id
            stream = Stream(number=number, topic=self._sink, topic_id=topic_id, partition=lane)
            self._lanes[lane] = stream
        self._reservations.cover(stream, stream.reserved_end + 1)
        return stream.number, stream.reserved_end

    def over(self) -> None:
        """The application is gone: what it was not told of is unknown, and another one writes streams of its own."""
        for (lane, seq), (at_ms, txn) in sorted(self._pending.items()):
            self._tell(lane, seq, at_ms, txn, NO_REPORT, NONE)
        self._pending.clear()
        self._end(TxnOutcome.UNKNOWN)
        self.write()
        self._lanes.clear()

    def write(self) -> None:
        """Puts what was told into the tables."""
        for table, rows in ((self._processed, self._worked), (self._context.ledger, self._reported)):
            if rows:
                table.append({name: [row[name] for row in rows] for name in rows[0]})
                rows.clear()

    def _sent(self, frame: Fields) -> None:
        lane, seq, at_ms = frame.i32(), frame.i64(), frame.i64()
        topic, partition, offset = self._plan.reads[frame.i32()], frame.i32(), frame.i64()
        self._pending[lane, seq] = at_ms, None if self._txn is None else self._txn.number
        self.made += 1
        self._worked.append(
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
        if len(self._worked) >= _BATCH:
            self.write()

    def _acked(self, frame: Fields) -> None:
        lane, seq, offset, error = frame.i32(), frame.i64(), frame.i64(), frame.text()
        at_ms, txn = self._pending.pop((lane, seq))
        self._tell(lane, seq, at_ms, txn, error or None, offset)

    def _tell(self, lane: int, seq: int, at_ms: int, txn: int | None, error: str | None, offset: int) -> None:
        stream, at_ns = self._lanes[lane], now_ns()
        outcome, place = outcome_of_send(error, retries=True), (stream.topic, stream.partition)
        self._reported.append(
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
            self._end(TxnOutcome.UNKNOWN)  # one that was left open
            self._txn = _Txn(self._context.numbers.transaction(), at_ms * _MS_NS)
        elif self._txn is not None and what == "t":
            self._txn.tried = True
        elif self._txn is not None and what == "c":
            self.done = self.done | self._txn.offsets
            self._end(TxnOutcome.COMMITTED)
        elif self._txn is not None:
            self._end(TxnOutcome.UNKNOWN if self._txn.tried else TxnOutcome.ABORTED)

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

    def _known(self, frame: Fields) -> None:
        """Where the group stands when one begins: a commit may have been done whose answer nobody lived to hear."""
        self.done = self.done | _offsets_of(frame)


def _offsets_of(frame: Fields) -> dict[Place, int]:
    return {(frame.text(), frame.i32()): frame.i64() for _ in range(frame.i32())}


def spans_of(frame: Fields) -> dict[Place, tuple[int, int]]:
    """Of a frame: of each partition from which offset to behind which one it has worked and not committed."""
    return {(frame.text(), frame.i32()): (frame.i64(), frame.i64()) for _ in range(frame.i32())}


def count_of(spans: Mapping[Place, Sequence[int]]) -> int:
    """How many offsets that are."""
    return sum(end - first for first, end in spans.values())
