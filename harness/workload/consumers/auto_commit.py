"""A consumer with enable.auto.commit in a process of its own, which dies by SIGKILL like an application.

The Java client commits inside poll() the records of earlier polls, every auto.commit.interval.ms, and commits all of
them when it closes in order. It reports each acknowledged commit (ConsumerInterceptor, KIP-42) but not when it sent it:
at the earliest when it returned the records before that offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from confluent_kafka import Consumer, Message, TopicPartition

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.outcome import Outcome
from harness.model.place import Place
from harness.model.scenario.scenario import AUTO_AHEAD, Reader
from harness.workload.consumers.consumer_group import ASKED_WAIT_S
from harness.workload.consumers.crashing_consumer import CrashingReader, Death, spans
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.java.java_consumer import JavaConsumer

AUTO: Final[dict[str, object]] = {"enable.auto.commit": True, "auto.commit.interval.ms": 500}


class AutoReader(CrashingReader):
    """Processes the records of a poll before it polls again, or polls ahead and processes later (`commits`)."""

    def __init__(self, spec: Reader, context: ReadContext, observations: TableWriter, commits: TableWriter) -> None:
        super().__init__(spec, context, observations, commits)
        self._ahead = spec.commits == AUTO_AHEAD
        # The next offset and the time of each poll since the last acknowledged commit.
        self._given: dict[Place, list[tuple[int, int]]] = {}
        self._processed_to: dict[Place, int] = {}  # by the member that died last; next offsets

    def _settings(self) -> dict[str, object]:
        return super()._settings() | AUTO | self.spec.config

    def _begin(self, consumer: Consumer) -> None:
        cast(JavaConsumer, consumer).on_commit = self._auto_committed
        super()._begin(consumer)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for p in partitions:  # the client may commit the position at which it starts
            self._given.setdefault((p.topic, p.partition), []).append((0, now_ns()))
        super()._assigned(consumer, partitions)

    def _note_committed(self, committed: Mapping[Place, int]) -> None:
        """Completes `between` of the death: the last committed offsets are known only to the member's successor."""
        death = self._death
        if death is None or not self._processed_to:
            return
        known = {p: (end, max(0, committed[p])) for p, end in self._processed_to.items() if p in committed}
        self._processed_to = {p: end for p, end in self._processed_to.items() if p not in committed}
        death.between = (death.between or {}) | {p: (min(span), max(span)) for p, span in known.items()}

    def _process(self, consumer: Consumer, records: list[Message]) -> None:
        del consumer  # the client commits by itself
        at_ns = now_ns()
        for place, (_, end) in spans(records).items():
            self._given.setdefault(place, []).append((end, at_ns))
        death = self._death
        if death is not None and death.called_off:
            self._death, records = None, self._unprocessed() + records
        elif death is not None and death.between is None:
            death.held += records
            if not self._ahead:
                self._observer.observe(records)
            if len(death.held) >= death.records and (not self._ahead or self._has_committed(death)):
                self._dies(death)
            return
        self._observer.observe(records)

    def _unprocessed(self) -> list[Message]:
        return self._death.held if self._death is not None and self._ahead else []

    def _end(self, consumer: Consumer) -> None:
        del consumer  # the client commits when it closes
        self._observer.observe(self._unprocessed())

    def _has_committed(self, death: Death) -> bool:
        return all(self._committed.get(place, 0) >= end for place, (_, end) in spans(death.held).items())

    def _dies(self, death: Death) -> None:
        ends = spans(death.held)
        self._processed_to = {place: first if self._ahead else end for place, (first, end) in ends.items()}
        death.held, self._dead = [], True

    def _close_consumer(self, consumer: Consumer) -> None:
        """Also writes rows of unknown outcome for offsets that the client may have committed without a report."""
        if self._dead:
            cast(JavaConsumer, consumer).kill()
        else:
            consumer.close()
        for place, ends in self._given.items():
            for end, at_ns in ends:
                self._write(place, end, Outcome.UNKNOWN, at_ns, now_ns())
        self._given = {}

    def _commit(self, consumer: Consumer) -> None:
        """Only asks the coordinator for the committed offsets: evidence like that of `GroupReader`."""
        if self._mine:
            self._ask(consumer, self._mine, ASKED_WAIT_S)

    def _auto_committed(self, offsets: Mapping[Place, int]) -> None:
        for place, offset in offsets.items():
            if self._committed.get(place) == offset:
                continue
            ends = self._given.get(place, [])
            called_ns = max((at_ns for end, at_ns in ends if end <= offset), default=now_ns())
            self._given[place] = [(end, at_ns) for end, at_ns in ends if end > offset]
            self._write(place, offset, Outcome.ACKED, called_ns, now_ns())
            self._committed[place] = offset
        self.acked_commits += 1
