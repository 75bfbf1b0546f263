"""An application of Kafka Streams: the rows of its frames, and its death. Its process is a fake."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaException

from harness.model.errors import HarnessFailure
from harness.workload.consumers.processing import ProcessorDeath, process_all, processor_lag
from harness.workload.java import kafka_streams
from harness.workload.java.java_process import DIED, Fields, JavaError, content, long, number
from harness.workload.java.kafka_streams import Rows, StreamsLoop, count_of, spans_of
from harness.workload.meters import Meters
from harness.workload.producers.recording_producer import ProducerContext, Target
from harness.workload.producers.streams import Numbers
from harness.workload.producers.transactions import TxnTables
from suites.unit.kafka.release.test_kafka_streams import JAVA, TEXT, read


class Table:
    """A table that keeps its rows in memory."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def append(self, columns: Any) -> None:
        lengths = {len(v) for v in columns.values() if isinstance(v, list)}
        for nth in range(lengths.pop() if lengths else 1):
            self.rows.append({k: v[nth] if isinstance(v, list) else v for k, v in columns.items()})

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def of(self, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row[c] for c in columns) for row in self.rows]


class Application:
    """The rows of an application, which gets its frames from the test."""

    def __init__(self, text: str = TEXT) -> None:
        self.spec = read(text).producers[1]
        self.ledger, self.reservations, self.transactions, self.commits, self.processed = (Table() for _ in range(5))
        self.context = ProducerContext(
            bootstrap="h:1",
            targets={t: Target(topic=t, topic_id=t.upper(), partitions=2) for t in ("a", "b")},
            numbers=Numbers(),
            meters=Meters(),
            ledger=self.ledger,
            reservations=self.reservations,
            run=5,
            seed=1,
            java=JAVA,
        )
        self.tables = TxnTables(transactions=self.transactions, offset_commits=self.commits, failed_calls=Table())
        self.rows = Rows(self.spec, self.context, self.tables, self.processed)

    def tell(self, *frames: bytes) -> None:
        for frame in frames:
            self.rows.frames[frame[:1]](Fields(frame))


def begun(what: bytes, at_ms: int = 1) -> bytes:
    return b"T" + what + long(at_ms)


def sent(seq: int, offset: int, at_ms: int = 7, lane: int = 1) -> bytes:
    return b"S" + number(lane) + long(seq) + long(at_ms) + number(0) + number(lane) + long(offset)


def acked(seq: int, offset: int, error: str = "", lane: int = 1) -> bytes:
    return b"A" + number(lane) + long(seq) + long(offset) + content(error)


def offsets(end: int, *, txn: bool = True, error: str = "", lane: int = 1) -> bytes:
    return b"O" + bytes([txn]) + long(8) + content(error) + number(1) + content("a") + number(lane) + long(end)


def test_a_committed_transaction_fills_all_tables() -> None:
    application = Application()
    assert application.rows.range(1) == (1, 20_000)
    application.tell(begun(b"b"), sent(0, 4), sent(1, 5), acked(0, 9), offsets(6))
    assert application.rows.unreported == 1
    assert application.rows.done == {}
    application.tell(acked(1, 10), begun(b"t"), begun(b"c"))
    application.rows.write()
    assert application.ledger.of("stream", "seq", "topic", "partition", "txn_id", "outcome", "offset", "called_ns") == [
        (1, 0, "b", 1, 1, "acked", 9, 7_000_000),
        (1, 1, "b", 1, 1, "acked", 10, 7_000_000),
    ]
    assert application.processed.of("processor", "topic", "partition", "offset", "stream", "seq") == [
        ("worker", "a", 1, 4, 1, 0),
        ("worker", "a", 1, 5, 1, 1),
    ]
    assert application.transactions.of("txn_id", "producer", "outcome") == [(1, "worker", "committed")]
    assert application.commits.of("group", "topic", "partition", "offset", "outcome", "txn_id") == [
        ("w", "a", 1, 6, "acked", 1)
    ]
    assert application.rows.done == {("a", 1): 6}
    assert application.context.meters.highest_acked() == {("b", 1): 10}
    ((client, transactional, idempotent),) = application.reservations.of("client", "transactional", "idempotent")
    assert (client, transactional, idempotent) == ("kafka-clients 4.3.1", True, True)


