"""Probes: after the drain, short reads from offsets at which no other reader starts.

A consumer that reads a log from its start always asks for the next offset. For any other offset a broker has to search:
with the offset index of a segment, in the middle of a batch, at the edge of a segment, at an offset that it returned
for a timestamp (KIP-79), at a group's committed offset, and below the log start, where it must serve nothing (KIP-107).

Each round has a new consumer, so that no message of an earlier round can be taken for its answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from harness.evidence.writer import BundleWriter
from harness.model.clock import now_ns
from harness.model.doubt_names import DoubtName
from harness.model.place import Place
from harness.model.schemas import ISOLATIONS
from harness.model.wait_budget import WaitBudget
from harness.workload.consumers.consumer_group import CLASSIC
from harness.workload.consumers.live_readers import EOF, JUMPS, ReadContext
from harness.workload.consumers.unserved_reads import UnservedRead
from harness.workload.drain.probe_places import COMMIT, Ask, Logs
from harness.workload.records.observations import Observer
from harness.workload.settings import consumer_settings

RECORDS: Final = 50  # enough for one read
ENOUGH, END, OUT_OF_RANGE, SILENT = "enough", "end", "out_of_range", "silent"
LEAST_S: Final = 10.0  # for all rounds, and for joining a group, when the budget for waits is spent
_POLL_S: Final = 0.05
_POLL_RECORDS: Final = 500
_AT_A_TIME: Final = 4
_SMALL: Final[dict[str, object]] = {
    "enable.partition.eof": True,
    "fetch.min.bytes": 1,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 256,
}
_FETCH_BYTES: Final = {
    # One batch of a producer. A larger one is returned nevertheless, but only for one partition of an answer (KIP-74).
    "read_uncommitted": 327_680,
    # As much as a follower appends at once. With less, releases up to 4.4 may return records of transactions without
    # saying that they were aborted, which is left to the scenario abort_search_ends_early.
    "read_committed": 1_048_576,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTimeouts:
    """Seconds for one round, for joining a group, for all rounds, and for one request of a log start."""

    round_s: float = 8.0
    join_s: float = 25.0
    total_s: float = 120.0
    marks_s: float = 5.0
    cut_short: bool = False

    def within(self, budget: WaitBudget) -> ProbeTimeouts:
        """The same when an earlier wait of the run had ended in vain."""
        total_s, join_s = budget.left_s(self.total_s, LEAST_S), budget.left_s(self.join_s, LEAST_S)
        return replace(self, total_s=total_s, join_s=join_s, cut_short=total_s < self.total_s)


@dataclass(slots=True)
class Answer:
    """The result of one read; `reported`: how it ended: ENOUGH records, the log's END, OUT_OF_RANGE, or SILENT."""

    ask: Ask
    asked_ns: int
    records: list[Message] = field(default_factory=list)
    reported: str = SILENT
    end_offset: int | None = None
    at_ns: int = 0

    @property
    def nothing(self) -> bool:
        """Whether there was no answer at all."""
        return self.reported == SILENT and not self.records


def probe(
    asks: Mapping[Place, Sequence[Ask]],
    groups: Mapping[str, Sequence[str]],
    logs: Logs,
    context: ReadContext,
    bundle: BundleWriter,
    timeouts: ProbeTimeouts | None = None,
) -> tuple[list[tuple[DoubtName, str]], list[UnservedRead]]:
    """Reads from all planned offsets; writes `probes`, and the records into `observations`.

    `groups`: the topics of each group that a probe joins. Returns a doubt for each read without an answer, and these
    reads. Another doubt for reads for which there was no time: the machine is too slow, unless an earlier wait had
    ended in vain.
    """
    timeouts = timeouts or ProbeTimeouts()
    give_up_at = time.monotonic() + timeouts.total_s
    probers = [Prober(asks, logs, context, isolation, timeouts, give_up_at) for isolation in ISOLATIONS]
    probers += [
        Joiner(logs, context, timeouts, give_up_at, group=group, topics=topics) for group, topics in groups.items()
    ]
    with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="probe") as pool:
        rows = [row for found in pool.map(lambda prober: prober.run(bundle), probers) for row in found]
    table = bundle.table("probes", "end")
    for row in rows:
        table.append(row)
    table.close()
    doubts = doubts_of(rows, [prober for prober in probers if logs.starts], cut_short=timeouts.cut_short)
    return doubts, [read for prober in probers for read in prober.unserved]


