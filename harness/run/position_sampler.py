"""Samples the offsets of every replica twice a second, from before the load to the end of the drain.

Each broker has a thread and a connection of its own, so a frozen or dead broker delays no other one. The judge compares
the samples with each other and with the history. A thread that died is a doubt: what it did not see nobody judges. One
that is only late to end is a note.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from harness.evidence.writer import BundleWriter, TableWriter
from harness.kafka.admin.positions import Position, Replica, SampledTopic, positions
from harness.kafka.admin.security import PLAINTEXT, Security
from harness.kafka.admin.wire import ANSWER_S, BROKEN, Connection, Unanswered
from harness.model.clock import now_ns
from harness.workload.load_thread import LoadThread

SAMPLE_S: Final = 0.5
UNCHANGED_S: Final = 10.0  # between rows of a replica with unchanged offsets
SILENCE_S: Final = 1.5  # the longest time between two answers of a broker that is not silent
# A frozen broker still has the connection, and answers on it when it is resumed. A new connection for each sample would
# fill the queue of its listener, and then its clients could not connect to it.
_HELD_S: Final = 10.0
_RETRY_S: Final = 2.0  # between connections that a broker does not answer
_END_S: Final = 3.0
_NS: Final = 10**9

Topics = Callable[[], Sequence[SampledTopic]]


class PositionSampler:
    """Writes the table `positions` while it is entered. Afterwards, as text: `died`, why threads ended early; `late`,
    which ones did not end."""

    def __init__(
        self,
        addresses: Mapping[int, tuple[str, int]],
        topics: Topics,
        bundle: BundleWriter,
        security: Security = PLAINTEXT,
    ) -> None:
        self.died: list[str] = []
        self.late: list[str] = []
        self._threads = [
            BrokerSampler(broker, address, topics, bundle.table("positions", f"broker-{broker}"), security)
            for broker, address in addresses.items()
        ]

    def __enter__(self) -> PositionSampler:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
            if problem := thread.join(_END_S):
                (self.died if thread.failure else self.late).append(problem)


class BrokerSampler(LoadThread):
    """Samples one broker until it is stopped, or until its table is closed."""

    def __init__(
        self,
        broker: int,
        address: tuple[str, int],
        topics: Topics,
        table: TableWriter,
        security: Security = PLAINTEXT,
    ) -> None:
        super().__init__("sampler of the positions of broker", str(broker))
        self._security = security
        self.tables = (table,)
        self._table = table
        self._broker = broker
        self._address = address
        self._topics = topics
        self._changes = Changes()
        self._connection: Connection | None = None

    def stop(self) -> None:
        """Also ends the wait for an answer."""
        super().stop()
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def _live(self) -> None:
        wait_s = 0.0
        while not self._stopping.wait(wait_s):
            began = time.monotonic()
            period_s = self._sample()
            wait_s = max(0.0, began + period_s - time.monotonic())
        self._disconnect()
        self._write(self._changes.silent())
        self._table.close()

    def _sample(self) -> float:
        """Asks once. Returns the time from this question to the next one."""
        try:
            connection = self._connected()
            asked_ns = now_ns()
            found = positions(connection, self._topics(), time.monotonic() + _HELD_S)
        except (*BROKEN, Unanswered) as broken:
            self._disconnect()
            self._write(self._changes.silent())
            return _RETRY_S if isinstance(broken, TimeoutError) else SAMPLE_S
        self._write(self._changes.answered(asked_ns, now_ns(), found))
        return SAMPLE_S

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._address, time.monotonic() + ANSWER_S, self._security)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write(self, rows: Sequence[PositionRow]) -> None:
        if rows:
            self._table.append(
                {
                    "broker": self._broker,
                    **{name: [getattr(row.replica, name) for row in rows] for name in Replica._fields},
                    **{name: [getattr(row, name) for row in rows] for name in ("asked_ns", "at_ns", "after_silence")},
                    **{name: [getattr(row.position, name) for row in rows] for name in Position.__slots__},
                }
            )


@dataclass(frozen=True, slots=True)
class PositionRow:
    """One answer about one replica. after_silence: it is the first one, or the first one after a silence."""

    replica: Replica
    position: Position
    asked_ns: int
    at_ns: int
    after_silence: bool


class Changes:
    """Chooses the answers of one broker that become rows: changes, first and last ones, and one every UNCHANGED_S."""

    def __init__(self) -> None:
        self._last: dict[Replica, PositionRow] = {}
        self._written_ns: dict[Replica, int] = {}  # time of the last row

    def answered(self, asked_ns: int, at_ns: int, found: Mapping[Replica, Position]) -> list[PositionRow]:
        """The rows that an answer adds, with the last answers about replicas that it does not contain."""
        late = {replica for replica, last in self._last.items() if at_ns - last.at_ns > SILENCE_S * _NS}
        rows = self._last_rows((self._last.keys() - found.keys()) | late)
        for replica, position in found.items():
            last = self._last.get(replica)
            row = PositionRow(replica, position, asked_ns, at_ns, after_silence=last is None)
            self._last[replica] = row
            if last is None or last.position != position or self._is_due(row):
                rows.append(row)
                self._written_ns[replica] = at_ns
        return rows

    def silent(self) -> list[PositionRow]:
        """The rows that a missing answer adds: the last answer about each replica."""
        return self._last_rows(self._last.keys())

    def _is_due(self, row: PositionRow) -> bool:
        return row.at_ns - self._written_ns[row.replica] >= UNCHANGED_S * _NS

    def _last_rows(self, replicas: Iterable[Replica]) -> list[PositionRow]:
        """The last answers about these replicas that are not rows yet. The next answer is the first one again."""
        last = [self._last.pop(replica) for replica in sorted(replicas)]
        return [row for row in last if row.at_ns != self._written_ns[row.replica]]
