"""An application of the release's own Kafka Streams, which is killed and begun again: `StreamsDriver.java` is it.

A process of its own runs a topology that makes one record of each that it is given. It dies by SIGKILL when it has
made what is not committed: with its transaction open, which its successor does not end, for Kafka Streams that keeps no
state has another transactional id in each of its lives. The coordinator does, when transaction.timeout.ms is over.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException

from harness.evidence.writer import TableWriter
from harness.model.errors import HarnessFailure
from harness.model.scenario.scenario import Producer
from harness.workload.consumers.processing import ProcessorDeath, not_done
from harness.workload.java.java_process import Fields, JavaProcess, content, long, number
from harness.workload.java.java_settings import streams_settings
from harness.workload.java.kafka_streams_rows import Rows, count_of, spans_of
from harness.workload.meters import Place
from harness.workload.producers.recording_producer import ProducerContext
from harness.workload.producers.transactions import TxnTables
from harness.workload.worker import Worker

_TICK_S: Final = 0.05
_CALL_S: Final = 10.0
_ARMED_S: Final = 60.0  # a process may have to start
_REPORTED_S: Final = 10.0  # what it has sent before it dies is to be in the log
_LAST_WORDS_S: Final = 5.0
_CLOSE_S: Final = 10.0
CLOSE_S: Final = 20.0
_LIVES_MAX: Final = 20  # that it ended by itself
_ENDED: Final = frozenset({"ERROR", "NOT_RUNNING"})


class _Application(JavaProcess):
    """One life of it."""

    def __init__(self, spec: Producer, context: ProducerContext, rows: Rows, state_dir: str) -> None:
        assert context.java is not None
        self.state, self.why = "STARTING", ""
        self.holds: dict[Place, tuple[int, int]] | None = None
        self._rows = rows
        partitions = context.targets[spec.topics[0]].partitions
        settings = streams_settings(spec, context.bootstrap, context.run, partitions, state_dir)
        super().__init__(context.java.of_streams(), "streams", settings)

    def event(self, frame: Fields) -> None:
        """What it tells without having been asked."""
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
        """Serves what it tells, and waits so long for the first. KafkaException when it is gone."""
        frame = self.take(for_s)
        while frame is not None:
            self.event(frame)
            frame = self.take(0.0)

    def last_words(self) -> None:
        """Reads what lies in the pipe of one that is gone."""
        give_up_at_s = time.monotonic() + _LAST_WORDS_S
        with suppress(KafkaException):
            while time.monotonic() < give_up_at_s:
                self.attend(_TICK_S)


class StreamsLoop(Worker):
    """One thread: the application, and whoever takes its place. Other threads may call `die` and `behind`."""

    def __init__(self, spec: Producer, context: ProducerContext, tables: TxnTables, processed: TableWriter) -> None:
        super().__init__("application", spec.name)
        assert spec.processes is not None
        self.name, self.spec, self.plan = spec.name, spec, spec.processes
        self.incarnations = 0
        self.fatal: list[str] = []
        self.errors: list[str] = []  # after which a life ended by itself
        self._context = context
        self._rows = Rows(spec, context, tables, processed)
        self._death: ProcessorDeath | None = None
        self._armed = threading.Event()
        self._seen = "it was never started"
        self._before = 0  # records that it had made when it was told to die

    # --- for other threads ---

    def die(self, death: ProcessorDeath) -> ProcessorDeath:
        """It dies at a moment of its work, as soon as it has made so many records that are not committed. Returns when
        it knows of that: from then on it commits nothing before."""
        self._armed.clear()
        self._death = death
        self._armed.wait(_ARMED_S)
        return death

    def behind(self, acked: Mapping[Place, int]) -> dict[str, int]:
        """How many offsets up to the highest acknowledged ones it has not committed, by partition; those only."""
        return not_done(self.plan, self._rows.done, acked)

    @property
    def state(self) -> str:
        """What was last seen of it."""
        return self._seen

    @property
    def outcomes(self) -> dict[str, int]:
        """How its transactions ended."""
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
                    self._let_die(app, armed)
                    return
            app.close(_CLOSE_S)
        except KafkaException as gone:
            self._ended_by_itself(str(gone.args[0]))

    def _arm(self, app: _Application, armed: ProcessorDeath | None) -> ProcessorDeath | None:
        """Tells it of a death that was ordered, or called off."""
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

    def _let_die(self, app: _Application, death: ProcessorDeath) -> None:
        """Kills it where it stands still, when what it has sent is in the log."""
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
            raise HarnessFailure(f"it ended by itself {len(self.errors)} times, at last with {why}")