def doubts_of(
    rows: Sequence[Mapping[str, object]], probers: Sequence[Prober], *, cut_short: bool
) -> list[tuple[DoubtName, str]]:
    """The doubts of `probe`. cut_short: an earlier wait had ended in vain, so that there was less time."""
    silent = [_sentence(row) for row in rows if row["reported"] == SILENT and not row["records"]]
    silent += [f"{prober.name} got no partition to read" for prober in probers if not prober.asked]
    late = DoubtName.PROBE_UNANSWERED if silent or cut_short else DoubtName.PROBE_NOT_ASKED
    return [(DoubtName.PROBE_UNANSWERED, text) for text in silent] + [
        (late, f"{prober.name} had no time left for {prober.not_asked} of its reads")
        for prober in probers
        if prober.not_asked
    ]


def _sentence(row: Mapping[str, object]) -> str:
    return f"{row['reader']} got no answer for {row['topic']}/{row['partition']} from offset {row['offset']}"


class Prober:
    """The reads with one isolation level, in rounds: one read of each partition at a time."""

    def __init__(
        self,
        asks: Mapping[Place, Sequence[Ask]],
        logs: Logs,
        context: ReadContext,
        isolation: str,
        timeouts: ProbeTimeouts,
        give_up_at: float,
    ) -> None:
        self._asks, self._logs, self._context, self._isolation = asks, logs, context, isolation
        self._timeouts, self._give_up_at = timeouts, give_up_at
        self.name = f"probe-{isolation.removeprefix('read_')}"
        self._answers: list[tuple[int, Answer]] = []  # with the session of its records
        self.not_asked = 0  # reads for which there was no time

    @property
    def asked(self) -> int:
        """How many reads it has started."""
        return len(self._answers)

    @property
    def unserved(self) -> list[UnservedRead]:
        """Its reads that were given nothing."""
        asks = [answer.ask for _, answer in self._answers if answer.nothing]
        ids, settings = self._context.topic_ids, self._settings()
        return [UnservedRead.of(self.name, ask.place, ask.offset, ids[ask.place[0]], settings) for ask in asks]

    def run(self, bundle: BundleWriter) -> list[dict[str, object]]:
        """Reads, and returns the rows of `probes`."""
        table = bundle.table("observations", self.name)
        self._observer = Observer(
            table, self._context.topic_ids, self._context.run, reader=self.name, kind="probe", isolation=self._isolation
        )
        before = self._log_starts(self._places())
        self._ask_all()
        answers = [answer for _, answer in self._answers]
        after = self._log_starts({answer.ask.place for answer in answers})
        table.close()
        return [self._row(session, answer, before, after) for session, answer in self._answers]

    def _places(self) -> Iterable[Place]:
        return self._asks

    def _ask_all(self) -> None:
        self.not_asked = self._in_rounds([ask for asks in self._asks.values() for ask in asks])
        silent = [answered for answered in self._answers if answered[1].nothing]
        self._answers = [answered for answered in self._answers if not answered[1].nothing]
        self._in_rounds([answer.ask for _, answer in silent])
        asked = {answer.ask for _, answer in self._answers}
        self._answers += [answered for answered in silent if answered[1].ask not in asked]

    def _in_rounds(self, asks: Sequence[Ask]) -> int:
        """Asks until the time is over. Returns how many are left."""
        remaining = list(asks)
        while remaining and time.monotonic() < self._give_up_at:
            turn: dict[Place, Ask] = {}
            for ask in remaining:
                turn.setdefault(ask.place, ask)
            remaining = [ask for ask in remaining if turn[ask.place] is not ask]
            consumer = Consumer(self._settings())
            try:
                asked_ns = now_ns()
                consumer.assign([TopicPartition(*place, ask.offset) for place, ask in turn.items()])
                self._keep(self._collect(consumer, {place: Answer(ask, asked_ns) for place, ask in turn.items()}))
            finally:
                consumer.close()
        return len(remaining)

    def _settings(self) -> dict[str, object]:
        name = f"{self.name}-{self._context.run:x}"
        access = self._context.access.of(self.name)
        group = f"{self._context.access.prefix}{name}"
        settings = consumer_settings(self._context.bootstrap, name, group, self._isolation)
        return settings | _SMALL | {"max.partition.fetch.bytes": _FETCH_BYTES[self._isolation]} | access

    def _collect(
        self, consumer: Consumer, answers: dict[Place, Answer], within_s: float | None = None
    ) -> dict[Place, Answer]:
        """Polls until every read of the round has ended, or its timeout; an assignment may add to `answers`."""
        give_up_at = time.monotonic() + (within_s or self._timeouts.round_s)
        while time.monotonic() < give_up_at and not self._over(answers):
            for message in consumer.consume(_POLL_RECORDS, _POLL_S):
                answer = answers.get((str(message.topic()), int(message.partition() or 0)))
                if answer is not None and answer.reported == SILENT:
                    self._take(answer, message)
        return answers

    def _over(self, answers: Mapping[Place, Answer]) -> bool:
        return all(answer.reported != SILENT for answer in answers.values())

    def _take(self, answer: Answer, message: Message) -> None:
        error, offset = message.error(), int(message.offset() or 0)
        if error is None:
            answer.records.append(message)
            if len(answer.records) == RECORDS:
                answer.reported = ENOUGH
        # An end below the drain's position does not count: the high watermark of a new leader may lag (KIP-207).
        elif error.name() == EOF and offset >= self._logs.positions.get((answer.ask.place, self._isolation), 0):
            answer.reported, answer.end_offset = END, offset
        elif error.name() in JUMPS:
            answer.reported = OUT_OF_RANGE
        answer.at_ns = now_ns()

    def _keep(self, answers: Mapping[Place, Answer]) -> None:
        session = self._observer.new_session(list(answers))
        for answer in answers.values():
            self._observer.observe(answer.records)
            self._answers.append((session, answer))

    def _log_starts(self, places: Iterable[Place]) -> dict[Place, int]:
        """The log start of each partition, from its leader; partitions without an answer are left out."""
        starts: dict[Place, int] = {}
        consumer = Consumer(self._settings())
        try:
            for place in places:
                with suppress(KafkaException):
                    marks = consumer.get_watermark_offsets(TopicPartition(*place), timeout=self._timeouts.marks_s)
                    starts |= {} if marks is None else {place: int(marks[0])}
        finally:
            consumer.close()
        return starts

    def _row(
        self, session: int, answer: Answer, before: Mapping[Place, int], after: Mapping[Place, int]
    ) -> dict[str, object]:
        ask = answer.ask
        return {
            "reader": self.name,
            "session": session,
            "why": ask.why,
            "isolation": self._isolation,
            "topic": ask.place[0],
            "topic_id": self._context.topic_ids[ask.place[0]],
            "partition": ask.place[1],
            "offset": ask.offset,
            "time_ms": ask.time_ms,
            "log_start": before.get(ask.place),
            "log_start_after": after.get(ask.place),
            "records": len(answer.records),
            "reported": answer.reported,
            "end_offset": answer.end_offset,
            "asked_ns": answer.asked_ns,
            "at_ns": answer.at_ns or now_ns(),
        }


