"""A consumer whose client commits by itself (enable.auto.commit), and an application that dies: by SIGKILL, as it is
a process of its own.

The release's own client commits in poll() what earlier polls gave, when auto.commit.interval.ms is over, and all of it
as it closes in order. It tells of each commit that was acknowledged (ConsumerInterceptor, KIP-42), and not when it
asked for it: at the earliest when the records before that offset were given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, Message, TopicPartition

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.outcome import Outcome
from harness.model.scenario.scenario import AUTO_AHEAD, Reader
from harness.workload.consumers.consumer_group import ASKED_WAIT_S
from harness.workload.consumers.crashing_consumer import CrashingReader, Death, spans
from harness.workload.consumers.live_readers import ReadContext
from harness.workload.meters import Place

AUTO: Final[dict[str, Any]] = {"enable.auto.commit": True, "auto.commit.interval.ms": 500}


class AutoReader(CrashingReader):
    """Processes what a poll gave before it polls again, or lets its client poll ahead (`commits`)."""

    def __init__(self, spec: Reader, context: ReadContext, observations: TableWriter, commits: TableWriter) -> None:
        super().__init__(spec, context, observations, commits)
        self._ahead = spec.commits == AUTO_AHEAD
        # Ends of what it was given since the last commit that was acknowledged, and when.
        self._given: dict[Place, list[tuple[int, int]]] = {}
        self._left: dict[Place, int] = {}  # by who died last, where it had processed to

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | AUTO | self.spec.config

    def _begin(self, consumer: Any) -> None:
        consumer.on_commit = self._committed_by_itself
        super()._begin(consumer)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for p in partitions:  # a commit of where it begins says nothing new, and may come all the same
            self._given.setdefault((p.topic, p.partition), []).append((0, now_ns()))
        super()._assigned(consumer, partitions)

    def _goes_on_from(self, starts: Mapping[Place, int]) -> None:
        """Who takes the place of a dead one is told what that had committed at last."""
        death = self._death
        if death is None or not self._left:
            return
        between = {place: (end, max(0, starts[place])) for place, end in self._left.items() if place in starts}
        self._left = {place: end for place, end in self._left.items() if place not in starts}
        death.between = (death.between or {}) | {p: (min(span), max(span)) for p, span in between.items()}

    def _process(self, consumer: Consumer, records: list[Message]) -> None:
        del consumer  # it commits by itself
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
        del consumer  # what it commits it does as it closes
        self._observer.observe(self._unprocessed())

    def _has_committed(self, death: Death) -> bool:
        return all(self._committed.get(place, 0) >= end for place, (_, end) in spans(death.held).items())

    def _dies(self, death: Death) -> None:
        ends = spans(death.held)
        self._left = {place: first if self._ahead else end for place, (first, end) in ends.items()}
        death.held, self._dead = [], True

    def _let_go(self, consumer: Any) -> None:
        """What was asked for and not answered may have been committed."""
        if self._dead:
            consumer.kill()
        else:
            consumer.close()
        for place, ends in self._given.items():
            for end, at_ns in ends:
                self._write(place, end, Outcome.UNKNOWN, at_ns, now_ns())
        self._given = {}

    def _commit(self, consumer: Consumer) -> None:
        """Asks what the coordinator has: evidence, as of who commits by himself."""
        if self._mine:
            self._ask(consumer, self._mine, ASKED_WAIT_S)

    def _committed_by_itself(self, offsets: Mapping[Place, int]) -> None:
        for place, offset in offsets.items():
            if self._committed.get(place) == offset:
                continue
            ends = self._given.get(place, [])
            called_ns = max((at_ns for end, at_ns in ends if end <= offset), default=now_ns())
            self._given[place] = [(end, at_ns) for end, at_ns in ends if end > offset]
            self._write(place, offset, Outcome.ACKED, called_ns, now_ns())
            self._committed[place] = offset
        self.acked_commits += 1