def test_sends_without_a_report_at_a_kill_are_unknown() -> None:
    application = Application()
    application.rows.range(1)
    application.tell(begun(b"b"), sent(0, 4), sent(1, 5), acked(0, 9), offsets(6), begun(b"t"))
    application.rows.over()
    assert application.ledger.of("seq", "outcome", "offset", "error") == [
        (0, "acked", 9, None),
        (1, "unknown", None, "_NO_REPORT"),
    ]
    assert application.transactions.of("outcome") == [("unknown",)]
    assert application.rows.done == {}
    assert application.rows.range(1) == (2, 20_000)  # another life, another stream
    assert dict(application.rows.outcomes) == {"unknown": 1}


@pytest.mark.parametrize(
    ("frames", "outcomes"),
    [
        ([begun(b"b"), begun(b"a")], ["aborted"]),
        ([begun(b"b"), begun(b"t"), begun(b"a")], ["unknown"]),  # the commit may have been carried out
        ([begun(b"b"), begun(b"b"), begun(b"c")], ["unknown", "committed"]),
        ([begun(b"c"), begun(b"a"), begun(b"t")], []),
    ],
)
def test_the_outcome_of_a_transaction_follows_from_its_frames(frames: list[bytes], outcomes: list[str]) -> None:
    application = Application()
    application.tell(*frames)
    assert [outcome for (outcome,) in application.transactions.of("outcome")] == outcomes


def test_offsets_that_were_not_committed_do_not_count_as_done() -> None:
    application = Application()
    application.tell(begun(b"b"), offsets(6, error="TimeoutException"), begun(b"t"), begun(b"c"))
    assert application.commits.of("outcome", "txn_id") == [("unknown", 1)]
    assert application.rows.done == {}


def test_the_next_process_reports_a_commit_without_an_answer() -> None:
    application = Application()
    application.tell(b"G" + number(1) + content("a") + number(0) + long(9))
    assert application.rows.done == {("a", 0): 9}
    assert application.commits.rows == []


def test_with_at_least_once_no_row_has_a_transaction() -> None:
    application = Application(
        TEXT.replace('at = "offsets"', 'at = "produced"').replace('"w" }', '"w", commits = "after" }')
    )
    application.rows.range(0)
    application.tell(sent(0, 4, lane=0), acked(0, -1, "NetworkException", lane=0), offsets(5, txn=False, lane=0))
    application.rows.write()
    assert application.ledger.of("txn_id", "outcome", "offset", "error") == [
        (None, "unknown", None, "NetworkException")
    ]
    assert application.commits.of("txn_id", "outcome") == [(None, "acked")]
    assert application.rows.done == {("a", 0): 5}
    assert application.reservations.of("transactional") == [(False,)]


class Scripted:
    """A process that runs one function of its script at each call of `attend`."""

    made: ClassVar[list[Scripted]] = []
    scripts: ClassVar[list[list[Any]]] = []

    def __init__(self, spec: Any, context: Any, rows: Rows, state_dir: str) -> None:
        self.rows, self.script = rows, list(Scripted.scripts.pop(0))
        self.state, self.why, self.holds = "RUNNING", "", None
        self.asked: list[str] = []
        Scripted.made.append(self)

    def attend(self, for_s: float) -> None:
        if not self.script:
            raise AssertionError("the script is over")
        self.script.pop(0)(self)

    def ask(self, what: str, *_: bytes, timeout_s: float) -> None:
        self.asked.append(what)

    def close(self, within_s: float) -> None:
        self.asked.append("close")

    def kill(self) -> None:
        self.asked.append("kill")

    def last_words(self) -> None:
        self.asked.append("last words")