class Joiner(Prober):
    """A new member of a group, which starts at the group's committed offsets and commits nothing."""

    def __init__(
        self,
        logs: Logs,
        context: ReadContext,
        timeouts: ProbeTimeouts,
        give_up_at: float,
        *,
        group: str,
        topics: Sequence[str],
    ) -> None:
        super().__init__({}, logs, context, ISOLATIONS[0], timeouts, give_up_at)
        self.name = f"probe-group-{group}"
        self._group, self._topics = group, topics
        self._joined = False

    def _places(self) -> Iterable[Place]:
        return [place for place in self._logs.starts if place[0] in self._topics]

    def _settings(self) -> dict[str, object]:
        return super()._settings() | CLASSIC | {"group.id": self._group}

    def _ask_all(self) -> None:
        consumer, answers = Consumer(self._settings()), dict[Place, Answer]()

        def assigned(member: Consumer, partitions: list[TopicPartition]) -> None:
            with suppress(KafkaException):  # without the committed offsets there is nothing to compare with
                for reported in member.committed(partitions, self._timeouts.marks_s):
                    if reported.error is None and reported.offset >= 0:
                        ask = Ask((reported.topic, reported.partition), reported.offset, COMMIT)
                        answers[ask.place] = Answer(ask, now_ns())
            self._joined = True
            member.incremental_assign(partitions)  # the client fetches the committed offsets itself

        try:
            consumer.subscribe(list(self._topics), on_assign=assigned)
            self._keep(self._collect(consumer, answers, self._timeouts.join_s))
        finally:
            consumer.close()

    def _over(self, answers: Mapping[Place, Answer]) -> bool:
        return self._joined and super()._over(answers)
