"""Threads that drive producers: steady load, and bursts that a step asks for."""

from __future__ import annotations

import queue
import threading
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Final

from harness.model.place import Place
from harness.workload.load_thread import LoadThread
from harness.workload.pacing import Pace
from harness.workload.producers.recording_producer import CHUNK, RecordingProducer, Tally

_TICK_S: Final = 0.05
# Within this time a paced producer sends to every partition once. Each time is a produce request of its own and a fetch
# by every follower; with shorter rounds these cost the brokers of a small machine more than the records.
ROUND_S: Final = 0.2
_CLOSE_FATAL_S: Final = 5.0


class ProducerLoop(LoadThread):
    """One thread that owns one producer."""

    def __init__(self, producer: RecordingProducer, close_s: float) -> None:
        super().__init__("producer", producer.spec.name)
        self.producer = producer
        self.name = producer.spec.name
        self.fatal: list[str] = []  # fatal errors, after each of which the client was replaced
        self._close_s = close_s

    @property
    def incarnations(self) -> int:
        """How many clients it has had, one after another."""
        return self.producer.incarnations

    def _live(self) -> None:
        self._run()
        self.producer.close(self._close_s)
        self.producer.release()

    @abstractmethod
    def _run(self) -> None:
        """Sends until `_stopping` is set."""

    def _renew_if_fatal(self) -> None:
        """Replaces a client after a fatal error, when it sends nothing more; the new one opens new streams."""
        if self.producer.fatal is not None:
            self.fatal.append(self.producer.fatal)
            self.producer.close(_CLOSE_FATAL_S)
            self.producer.open()


class SteadyLoop(ProducerLoop):
    """Sends to all partitions in turn, as fast as possible or at the rate of its producer."""

    def _run(self) -> None:
        producer = self.producer
        rate, turn = producer.spec.rate_per_s, 0
        pace = Pace(rate)
        while not self._stopping.is_set():
            started_s = time.monotonic()
            producer.renew_if_recreated()
            producer.add_partitions()
            places = producer.places
            share = CHUNK if rate is None else max(1, min(CHUNK, round(rate * ROUND_S / len(places))))
            taken = 0
            due = pace.due(CHUNK * len(places))
            for _ in range(min(due // share, len(places))):
                taken += producer.queue(places[turn % len(places)], share)
                turn += 1
            pace.spent(taken)
            busy = rate is None and taken
            producer.poll(0.0 if busy else max(0.0, _TICK_S - (time.monotonic() - started_s)))
            self._renew_if_fatal()


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstResult:
    """Outcomes of a burst. `unknown` includes sends not reported by the deadline; the offsets are acked ones."""

    acked: int
    unknown: int
    refused: int
    first_offset: int | None
    last_offset: int | None

    @classmethod
    def of(cls, tally: Tally, records: int) -> BurstResult:
        """The result for `records` that were asked for; the tally counts those that were queued in time."""
        return cls(
            acked=tally.acked,
            unknown=records - tally.acked - tally.refused,
            refused=tally.refused,
            first_offset=tally.first_offset,
            last_offset=tally.last_offset,
        )


@dataclass(slots=True)
class _Burst:
    place: Place
    records: int
    give_up_at_s: float
    tally: Tally = field(default_factory=Tally)
    done: threading.Event = field(default_factory=threading.Event)


class BurstLoop(ProducerLoop):
    """Sends the records that `burst` asks for, one burst at a time."""

    def __init__(self, producer: RecordingProducer, close_s: float) -> None:
        super().__init__(producer, close_s)
        self._asked: queue.SimpleQueue[_Burst] = queue.SimpleQueue()

    def burst(self, place: Place, records: int, deadline_s: float) -> BurstResult:
        """Sends `records` to one partition and waits up to `deadline_s` for their outcomes. From any thread."""
        asked = _Burst(place, records, time.monotonic() + deadline_s)
        self._asked.put(asked)
        asked.done.wait(deadline_s + 5.0)
        return BurstResult.of(asked.tally, records)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                asked = self._asked.get(timeout=_TICK_S)
            except queue.Empty:
                self.producer.poll(0.0)
                continue
            try:
                self._send(asked)
            finally:
                asked.done.set()

    def _send(self, asked: _Burst) -> None:
        tally = asked.tally
        self.producer.renew_if_recreated()
        while time.monotonic() < asked.give_up_at_s and not self._stopping.is_set():
            if tally.queued < asked.records:
                self.producer.queue(asked.place, asked.records - tally.queued, tally=tally)
            elif tally.settled:
                return
            self.producer.poll(_TICK_S)
            self._renew_if_fatal()
