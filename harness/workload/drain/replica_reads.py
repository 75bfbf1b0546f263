"""Reads one replica of every partition from its start, and proves which broker served it.

Followers are read by follower fetching (KIP-392, `client.rack`), which moves no leader. A leader redirects a consumer
only to a follower in the ISR. So a read first waits until the client's statistics name the wanted broker for every
partition; then it starts again at the log's start, and the records before that do not count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from harness.evidence.writer import TableWriter
from harness.model.documents.reads import OffsetGap, Read, ReadKind
from harness.model.documents.record import Isolation
from harness.model.place import Place
from harness.model.wait_budget import WaitBudget
from harness.workload.client_errors import is_fatal
from harness.workload.consumers.live_readers import (
    EOF,
    JUMPS,
    UNREADABLE,
    Jumps,
    ReadContext,
    begin_at,
    serving_brokers,
    split,
)
from harness.workload.drain import offset_gaps
from harness.workload.records.observations import POLL_RECORDS, Observer
from harness.workload.settings import consumer_settings

COMMITTED: Final = "read_committed"
_STATISTICS_MS: Final = 100
_POLL_S: Final = 0.1
_DELEGATION_DEADLINE_S: Final = 20.0
_LOG_START_S: Final = 5.0
_NO_BROKER: Final = -1  # in statistics: no broker serves the partition now
# When the budget for waits is spent. A stall is longer than a gap of a leader must last.
STALL_LEAST_S: Final = 12.0
DELEGATION_LEAST_S: Final = 5.0
GAPS_FEW: Final = 3  # a read with more of them costs the budget
# A broker that gives the same records again and again makes evidence that nobody can judge: copies of one record are
# compared with each other. A read that has got so many times what its log holds, and these more, has shown it.
_REPEATS_MAX: Final = 4
_REPEATED_LEAST: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One partition after healing. logs: (log start, log end) by broker. segment_starts: as for `GapDetector`."""

    topic: str
    partition: int
    leader: int
    logs: Mapping[int, tuple[int, int]]
    segment_starts: tuple[int, ...] = ()

    @property
    def place(self) -> Place:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def log_end(self) -> int:
        """The highest log end of any replica."""
        return max((end for _, end in self.logs.values()), default=0)


