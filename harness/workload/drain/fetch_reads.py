"""Reads the replicas of one follower by requests to its own broker, where the cluster has no replica selector.

`replica_reads` leaves it to the leaders to send a consumer to a follower. Here each request goes to the broker whose
replicas are read, so which broker served a read needs no further proof.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.evidence.writer import TableWriter
from harness.kafka.admin.link import Link
from harness.kafka.admin.replica_fetch import Fetched, Wanted, fetch_replicas
from harness.kafka.admin.security import PLAINTEXT, Security
from harness.kafka.admin.wire import Unanswered
from harness.kafka.storage.fetched_records import Given, given
from harness.model.documents.record import Isolation
from harness.model.place import Place
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.drain.replica_reads import (
    COMMITTED,
    STALL_LEAST_S,
    Copy,
    ReadProgress,
    ReadTimeouts,
    progress_of,
    read_name,
)
from harness.workload.records.observations import POLL_RECORDS, Observer

_ANSWER_S: Final = 10.0
_PAUSE_S: Final = 0.1  # after an answer without a record
_OUT_OF_RANGE: Final = "OFFSET_OUT_OF_RANGE"


@dataclass(frozen=True, slots=True)
class DirectFetch:
    """The addresses of the brokers, and how connections to them are secured."""

    addresses: Mapping[int, tuple[str, int]]
    security: Security = PLAINTEXT


class FetchReader:
    """Reads the partitions that `broker` follows, from `broker`. As `CopyReader`, which the drain uses elsewhere."""

    def __init__(
        self,
        context: ReadContext,
        copies: Sequence[Copy],
        sentinels: Mapping[Place, int],
        direct: DirectFetch,
        *,
        isolation: Isolation,
        broker: int,
        timeouts: ReadTimeouts,
        attempt: int = 0,
    ) -> None:
        self.isolation = isolation
        self.broker: int | None = broker
        self.name = read_name(broker, isolation, attempt)
        self._context = context
        self._link = Link(direct.addresses[broker], direct.security)
        self._timeouts = timeouts
        self._cancelled = threading.Event()
        self._next: dict[Place, int] = {}
        self.reads = {
            copy.place: progress_of(copy, context, self.name, isolation, broker, sentinels.get(copy.place))
            for copy in copies
            if broker in copy.logs and broker != copy.leader
        }

    def run(self, observations: TableWriter) -> None:
        """Reads until every partition is at its target, or until a timeout; then `stuck_reason` says where it is."""
        observer = Observer(
            observations,
            self._context.topic_ids,
            self._context.run,
            reader=self.name,
            kind="replica",
            isolation=self.isolation,
            replicas={place: read.replica for place, read in self.reads.items()},
        )
        observer.new_session(list(self.reads))
        self._next = {place: read.start for place, read in self.reads.items()}
        try:
            self._read(observer)
        finally:
            self._link.close()
        observations.close()

    def cancel(self) -> None:
        """Ends the read at once, from any thread; what it has not reached stays unreached."""
        self._cancelled.set()
        self._link.close()

    def failed(self) -> list[Place]:
        """Partitions that were not read to the target."""
        return [place for place, read in self.reads.items() if not read.reached]

    def unsure(self) -> list[Place]:
        """Partitions to read again. A gap in a log is met by the read of the leader alone."""
        return self.failed()

    def _read(self, observer: Observer) -> None:
        budget, started_s = self._timeouts.budget, time.monotonic()
        progress_s = started_s
        while missing := [read for read in self.reads.values() if read.position < read.target]:
            moved = self._turn(observer, missing)
            now_s = time.monotonic()
            progress_s = now_s if moved else progress_s
            stall_s = budget.left_s(self._timeouts.stall_s, STALL_LEAST_S)
            late = now_s - progress_s > stall_s or now_s - started_s > self._timeouts.total_s
            if late or self._cancelled.is_set():
                for read in missing:
                    read.cut_short = stall_s < self._timeouts.stall_s
                    read.stuck_reason = self._stuck(read, now_s - started_s)
                if late:
                    budget.begin(f"the read {self.name} made no progress for {now_s - progress_s:.0f} s")
                return
            if not moved:
                self._cancelled.wait(_PAUSE_S)

    def _stuck(self, read: ReadProgress, after_s: float) -> str:
        why = read.stuck_reason or "no answer with a record"
        where = f"{read.topic}[{read.partition}] is stuck at offset {read.position} of {read.target}"
        return f"{where} after {after_s:.0f} s, read as {self.isolation} from broker {self.broker}: {why}"

    def _turn(self, observer: Observer, missing: Sequence[ReadProgress]) -> bool:
        """Asks once. True if a partition got further than before."""
        wanted = [Wanted(read.place, read.topic_id, self._next[read.place]) for read in missing]
        try:
            answers = fetch_replicas(self._link, wanted, self.isolation, _ANSWER_S)
        except Unanswered as silent:
            for read in missing:
                read.stuck_reason = str(silent)
            return False
        moved = [self._take(observer, self.reads[place], answer) for place, answer in answers.items()]
        return any(moved)

    def _take(self, observer: Observer, read: ReadProgress, answer: Fetched) -> bool:
        read.stuck_reason = answer.error
        if answer.error == _OUT_OF_RANGE and answer.log_start > self._next[read.place]:
            observer.new_session([read.place])  # retention has moved the log's start: the rest is read from there
            self._next[read.place] = answer.log_start
            return False
        if answer.error is not None:
            return False
        try:
            found = self._decoded(read, answer)
        except ValueError as damaged:
            read.stuck_reason = str(damaged)
            return False
        for at in range(0, len(found.records), POLL_RECORDS):
            observer.observe(list(found.records[at : at + POLL_RECORDS]))  # type: ignore[arg-type]
        if found.batches and self.broker is not None:
            read.served_by.add(self.broker)
        self._next[read.place] = found.next_offset
        moved = found.next_offset > read.position
        read.position = max(read.position, found.next_offset)
        return moved

    def _decoded(self, read: ReadProgress, answer: Fetched) -> Given:
        aborted = answer.aborted if self.isolation == COMMITTED else None
        return given(read.topic, read.partition, answer.batches, self._next[read.place], aborted)