def gone(_: Scripted) -> None:
    raise KafkaException(JavaError(DIED))


def played(monkeypatch: pytest.MonkeyPatch, application: Application, scripts: list[list[Any]]) -> StreamsLoop:
    monkeypatch.setattr(kafka_streams, "_Application", Scripted)
    Scripted.made, Scripted.scripts = [], scripts
    return StreamsLoop(application.spec, application.context, application.tables, application.processed)


def frames(*what: bytes) -> Any:
    def turn(app: Scripted) -> None:
        for frame in what:
            app.rows.frames[frame[:1]](Fields(frame))

    return turn


def test_it_is_killed_after_all_its_records_are_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application()
    application.rows.range(1)
    nothing = frames()

    def hold(app: Any) -> None:
        app.holds = {("a", 1): (4, 6)}

    def begin(app: Scripted) -> None:
        app.rows.range(1)
        frames(begun(b"b"), sent(0, 4), sent(1, 5), acked(0, 9))(app)

    first = [nothing, begin, hold, frames(acked(1, 10))]
    loop: StreamsLoop = played(monkeypatch, application, [first, [lambda _: loop.stop()]])
    death = ProcessorDeath(at="produced", records=2)
    loop._death = death
    loop._live()
    assert death.between == {("a", 1): (4, 6)}
    assert death.held == 2
    assert [app.asked for app in Scripted.made] == [
        ["die", "kill", "kill", "last words"],
        ["close", "kill", "last words"],
    ]
    assert application.ledger.of("seq", "outcome") == [(0, "acked"), (1, "acked")]
    assert application.transactions.of("outcome") == [("unknown",)]
    assert loop.incarnations == 2
    assert loop.outcomes == {"unknown": 1}


def test_it_lives_on_after_a_death_is_called_off(monkeypatch: pytest.MonkeyPatch) -> None:
    application, death = Application(), ProcessorDeath(at="produced", records=2)

    def call_off(_: Scripted) -> None:
        death.called_off = True

    loop: StreamsLoop = played(monkeypatch, application, [[frames(), call_off, lambda _: loop.stop()]])
    loop._death = death
    loop._live()
    assert Scripted.made[0].asked == ["die", "live", "close", "kill", "last words"]
    assert death.between is None


def test_a_process_that_ends_by_itself_is_restarted_at_most_20_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def broke(app: Scripted) -> None:
        app.state, app.why = "ERROR", "TaskCorruptedException"

    loop: StreamsLoop = played(monkeypatch, Application(), [[gone], [broke], [lambda _: loop.stop()]])
    loop._live()
    assert loop.incarnations == 3
    assert [why.partition(":")[0] for why in loop.errors] == ["_JAVA_DIED", "TaskCorruptedException"]
    again = played(monkeypatch, Application(), [[gone]] * 21)
    with pytest.raises(HarnessFailure, match="it ended by itself 21 times, the last time with _JAVA_DIED"):
        again._live()


def test_a_processor_with_lag_is_reported_with_its_last_state(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application()
    loop = played(monkeypatch, application, [])
    monkeypatch.setattr("harness.workload.consumers.processing._ALL_S", 0.1)
    assert process_all([loop], {("a", 0): 6, ("b", 0): 3}) == [
        "processor worker did not finish its input within 0.1 s: offsets left: {'a/0': 7}; it was never started"
    ]
    application.tell(offsets(7, txn=False, lane=0))
    loop._rows.done = application.rows.done
    assert process_all([loop], {("a", 0): 6}) == []
    assert processor_lag(loop.plan, {("a", 0): 6}, {("a", 0): 6}) == {"a/0": 1}


def test_spans_are_read_from_a_frame() -> None:
    frame = (
        b"H" + number(2) + content("a") + number(0) + long(4) + long(9) + content("a") + number(1) + long(0) + long(1)
    )
    spans = spans_of(Fields(frame))
    assert spans == {("a", 0): (4, 9), ("a", 1): (0, 1)}
    assert count_of(spans) == 6