@dataclass(slots=True, kw_only=True)
class ReadProgress:
    """The read of one partition by one reader so far. `target` and `position` are next offsets.

    `holes`: gaps in the log as (first, last + 1) offsets.
    """

    reader: str
    kind: ReadKind
    isolation: Isolation
    replica: int
    topic: str
    topic_id: str
    partition: int
    start: int
    target: int
    sentinel_offset: int | None
    position: int = -1
    stuck_reason: str | None = None
    holes: list[tuple[int, int]] = field(default_factory=list)
    served_by: set[int] = field(default_factory=set)
    cut_short: bool = False

    @property
    def place(self) -> Place:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def reached(self) -> bool:
        """Whether it was read to the target, and from the wanted replica."""
        return self.stuck_reason is None and self.position >= self.target

    def repeats(self, rows: int) -> bool:
        """Whether that many rows are too many for this log. Then the read says why it ends."""
        holds = self.target - max(self.start, 0)
        if rows <= _REPEATS_MAX * holds + _REPEATED_LEAST:
            return False
        self.stuck_reason = (
            f"{self.topic}[{self.partition}] gave {rows:,} records for {holds:,} offsets, the same ones again and "
            f"again, and the read was at offset {self.position} of {self.target}"
        )
        return True

    def record(self) -> Read:
        """The read as reads.json has it."""
        return Read(
            reader=self.reader,
            kind=self.kind,
            isolation=self.isolation,
            replica=self.replica,
            topic=self.topic,
            topic_id=self.topic_id,
            partition=self.partition,
            start=self.start,
            target=self.target,
            position=self.position,
            reached=self.reached,
            stuck_reason=self.stuck_reason,
            holes=tuple(OffsetGap(from_offset=low, to_offset=high) for low, high in self.holes),
            served_by=tuple(sorted(self.served_by)),
            sentinel_offset=self.sentinel_offset,
            cut_short=self.cut_short or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTimeouts:
    """How long a read may make no progress, and how long it may take in all; seconds. budget: of the run."""

    stall_s: float = 30.0
    total_s: float = 900.0
    budget: WaitBudget = field(default_factory=WaitBudget)


def read_name(broker: int | None, isolation: Isolation, attempt: int) -> str:
    """The name of a read of the leaders (`broker` None) or of one broker's copies, in the evidence."""
    replica = "leader" if broker is None else f"replica-{broker}"
    return f"{replica}-{isolation.removeprefix('read_')}{f'-again{attempt}' if attempt else ''}"


def progress_of(
    copy: Copy, context: ReadContext, name: str, isolation: Isolation, broker: int | None, sentinel: int | None
) -> ReadProgress:
    """A read of one copy that has not begun. sentinel: the offset of the record that shows the end, if it was acked."""
    replica = copy.leader if broker is None else broker
    return ReadProgress(
        reader=name,
        kind="drain" if broker is None else "replica",
        isolation=isolation,
        replica=replica,
        topic=copy.topic,
        topic_id=context.targets[copy.topic].topic_id,
        partition=copy.partition,
        start=copy.logs.get(replica, (0, 0))[0],
        target=max(copy.log_end, 0 if sentinel is None else sentinel + 1),
        sentinel_offset=sentinel,
    )


class CopyReader:
    """Reads all partitions from their leaders (`broker` None), or those that `broker` follows from `broker`."""

    def __init__(
        self,
        context: ReadContext,
        copies: Sequence[Copy],
        sentinels: Mapping[Place, int],
        *,
        isolation: Isolation,
        broker: int | None,
        timeouts: ReadTimeouts,
        attempt: int = 0,
    ) -> None:
        self._context = context
        self.isolation = isolation
        self.broker = broker
        self._timeouts = timeouts
        self._serving: dict[Place, tuple[int, int]] = {}
        self._statistics = 0
        self._cancelled = threading.Event()
        self._jumps = Jumps()
        # A follower may learn of a copied segment later than the leader, so its gap must last longer.
        after_s = offset_gaps.GAP_AFTER_S if broker is None else 2 * offset_gaps.GAP_AFTER_S
        self._gaps = offset_gaps.GapDetector({copy.place: copy.segment_starts for copy in copies}, after_s)
        self._skipping: dict[Place, tuple[int, int]] = {}  # the gap after which a read tries to continue
        self._ended: set[Place] = set()
        self.name = read_name(broker, isolation, attempt)
        wanted = [copy for copy in copies if broker is None or (broker in copy.logs and broker != copy.leader)]
        self.reads = {
            copy.place: progress_of(copy, context, self.name, isolation, broker, sentinels.get(copy.place))
            for copy in wanted
        }

    def run(self, observations: TableWriter) -> None:
        """Reads until every partition is at its target, or until a timeout; then `stuck_reason` says where it is."""
        observer = Observer(
            observations,
            self._context.topic_ids,
            self._context.run,
            reader=self.name,
            kind=self._kind,
            isolation=self.isolation,
            replicas={place: read.replica for place, read in self.reads.items()},
        )
        consumer = Consumer(self._settings())
        try:
            consumer.assign(self._starts())
            if self.broker is not None:
                self._wait_for_followers(consumer)
            self._read(consumer, observer)
        except (
            KafkaException
        ) as failure:  # a read that failed is evidence, but no statistics confirm which broker served
            unproven = [read for read in self.reads.values() if self.broker is not None or not read.reached]
            self._give_up(unproven, f"after {failure.args[0].str()}")
        finally:
            consumer.close()
        observations.close()

    def cancel(self) -> None:
        """Ends the read at once, from any thread; what it has not reached stays unreached."""
        self._cancelled.set()

    def failed(self) -> list[Place]:
        """Partitions that were not read to the target, or not from the wanted replica alone."""
        return [place for place, read in self.reads.items() if not read.reached or self._misserved(read)]

    def unsure(self) -> list[Place]:
        """Partitions to read again: those that failed, and those with a gap, which may have been temporary."""
        return [*self.failed(), *(place for place, read in self.reads.items() if read.reached and read.holes)]

    def _misserved(self, read: ReadProgress) -> bool:
        return self.broker is not None and read.served_by != {self.broker}

    @property
    def _kind(self) -> ReadKind:
        return "drain" if self.broker is None else "replica"

    def _settings(self) -> dict[str, object]:
        settings = consumer_settings(
            self._context.bootstrap,
            f"{self.name}-{self._context.run:x}",
            f"{self._context.access.prefix}{self.name}",
            self.isolation,
        )
        rack = {} if self.broker is None else {"client.rack": f"r{self.broker}"}
        return (
            settings
            | dict(self._context.access.settings)
            | rack
            | {
                "enable.partition.eof": True,
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._on_statistics,
                "fetch.min.bytes": 1,  # the load has stopped, so waiting for more bytes is useless
            }
        )

    def _starts(self) -> list[TopicPartition]:
        return [TopicPartition(*place, read.start) for place, read in self.reads.items()]

    def _on_statistics(self, text: str) -> None:
        """Called inside a poll. Records that arrived between two statistics came from a broker that one of them names.

        A partition has no broker for a moment when its leader moves or a connection breaks; then the client fetches
        from the leader, which redirects it again without a record.
        """
        self._context.access.note(self.name, text)
        serving = serving_brokers(text)
        for place, read in self.reads.items():
            broker, received = serving.get(place, (_NO_BROKER, 0))
            broker_before, received_before = self._serving.get(place, (broker, 0))
            if received > received_before:
                read.served_by |= {broker, broker_before} - {_NO_BROKER} or {_NO_BROKER}
        self._serving = serving
        self._statistics += 1

    def _wait_for_followers(self, consumer: Consumer) -> None:
        """Waits until the leaders have redirected this reader to its broker, then starts again at the log's start."""
        budget = self._timeouts.budget
        give_up_at = time.monotonic() + budget.left_s(_DELEGATION_DEADLINE_S, DELEGATION_LEAST_S)
        while self._elsewhere() and time.monotonic() < give_up_at and not self._cancelled.is_set():
            _, events = split(consumer.consume(POLL_RECORDS, _POLL_S))
            for event in events:
                if read := self._jumped(event):
                    self._follow_log_start(consumer, read)
        for place in self._elsewhere():
            broker = self._serving.get(place, (None, 0))[0]
            self.reads[place].stuck_reason = f"broker {broker} served it instead of broker {self.broker}"
        for start in self._starts():
            try:
                consumer.seek(start)
            except KafkaException:  # it has no position, see _follow_log_start
                begin_at(consumer, (start.topic, start.partition), start.offset)
        for read in self.reads.values():
            read.served_by.clear()

    def _jumped(self, event: Message) -> ReadProgress | None:
        """The read that the event is about, if it reports that the position is no longer in the log."""
        error, topic = event.error(), event.topic()
        assert error is not None
        if is_fatal(error):
            raise KafkaException(error)
        return self.reads[topic, int(event.partition() or 0)] if topic is not None and error.name() in JUMPS else None

    def _follow_log_start(self, consumer: Consumer, read: ReadProgress) -> None:
        """Moves the read to the new log start, if retention has moved it: otherwise the leader never redirects it."""
        with suppress(KafkaException):  # no answer from the leader now; the same event comes again
            marks = consumer.get_watermark_offsets(TopicPartition(*read.place), timeout=_LOG_START_S)
            read.start = read.start if marks is None else marks[0]
        begin_at(consumer, read.place, read.start)

    def _elsewhere(self) -> list[Place]:
        return [place for place in self.reads if self._serving.get(place, (None, 0))[0] != self.broker]

    def _read(self, consumer: Consumer, observer: Observer) -> None:
        observer.new_session(list(self.reads))
        budget, started_s = self._timeouts.budget, time.monotonic()
        progress_s = started_s
        while missing := [r for r in self.reads.values() if r.position < r.target and r.place not in self._ended]:
            if self._turn(consumer, observer):
                progress_s = time.monotonic()
            now_s = time.monotonic()
            stall_s = budget.left_s(self._timeouts.stall_s, STALL_LEAST_S)
            late = now_s - progress_s > stall_s or now_s - started_s > self._timeouts.total_s
            if late or self._cancelled.is_set():
                why = f"after {now_s - started_s:.0f} s"
                if stall_s < self._timeouts.stall_s:
                    self._cut_short(missing, why)
                self._give_up(missing, why)
                if late:
                    budget.begin(f"the read {self.name} made no progress for {now_s - progress_s:.0f} s")
                break
        self._confirm_brokers(consumer, observer)

    def _turn(self, consumer: Consumer, observer: Observer) -> bool:
        """Polls once. True if any partition got further than ever before: reading records again is no progress."""
        records, events = split(consumer.consume(POLL_RECORDS, _POLL_S))
        observer.observe(records)
        moved = False
        for place, offset in observer.next_offset.items() if records else ():
            moved |= self._advance(self.reads[place], offset)
        for event in events:
            moved |= self._on_event(consumer, observer, event)
        for place in observer.next_offset if records else ():
            self._end_repeats(consumer, self.reads[place], observer.rows[place])
        return moved

    def _end_repeats(self, consumer: Consumer, read: ReadProgress, rows: int) -> None:
        if read.place in self._ended or not read.repeats(rows):
            return
        self._ended.add(read.place)
        consumer.pause([TopicPartition(*read.place)])
        self._timeouts.budget.begin(f"the read {self.name} was given the same records again and again")

    def _on_event(self, consumer: Consumer, observer: Observer, event: Message) -> bool:
        if read := self._jumped(event):
            if (start := self._gaps.next_start(read.place, read.position)) is not None:
                self._skip_gap(consumer, observer, read, start)
            else:
                # Retention has moved the log's start: the rest is read from there.
                self._skipping.pop(read.place, None)
                self._jumps.resume(consumer, observer, read.place, read.position)
            return False
        error, topic = event.error(), event.topic()
        if topic is None or error is None or error.name() not in (EOF, UNREADABLE):
            return False
        read = self.reads[topic, int(event.partition() or 0)]
        if error.name() == UNREADABLE:
            self._on_unreadable(consumer, observer, read, int(event.offset() or 0))
            return False
        return self._advance(read, int(event.offset() or 0))

    def _on_unreadable(self, consumer: Consumer, observer: Observer, read: ReadProgress, offset: int) -> None:
        """Handles a leader that cannot read an offset. It is a gap if the read is at that offset and no part of the log
        starts there; a part that starts there exists and cannot be read, which is no gap."""
        if read.place in self._skipping or offset != max(read.position, read.start):
            return
        if self._gaps.is_start(read.place, offset):
            return
        if (start := self._gaps.next_start(read.place, offset)) is not None:
            self._skip_gap(consumer, observer, read, start)

    def _advance(self, read: ReadProgress, offset: int) -> bool:
        """Moves the position. False if it was there before. Only now, with an offset after it, a gap is recorded."""
        if offset <= read.position:
            return False
        if (gap := self._skipping.pop(read.place, None)) is not None:
            read.holes.append(gap)
        read.position = offset
        return True

    def _skip_gap(self, consumer: Consumer, observer: Observer, read: ReadProgress, start: int) -> None:
        """Continues after a gap in the leader's copy. The read of a follower ends here, since the leader would answer
        it; the next attempt starts after the gap."""
        if self.broker is not None:
            self._ended.add(read.place)
            self._give_up([read], "before a gap in the log")
            return
        if self._timeouts.budget.spent:
            self._ended.add(read.place)
            self._cut_short([read], "before a gap in the log")
            return
        if len(read.holes) >= GAPS_FEW:
            self._timeouts.budget.begin(f"the read {self.name} met {len(read.holes) + 1} gaps in one log")
        observer.new_session([read.place])
        self._skipping[read.place] = max(read.position, read.start), start
        begin_at(consumer, read.place, start)

    def _cut_short(self, missing: list[ReadProgress], why: str) -> None:
        """Gives up earlier than another read would: this one proves nothing about what it did not reach."""
        for read in missing:
            read.cut_short = True
        self._give_up(missing, f"{why}, cut short because of an earlier wait in vain: {self._timeouts.budget.cause}")

    def _give_up(self, missing: list[ReadProgress], why: str) -> None:
        for read in missing:
            read.stuck_reason = read.stuck_reason or (
                f"{read.topic}[{read.partition}] is stuck at offset {read.position} of {read.target} "
                f"{why}, read as {self.isolation} from broker {sorted(read.served_by)}"
            )

    def _confirm_brokers(self, consumer: Consumer, observer: Observer) -> None:
        """Waits for statistics that are newer than the last record, which show the broker that served the log's end."""
        statistics, give_up_at = self._statistics, time.monotonic() + 5.0
        while self._statistics < statistics + 2 and time.monotonic() < give_up_at:
            self._turn(consumer, observer)
        for place, read in self.reads.items():
            read.served_by = read.served_by or {self._serving.get(place, (_NO_BROKER, 0))[0]}
            if self._misserved(read):
                read.stuck_reason = read.stuck_reason or (
                    f"brokers {sorted(read.served_by)} served it instead of broker {self.broker} alone"
                )
